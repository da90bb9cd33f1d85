"""What a run can be checked by."""

import base64
import gzip
import json
import random
from pathlib import Path

import pytest

from runner.base.masking import MASKED, Masks
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.stored import write_json
from runner.report.formats import render
from runner.results.evidence import (
    IMPORTED,
    LINE_LETTERS,
    STARTED_ELSEWHERE,
    TAIL_LINES,
    TOO_LARGE,
    UNPLANNED,
    evidence_of,
    evidence_of_records,
    last_lines,
    packed_logs,
)
from runner.results.records import records_of
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.documents import document_of
from tests.runner.report.test_report import Page


def two_nodes(runs: Path, log: str = "", **more: object) -> tuple[Campaign, Attempt]:
    matrix = small_matrix(None, {"nodes": 2, "env": {"OMP_NUM_THREADS": "4"}}, **more)
    campaign = write(runs, matrix, small_cluster(), lambda cell, repeat: Story({0: log, 1: ""}))
    return campaign, campaign.attempts(matrix.cells[0].id, 1)[0]


def change(attempt: Attempt, **keys: object) -> Attempt:
    """The same run with other words in each node's part of run.json."""
    path = attempt.path / names.RUN
    content = json.loads(path.read_text())
    for node in content["nodes"]:
        node.update(keys)
    path.write_text(json.dumps(content))
    return Attempt(attempt.path, attempt.cell_id, attempt.repeat, attempt.number)


def test_each_node_has_its_command_its_variables_and_its_log(tmp_path: Path) -> None:
    _, attempt = two_nodes(tmp_path, torch_gpt(60))
    run, found = attempt.run, evidence_of(attempt, "shown")
    assert run is not None
    assert [node.host for node in found.nodes] == ["n1", "n2"]
    for node, planned in zip(found.nodes, run.nodes, strict=True):
        assert node.commands == (planned.argv,)
        assert (node.env, node.cwd, node.note) == (planned.env, planned.cwd, "")
    assert found.nodes[0].env["OMP_NUM_THREADS"] == "4"
    log = found.nodes[0].log
    assert found.href(log.path) == "shown/nodes/0000-n1/launcher.log"
    assert log.bytes == (attempt.path / log.path).stat().st_size
    assert len(log.tail) == TAIL_LINES
    assert log.tail[-1].startswith("torch_gpt step=60/60")
    assert found.nodes[1].log.tail == ()
    assert found.script == names.SCRIPT


@pytest.mark.parametrize("tails", [True, False])
def test_what_is_no_plain_log_is_not_read_and_says_why(tmp_path: Path, tails: bool) -> None:
    _, attempt = two_nodes(tmp_path, torch_gpt(5))
    log = attempt.log(0)

    def shown() -> tuple[int | None, str]:
        node = evidence_of(attempt, "shown", tails=tails).nodes[0]
        return node.log.bytes, node.log.missing

    assert shown() == (log.stat().st_size, "")
    log.unlink()
    assert shown() == (None, "no log came home")
    log.symlink_to("/etc/passwd")
    assert shown() == (None, "it cannot be read: it is a link, not a plain file")
    log.unlink()
    log.mkdir()
    assert shown() == (None, "it cannot be read: it is not a plain file")


def test_all_repeats_are_found_by_their_records(tmp_path: Path) -> None:
    campaign, _ = two_nodes(tmp_path / "runs", torch_gpt(5), repeats=2)
    records = records_of(campaign, tmp_path / "here")
    found = evidence_of_records(campaign, records, tmp_path / "here")
    assert [key[1] for key in found] == [1, 2]
    for record in records:
        evidence = found[record.cell_id, record.repeat]
        assert record.log in [evidence.href(node.log.path) for node in evidence.nodes]
        assert evidence.key == (record.cell_id, record.repeat)


def test_what_only_a_job_knows_is_what_it_says_that_it_started(tmp_path: Path) -> None:
    _, attempt = two_nodes(tmp_path)
    started = {"argv": ["/bin/python", "node7"], "env": {"A": "b"}, "cwd": "/there"}
    write_json(attempt.node(1) / names.STARTED, {**started, "processes": [], "late_s": 0.1})
    write_json(attempt.node(0) / names.STARTED, {"argv": "no list"})
    first, second = evidence_of(attempt).nodes
    assert second.commands == (("/bin/python", "node7"),)
    assert (second.env, second.cwd, second.note) == ({"A": "b"}, "/there", "")
    assert first.note.startswith("as planned, for what was started cannot be read: ")
    assert first.commands


@pytest.mark.parametrize(
    ("keys", "commands", "note"),
    [
        ({"argv": []}, 0, STARTED_ELSEWHERE),
        ({"processes": [["/a", "0"], ["/a", "1"]]}, 2, ""),
    ],
)
def test_a_node_starts_none_or_several(
    tmp_path: Path, keys: dict[str, object], commands: int, note: str
) -> None:
    _, attempt = two_nodes(tmp_path)
    node = evidence_of(change(attempt, **keys)).nodes[1]
    assert (len(node.commands), node.note) == (commands, note)


