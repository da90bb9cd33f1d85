"""What a secret looks like: it is in nothing that is shown or sent, and little else changes."""

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.archive.redact import Redaction
from runner.base.masking import MASKED, Masks, is_secret
from runner.folder import names
from runner.folder.campaign import Campaign
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, torch_gpt, write

X = "Zq7secretZq7"
HIDDEN = [
    f"--hf-token {X}",
    f"--api-key={X}",
    f"--api-key '{X} {X}'",
    f"WANDB_API_KEY={X} torchrun train.py",
    f'export HF_TOKEN="{X}"',
    f"args: ['train.py', '--hf-token', '{X}', '--lr', '1']",
    f'{{"hf_token": "{X}", "lr": 1}}',
    f"Namespace(api_key='{X}', lr=1)",
    f"  hf_token ........................ {X}",
    f"password: {X}",
    f"os.environ['WANDB_API_KEY'] = '{X}'",
    f'escaped {{\\"api_key\\": \\"{X}\\"}}',
    f"https://x.org/?access_token={X}&a=1",
    f"Authorization: Bearer {X}",
    f"https://bob:{X}@x.org/y",
    f"--hf-token \x1b[31m{X[:5]}\x1b[0m{X[5:]}",
    f"--hf-\x1b[0mtoken={X}",
    f"HF_TOKEN={X[:4]}a\b{X[4:]}",
    f"HF_TOKEN -> {X}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{X}\n{X}\n-----END RSA PRIVATE KEY-----",
    f"--password {X}\r",
    f"[rank3]: 2026-01-01 --hf_token={X}",
    f"İ HF_TOKEN={X}",
    f"token: {X}{X}",
    f"MYSQL_PWD={X} mysqldump",
    f"export SSHPASS={X}",
    f"SMTP_PASS={X} --db-pass {X}",
    f"machine x login me password {X}",
]
KEPT = [
    "tokens: 4096 tokens_per_s=12.5 loss per token: 2.31 token 5",
    "eos_token='<|endoftext|>' pad_token: [PAD] bos_token_id=1 token_id: 7 tokenizer=gpt2",
    "HF_TOKEN=$HF_TOKEN api_key=None token: null password: '' secret=***",
    "SyntaxError: unexpected token: here",
    "allocated in private pools (e.g., CUDA Graphs)",
    "torch_gpt step=1/5 samples_per_s=1.00 step_time_ms=2.00 loss=1.0",
    "git clone https://x.org/a@b",
    "user@host:/path sk-learn hf_hub eyJ ghp_ AKIA",
    "password incorrectly set, forward_pass: done, OLDPWD=/home pass=2 bypass=yes_please",
    "TOKENIZERS_PARALLELISM=false NCCL_DEBUG=INFO key: value",
]
FORMS = [
    "hf_" + "a1B2" * 9,
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2_" * 9,
    "glpat-" + "a1B2" * 6,
    "sk-proj-" + "a1B2" * 9,
    "nvapi-" + "a1B2" * 9,
    "AKIA" + "A1B2" * 4,
    "xoxb-" + "1234" * 6,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-def",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_a_secret_is_known_by_its_name(text: str) -> None:
    shown = Masks().text(text)
    assert X not in shown
    assert MASKED in shown


@pytest.mark.parametrize("form", FORMS)
def test_one_of_a_well_known_form_is_known_anywhere(form: str) -> None:
    assert Masks().text(f"logged in as {form}, ok") == f"logged in as {MASKED}, ok"


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Masks().text(text) == text


@pytest.mark.parametrize("name", ["hf-token", "api-key", "ACCESS-KEY", "x.apikey", "Authorization"])
def test_a_name_is_a_secrets_however_it_is_written(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["eos_token", "pad-token", "token_id", "max_tokens", "per_token"])
def test_a_tokenizers_names_are_none(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "shown",
    ["a {}", "'{}'", "x{}y", "a+{}", json.dumps('"{}"')],
)
def test_a_value_that_was_learned_is_masked_wherever_it_stands(shown: str) -> None:
    masks = Masks()
    masks.learn({"argv": ["t", "--api-key", X], "env": {"HF_TOKEN": "a b'c\"d/e"}})
    assert X not in masks.text(shown.format(X))
    assert "a%20b%27c%22d%2Fe" not in masks.text("url a%20b%27c%22d%2Fe")
    assert "a b'c\\\"d" not in masks.text(json.dumps("a b'c\"d/e"))


@pytest.mark.parametrize(
    ("size", "count"), [(1, 40), (7, 40), (64, 2000), (4096, 6000), (1 << 17, 6000)]
)
@pytest.mark.parametrize("end", ["\n", " "])
def test_blocks_of_any_size_hide_the_same(size: int, count: int, end: str) -> None:
    """Also in a log without line ends, which is held back only so far."""
    lines = [f"w{n} --hf-token {X} step={n} é" for n in range(count)]
    content = end.join(lines).encode()
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    shown = b"".join(Masks().blocks(parts)).decode()
    assert shown == end.join(lines).replace(X, MASKED)


def test_a_key_of_many_lines_is_hidden_across_blocks() -> None:
    body = "\n".join(f"{X}{n}" for n in range(50))
    content = f"a\n-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\nb\n".encode()
    for size in (16, 100, 333):
        parts = [content[at : at + size] for at in range(0, len(content), size)]
        shown = b"".join(Masks().blocks(parts))
        assert X.encode() not in shown
        assert shown.endswith(b"\nb\n")


def test_bytes_that_are_no_text_come_back_as_they_were() -> None:
    content = bytes(range(256)).replace(b"\n", b"") * 3
    assert b"".join(Masks().blocks([content[:100], content[100:]])) == content


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("/gpfs/lab/users/bob/x", "/home/user2/x"),
        ("/nfs/home2/bob: y", "/home/user2: y"),
        ("file:///home/bob/x", "file:///home/user2/x"),
        ("HOME=/lustre/p42/bob/ in /lustre/p42/bob/runs", "HOME=/home/user2/ in /home/user2/runs"),
        ("USER=bobby sent by bobby", "USER=user2 sent by user2"),
        ("https://github.com/users/x and /data/people/images", None),
        ("[::ffff:10.0.0.1]:29500 is 10.0.0.1", "[address1]:29500 is address1"),
        ("::ffff:10.0.0.1:29500", "address1:29500"),
        ("64:ff9b::10.0.0.1%eth0", "address1%eth0"),
        ("::ffff:127.0.0.1 and 12:34:56.789", None),
        ("tcp://10.0.0.1:29500 10.0.0.0/8", "tcp://address1:29500 address2/8"),
        ("ip-10-0-0-1.ec2 is 10.0.0.1", "address1.ec2 is address1"),
    ],
)
def test_homes_and_addresses_of_all_kinds_are_redacted(text: str, after: str | None) -> None:
    redaction = Redaction([], ["alice"])
    redaction.learn(text)
    assert redaction.text(text) == (text if after is None else after)


