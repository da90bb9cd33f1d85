"""What a board refuses, with the reason, and what it accepts. The logs are made (bundles.py)."""

import gzip
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.__main__ import main
from runner.board import bundle_file
from runner.board.board_check import check_all, reruns
from runner.board.board_folder import init
from runner.board.every_check import CheckedBundle, checked
from runner.board.refusal import NOT_DETECTED, REASONS
from tests.documented_schemas import fits
from tests.runner.board import bundles
from tests.runner.board.bundles import changed, each_json, each_log, edit_json, made_again

RUNS = "*/repeat*/attempt*"
Bad = Callable[[Path, Path], Path]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundles.good(tmp_path_factory.mktemp("good"))


def codes(bundle: CheckedBundle) -> set[str]:
    return {refusal.code for refusal in bundle.refusals}


def log_edit(edit: Callable[[str], str], make: Any = changed) -> Bad:
    """A bundle whose every log is changed."""
    return lambda bundle, folder: make(bundle, folder, lambda home: each_log(home, edit))


def json_edit(pattern: str, edit: Callable[[Any], Any], make: Any = changed) -> Bad:
    """A bundle whose every JSON file of a name is changed."""
    return lambda bundle, folder: make(bundle, folder, lambda home: each_json(home, pattern, edit))


def faster(text: str, times: float = 3.0) -> str:
    """Each rate `times` as high, and each time as short."""
    text = re.sub(
        r"samples_per_s=([\d.]+)", lambda m: f"samples_per_s={float(m[1]) * times:.3f}", text
    )
    return re.sub(
        r"step_time_ms=([\d.]+)", lambda m: f"step_time_ms={float(m[1]) / times:.3f}", text
    )


def table_rows(change: Callable[[dict[str, Any]], None]) -> Bad:
    """A bundle whose table says something else."""

    def edit(table: Any) -> None:
        for row in table["rows"]:
            change(row)

    return json_edit("tables/table.json", edit)


def text_edit(name: str, text: str) -> Bad:
    """A bundle with another text in a file."""

    def edit(home: Path) -> None:
        (home / name).write_text(text)

    return lambda bundle, folder: changed(bundle, folder, edit)


def cut(bundle: Path, folder: Path) -> Path:
    target = folder / "cut.tar.gz"
    target.write_bytes(bundle.read_bytes()[:-2000])
    return target


def flipped(bundle: Path, folder: Path) -> Path:
    """A log is edited, and the manifest is not."""
    target = folder / "flipped.tar.gz"
    with tarfile.open(bundle) as source, tarfile.open(target, "w:gz") as copy:
        for member in source.getmembers():
            content = source.extractfile(member)
            assert content is not None
            data = content.read()
            if member.name.endswith("launcher.log"):
                data = data.replace(b"samples_per_s=9", b"samples_per_s=8")
            copy.addfile(member, io.BytesIO(data))
    return target