def test_what_is_named_like_a_secret_is_masked_wherever_it_stands(tmp_path: Path) -> None:
    _, attempt = two_nodes(tmp_path, "it is hunter22, says hf_abcdef")
    argv = [
        "/t",
        "--password",
        "hunter22",
        "--api-key=k",
        "A_TOKEN=hf_abcdef",
        "--token",
        "-x",
        "1",
    ]
    variables = {"HF_TOKEN": "hf_abcdef", "PASSWORD": "hunter22", "TOKENIZERS_PARALLELISM": "false"}
    (node, _) = evidence_of(change(attempt, argv=argv, env=variables)).nodes
    assert node.env == {**variables, "HF_TOKEN": MASKED, "PASSWORD": MASKED}
    ((*masked, last),) = node.commands
    assert masked[:3] == ["/t", "--password", MASKED]
    assert masked[3:] == [f"--api-key={MASKED}", f"A_TOKEN={MASKED}", "--token", "-x"]
    assert last == "1"
    assert node.log.tail == (f"it is {MASKED}, says {MASKED}",)


def test_an_imported_log_has_no_command(tmp_path: Path) -> None:
    _, attempt = two_nodes(tmp_path, torch_gpt(2))
    path = attempt.path / names.RUN
    content = json.loads(path.read_text())
    log = {"name": "x.log", "sha256": "a" * 64, "bytes": 1}
    path.write_text(json.dumps({**content, "imported": {"logs": [log]}}))
    found = evidence_of(Attempt(attempt.path, attempt.cell_id, 1, 1))
    assert found.missing == IMPORTED
    assert [(node.commands, node.env, node.note) for node in found.nodes] == [
        ((), {}, IMPORTED)
    ] * 2
    assert found.nodes[0].log.tail


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    _, attempt = two_nodes(tmp_path, torch_gpt(2))
    attempt.log(0).unlink()
    attempt.log(1).unlink()
    attempt.log(1).mkdir()
    first, second = evidence_of(attempt).nodes
    assert (first.log.missing, first.log.bytes) == ("no log came home", None)
    assert second.log.missing.startswith("it cannot be read: ")
    broken = Attempt(attempt.path, attempt.cell_id, 1, 1)
    (attempt.path / names.RUN).write_text("{")
    assert "run.json" in evidence_of(broken).missing
    assert evidence_of(broken).nodes == ()
    (attempt.path / names.RUN).unlink()
    assert evidence_of(Attempt(attempt.path, attempt.cell_id, 1, 1)).missing == UNPLANNED


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        (b"", ()),
        (b"\n\n", ()),
        (b"a\r\nb\r\n", ("a", "b")),
        (b"10 %\r20 %\r30 %\ndone", ("30 %", "done")),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07x\xc2\x9b2J", ("red x",)),
        (b"\xff\xfe half", ("\ufffd\ufffd half",)),
        (b"  indented\n\nlast\n", ("  indented", "", "last")),
        (b"x" * 5000, ("x" * LINE_LETTERS + " …",)),
    ],
)
def test_the_last_lines_are_as_a_terminal_left_them(end: bytes, lines: tuple[str, ...]) -> None:
    assert last_lines(end) == lines


def test_logs_are_packed_until_there_is_no_room(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(30_000).hex()
    logs = {0: torch_gpt(50), 1: noise}
    matrix = small_matrix({"seed": [1, 2]}, {"nodes": 2})
    campaign = write(tmp_path, matrix, small_cluster(), lambda cell, repeat: Story(logs))
    records = records_of(campaign, tmp_path)
    evidence = evidence_of_records(campaign, records, tmp_path)
    assert packed_logs(records, evidence, 0) == []
    found = packed_logs(records, evidence, 20_000)
    assert [log.path for log in found[:2]] == [record.log for record in records]
    for log in found[:2]:
        content = gzip.decompress(base64.b64decode(log.data))
        assert content == (tmp_path / log.path).read_bytes()
        assert log.bytes == len(content)
    assert [(log.data, log.left_out) for log in found[2:]] == [("", TOO_LARGE)] * 2
    assert packed_logs(records, evidence, 20_000) == found
    everything = packed_logs(records, evidence, 1 << 20)
    assert all(log.data for log in everything)
    assert sum(len(base64.b64decode(log.data)) for log in everything) < 1 << 20

    text = render(document_of(records, evidence=evidence, logs=found), "html")
    page = Page(text)
    assert page.open == []
    packed = [attrs for tag, attrs in page.elements if tag == "template"]
    assert [attrs["data-name"] for attrs in packed] == [log.path for log in found[:2]]
    for log in found[2:]:
        assert f"{log.path} (59 KiB)" in text
    assert found[0].data in text


def test_a_secret_that_the_tail_hides_is_in_no_packed_log(tmp_path: Path) -> None:
    value = "hunter2hunter2"
    matrix = small_matrix({"seed": [1]}, {"nodes": 1})
    told = Story({0: f"{torch_gpt(50)}the key is {value}\n"})
    campaign = write(tmp_path, matrix, small_cluster(), lambda cell, repeat: told)
    (planned,) = campaign.path.glob(f"*/*/*/{names.RUN}")
    content = json.loads(planned.read_text())
    content["nodes"][0]["env"]["OLD_API_KEY"] = value
    planned.write_text(json.dumps(content))
    records = records_of(campaign, tmp_path)
    evidence = evidence_of_records(campaign, records, tmp_path)
    (log,) = packed_logs(records, evidence, 1 << 20)
    packed = gzip.decompress(base64.b64decode(log.data))
    assert value.encode() not in packed
    assert b"the key is redacted\n" in packed
    assert value not in repr(evidence)


def test_a_secret_across_blocks_is_masked_and_all_else_is_as_it_was() -> None:
    text = b"a" * 10 + b"secret-1" + b"b" * 10 + b"secret-1" + b"secret"
    for size in range(1, len(text) + 1):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        found = b"".join(Masks(["secret-1", "x"]).blocks(parts))
        assert found == text.replace(b"secret-1", b"redacted")
    assert b"".join(Masks().blocks([text])) == text