# --- what goes out --------------------------------------------------------------------------------


def leaky(runs: Path) -> Campaign:
    """A campaign whose trainer takes its secrets as arguments, and whose logs repeat them."""
    said = f"args: --hf-token {X}0 --api-key={X}1\nWANDB_API_KEY={X}2\nagain {X}0 {X}3\n"
    lost = f"RuntimeError: 401 for --hf-token {X}0 of {X}3\n"
    matrix = small_matrix({"zero_stage": [0, 1]}, {"nodes": 1}, name="leaky")

    def story(cell: object, repeat: int) -> Story:
        if getattr(cell, "parameters")["zero_stage"]:  # noqa: B009
            halt = {"cause": "exit", "host": "n1", "message": "n1: exit code 1"}
            return Story({0: said + torch_gpt(9, of=50) + OUT_OF_MEMORY[:0] + lost}, halt)
        return Story({0: said + torch_gpt(50) + said})

    campaign = write(runs, matrix, small_cluster(1), story)
    for path in campaign.path.glob(f"{names.ATTEMPTS}/{names.RUN}"):
        run = json.loads(path.read_text())
        run["nodes"][0]["argv"] += [f"--hf-token={X}0", "--api-key", f"{X}1", f"A_TOKEN={X}3"]
        path.write_text(json.dumps(run))
        script = path.with_name(names.SCRIPT)
        script.write_text(f"{script.read_text()}\n# --hf-token {X}0 {X}3\n")
    return campaign


@pytest.mark.parametrize(
    "words",
    [
        ["collect", "--campaign", "{}"],
        ["collect", "--campaign", "{}", "--format", "json"],
        ["collect", "--campaign", "{}", "--format", "csv"],
        ["collect", "--campaign", "{}", "--format", "html", "--output", "{out}/x.html"],
        ["status", "--campaign", "{}"],
        ["publish", "{}", "--anyway", "--readme"],
        ["export", "{}", "--redact", "-o", "{out}/x.tar.gz"],
        ["publish", "{}", "--redact", "--anyway", "-o", "{out}/x.tar.gz"],
        ["history", "{}", "--format", "html", "--output", "{out}/x.html"],
    ],
    ids=" ".join,
)
def test_a_secret_of_an_argument_is_in_nothing_that_goes_out(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    campaign = leaky(tmp_path / "runs")
    (tmp_path / "out").mkdir()
    main([word.replace("{}", "{0}").format(campaign.path, out=tmp_path / "out") for word in words])
    said = "".join(capfd.readouterr())
    assert "Traceback" not in said
    assert X not in said
    for path in (tmp_path / "out").rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as tar:
                streams = [tar.extractfile(member) for member in tar]
                content = b"".join(stream.read() for stream in streams if stream)
        assert X.encode() not in content, path


def test_the_reason_of_a_run_has_no_secret(tmp_path: Path) -> None:
    from runner.folder.attempt import Attempt
    from runner.results.judge import judged

    campaign = leaky(tmp_path)
    for cell in small_matrix({"zero_stage": [0, 1]}, {"nodes": 1}, name="leaky").cells:
        path = campaign.attempt_path(cell.id, 1, 1)
        (path / names.OUTCOME).unlink()
        _, outcome = judged(Attempt(path, cell.id, 1, 1), replace(cell), "")
        assert X not in json.dumps(outcome.to_json())