def with_link(bundle: Path, folder: Path) -> Path:
    target = folder / "link.tar.gz"
    with tarfile.open(bundle) as source, tarfile.open(target, "w:gz") as copy:
        for member in source.getmembers():
            copy.addfile(member, source.extractfile(member))
        link = tarfile.TarInfo("zero-rack/passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        copy.addfile(link)
    return target


def bomb(bundle: Path, folder: Path) -> Path:
    """A gigabyte of zeros in a megabyte."""
    target = folder / "bomb.tar.gz"
    with gzip.open(target, "wb") as raw, tarfile.open(fileobj=raw, mode="w") as archive:
        member = tarfile.TarInfo("zero-rack/zeros")
        member.size = bundle_file.MOST_UNPACKED + 1
        archive.addfile(member, open("/dev/zero", "rb"))  # noqa: SIM115  # read to the size
    return target


def exported(bundle: Path, folder: Path) -> Path:
    """What `export` writes is no bundle of `publish`."""
    return changed(bundle, folder, lambda home: (home / "publication.json").unlink())


def without(pattern: str, make: Any = changed) -> Bad:
    def remove(home: Path) -> None:
        for path in home.glob(pattern):
            path.unlink()

    return lambda bundle, folder: make(bundle, folder, remove)


def copied_repeat(bundle: Path, folder: Path) -> Path:
    """One run, three times."""

    def copy(home: Path) -> None:
        for cell in home.glob("zero_stage=*"):
            (first,) = cell.glob("repeat1/attempt1/nodes/*")
            for other in cell.glob("repeat[23]/attempt1/nodes/*"):
                for name in ("launcher.log", "timeline.jsonl"):
                    (other / name).write_text((first / name).read_text())

    return changed(bundle, folder, copy)


def one_repeat_less(bundle: Path, folder: Path) -> Path:
    import shutil

    def remove(home: Path) -> None:
        for repeat in home.glob("zero_stage=1*/repeat3"):
            shutil.rmtree(repeat)

    return changed(bundle, folder, remove)


def argv_of(run: Any, name: str, value: str) -> None:
    for node in run["nodes"]:
        node["argv"][node["argv"].index(name) + 1] = value


def failed_log(text: str) -> str:
    """Training stopped at step 12; outcome.json says ok."""
    return "".join(text.splitlines(keepends=True)[:13])


def future(outcome: Any) -> None:
    outcome["started_at"] = 4e9


def entity(facts: Any) -> None:
    facts["entity"] = ""


def no_processor(node: Any) -> None:
    node["cpu"] = ""


def on_gpus(run: Any) -> None:
    for node in run["nodes"]:
        node["device"] = "cuda"


def with_gpu(home: Path) -> None:
    """The machine is called an H100; its memory is."""
    each_json(home, "inspect/*.json", lambda node: node.update(devices=[bundles.H100]))
    each_json(home, f"{RUNS}/run.json", on_gpus)


def huge_memory(bundle: Path, folder: Path) -> Path:
    def edit(home: Path) -> None:
        with_gpu(home)
        each_log(home, lambda text: text.replace("memory_used_mib=1000.0", "memory_used_mib=99000"))

    return changed(bundle, folder, edit)


def above_peak(bundle: Path, folder: Path) -> Path:
    """Logs, polls and wall time agree on what no H100 can do."""

    def edit(home: Path) -> None:
        with_gpu(home)
        each_log(home, lambda text: faster(text, 1e9))

    return changed(bundle, folder, edit)


BAD: dict[str, tuple[Bad, str]] = {
    "an archive that is cut": (cut, "damaged"),
    "a log is edited, the manifest is not": (flipped, "damaged"),
    "a link to a file outside": (with_link, "damaged"),
    "half a gigabyte of zeros": (bomb, "too_large"),
    "what export writes": (exported, "not_a_bundle"),
    "a table with other figures": (
        table_rows(lambda row: row.update(samples_per_s=row["samples_per_s"] * 2)),
        "figures",
    ),
    "a table that says publishable": (
        table_rows(lambda row: row.update(steps_measured=999)),
        "figures",
    ),
    "a README that says more": (
        text_edit("README.md", "# We are the fastest of all"),
        "edited",
    ),
    "a report that says more": (
        text_edit("tables/report.html", "<p>1st</p>"),
        "edited",
    ),
    "logs three times as fast, published again": (log_edit(faster, made_again), "impossible_time"),
    "logs of ten times slower steps than the run took": (
        log_edit(lambda text: faster(text, 0.1)),
        "impossible_time",
    ),
    "faster than the device's peak": (above_peak, "not_publishable"),
    "faster than any processor": (
        log_edit(lambda text: faster(text, 1e9)),
        "impossible_speed",
    ),
    "more memory than the device has": (huge_memory, "impossible_memory"),
    "a loss below 0": (
        log_edit(lambda text: re.sub(r"loss=(\d)", r"loss=-\1", text)),
        "impossible_loss",
    ),
    "a loss that never changes": (
        log_edit(lambda text: re.sub(r"loss=[\d.]+", "loss=9.0", text)),
        "impossible_loss",
    ),
    "a first loss of a trained model": (
        log_edit(lambda text: re.sub(r" loss=(\d+)", " loss=0", text)),
        "impossible_loss",
    ),
    "NaN in the loss": (
        log_edit(
            lambda text: re.sub(r"(step=2\d/.*) loss=\S+(.*) nan=0", r"\1 loss=nan\2 nan=1", text)
        ),
        "not_publishable",
    ),
    "a loss that is left out where it was NaN": (
        log_edit(lambda text: re.sub(r"(step=2\d/.*) loss=\S+", r"\1 loss=nan", text)),
        "impossible_loss",
    ),
    "a command with shorter samples": (
        json_edit(f"{RUNS}/run.json", lambda r: argv_of(r, "--seq-length", "16")),
        "other_work",
    ),
    "a log of a smaller batch": (
        log_edit(lambda text: text.replace("global_batch_size=16", "global_batch_size=4")),
        "other_work",
    ),
    "a command with another seed": (
        json_edit(f"{RUNS}/run.json", lambda r: argv_of(r, "--seed", "7")),
        "other_work",
    ),
    "a run that failed, called ok": (log_edit(failed_log), "outcome"),
    "a repeat that did not run": (one_repeat_less, "incomplete"),
    "no log of a node": (without(f"{RUNS}/nodes/*/launcher.log"), "incomplete"),
    "no record of when the log grew": (without(f"{RUNS}/nodes/*/timeline.jsonl"), "incomplete"),
    "nobody's": (json_edit("publication.json", entity), "unknown_entity"),
    "a processor without a name": (
        json_edit("inspect/*.json", no_processor),
        "redacted",
    ),
    "one run as three repeats": (copied_repeat, "copied_runs"),
    "runs of a later day": (json_edit(f"{RUNS}/outcome.json", future), "future"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_bundle_is_refused_with_the_reason(name: str, good: Path, tmp_path: Path) -> None:
    make, code = BAD[name]
    # Of most the last checks, which draw everything again, would only add their own reasons.
    new = code in ("figures", "edited") or "published again" in name
    bundle = checked(make(good, tmp_path), new=new)
    if "published again" in name:
        assert codes(bundle) == {code}
    assert code in codes(bundle), bundle.refusals
    assert all(refusal.why and refusal.code in REASONS for refusal in bundle.refusals)


def test_three_good_ones_are_accepted(tmp_path: Path) -> None:
    paths = [
        bundles.good(tmp_path, name, seed, entity)
        for name, seed, entity in (("a", 1, "Lab A"), ("b", 2, "Lab B"), ("c", 3, "Lab C"))
    ]
    new, _ = check_all(paths, [], lambda *_: None)
    assert [bundle.refusals for bundle in new] == [(), (), ()]
    assert [bundle.entity for bundle in new] == ["Lab A", "Lab B", "Lab C"]


def test_a_redacted_copy_is_the_same_runs(good: Path, tmp_path: Path) -> None:
    of = bundles.campaign(tmp_path / "runs", "zero", 1)
    copy = bundles.published(of, tmp_path / "other.tar.gz", "--redact", entity="Somebody Else")
    (new,), _ = check_all([copy], [good], lambda *_: None)
    assert codes(new) == {"duplicate"}
    assert "zero.tar.gz" in new.refusals[0].why


def test_a_run_that_ended_well_and_was_run_again_is_refused(good: Path, tmp_path: Path) -> None:
    import shutil

    def again(home: Path) -> None:
        (first,) = home.glob("zero_stage=0*/repeat1/attempt1")
        shutil.copytree(first, first.parent / "attempt2")
        edit_json(first.parent / "attempt2" / "run.json", attempt=2)

    bundle = checked(changed(good, tmp_path, again), new=False)
    assert "chosen_runs" in codes(bundle)


def rerun_of(original: Path, tmp_path: Path, entity: str) -> Path:
    of = bundles.campaign(tmp_path / entity, "again", 9)
    ids = {}
    from runner.archive.extraction import unpack

    home = unpack(original, tmp_path / "original")
    for path in home.glob(f"{RUNS}/run.json"):
        run = json.loads(path.read_text())
        ids[run["cell"]["name"], run["repeat"]] = run["run_id"]
    each_json(
        of.path,
        f"{RUNS}/run.json",
        lambda run: run.update(rerun_of=ids[run["cell"]["name"], run["repeat"]]),
    )
    return bundles.published(of, tmp_path / f"{entity}.tar.gz", entity=entity)


def test_what_somebody_else_reran_is_marked(good: Path, tmp_path: Path) -> None:
    theirs = rerun_of(good, tmp_path, "Other Lab")
    own = rerun_of(good, tmp_path / "own", "example lab")
    new, _ = check_all([good, theirs], [], lambda *_: None)
    (mark,) = reruns(new)
    assert mark.of.path == good
    assert re.match(r"rerun by Other Lab: zero_stage=0: samples/s [+-]\d", mark.sentence)
    new, _ = check_all([good, own], [], lambda *_: None)
    assert reruns(new) == []  # one's own rerun is no mark


def board(folder: Path) -> Path:
    init(folder)
    for argv in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "a@example.org"),
        ("config", "user.name", "a"),
        ("add", "-A"),
        ("commit", "-qm", "board"),
    ):
        subprocess.run(("git", "-C", str(folder), *argv), check=True)
    return folder


def commit(folder: Path) -> None:
    for argv in (("add", "-A"), ("commit", "-qm", "more")):
        subprocess.run(("git", "-C", str(folder), *argv), check=True)


def test_a_pull_request_adds_bundles_alone(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = board(tmp_path / "board")
    subprocess.run(("git", "-C", str(place), "checkout", "-qb", "theirs"), check=True)
    (place / "bundles" / "zero.tar.gz").write_bytes(good.read_bytes())
    commit(place)
    words = ["board", "check", "--board", str(place), "--base", "main", "--format", "json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    fits(document, "board_check")
    assert [each["campaign"] for each in document["bundles"]] == ["zero-rack"]
    workflow = place / ".github" / "workflows" / "board.yml"
    workflow.write_text(workflow.read_text().replace("board check", "board init"))
    commit(place)
    assert main(words) == 1
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert change["code"] == "other_change"
    assert "board.yml" in change["why"]
    subprocess.run(("git", "-C", str(place), "checkout", "-qb", "edits", "HEAD~1"), check=True)
    (place / "bundles" / "zero.tar.gz").write_bytes(b"else")
    commit(place)
    words[5] = "theirs~1"
    assert main(words) == 1
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert change["why"] == "it changes bundles/zero.tar.gz, which the board has"


def test_the_workflow_has_no_rights_and_no_secret(tmp_path: Path) -> None:
    place = tmp_path / "board"
    assert main(["board", "init", str(place)]) == 0
    text = (place / ".github" / "workflows" / "board.yml").read_text()
    workflow = yaml.safe_load(text)
    triggers = workflow[True]  # YAML 1.1 reads `on` so
    assert set(triggers) == {"pull_request", "push"}
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert "permissions" not in job
    assert "secrets" not in "".join(line for line in text.splitlines() if "#" not in line)
    assert all(re.search(r"@[0-9a-f]{40}$", s["uses"]) for s in job["steps"] if "uses" in s)
    readme = (place / "README.md").read_text()
    assert all(line in readme for line in NOT_DETECTED)
    assert all(f"`{code}`" in readme for code in REASONS)
    assert main(["board", "init", str(place)]) == 2


def test_the_site_has_what_was_accepted_and_what_cannot_be_detected(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = board(tmp_path / "board")
    for path in (good, rerun_of(good, tmp_path, "Other Lab")):
        (place / "bundles" / path.name).write_bytes(path.read_bytes())
    bad = log_edit(faster, made_again)(good, tmp_path / "bad")
    (place / "bundles" / "bad.tar.gz").write_bytes(bad.read_bytes())
    out = tmp_path / "site"
    assert main(["board", "site", str(place), "-o", str(out), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    fits(document, "site")
    assert document["campaigns"] == 2
    assert [each["source"] for each in document["left_out"]] == ["bad.tar.gz"]
    page = (out / "index.html").read_text()
    assert "rerun by Other Lab: zero_stage=0: samples/s" in page
    assert "What this board cannot detect" in page
    assert "impossible_time" in page
    own = next(out.glob("campaigns/zero-*/index.html")).read_text()
    assert "Published by Example Lab." in own
    assert "Rerun by Other Lab" in own


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["check", "nowhere.tar.gz"],
        ["check", "--base", "main"],
        ["site", "."],
        ["init"],
        ["init", "x", "-o", "y"],
        ["site", "x", "--board", "y", "-o", "z"],
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["board", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1


def test_each_reason_has_its_bad_bundle() -> None:
    """The other three need a board, another bundle or another attempt: tests above."""
    bad = {code for _, code in BAD.values()}
    assert bad | {"duplicate", "chosen_runs", "other_change"} == REASONS.keys()


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_what_is_no_plain_file_is_not_read(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "x.publication.tar.gz"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    assert main(["board", "check", str(path)]) == 2
    assert f"{path} is not a plain file" in capsys.readouterr().err
