"""A campaign as one archive: the same bytes twice, nothing lost, no name left when redacted."""

import base64
import gzip
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.archive import archive, extraction
from runner.archive.redact import Redaction
from runner.base.errors import UserError
from runner.folder.campaign import Campaign
from runner.folder.names import ATTEMPTS
from runner.folder.packed import pack
from runner.folder.products import keep_products
from runner.results.records import records_of
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.product import Product, Products
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, inspected, torch_gpt, write

HOSTS = ("dgx-a17", "gpu")  # one that is told from other words, one that is not
PLAIN = small_matrix({"zero_stage": [0, 1, 2]}, {"nodes": 2})
# A matrix with a secret is refused today; campaigns of before may have one.
MATRIX = replace(
    PLAIN, cells=tuple(replace(cell, env={"HF_TOKEN": "hf_abcdef"}) for cell in PLAIN.cells)
)
SAID = """\
dgx-a17: NET/Socket : Using [0]eth0:10.20.30.41<0> [1]eth1:fe80::a00:27ff:fe4e:66a1<0>
gpu: W1121 File "/home/alice/megatron/train.py", line 3; alice@dgx-a17.lab.example.org hf_abcdef
cudnn 8.9.2.26 on dgx-a17-ib0, not on dgx-a171; the gpu is busy; 06:40:42 std::vector 127.0.0.1
"""


def cluster() -> Cluster:
    found = small_cluster(2, 1, root="/home/alice/tb")
    return replace(
        found, nodes=tuple(replace(n, host=h) for n, h in zip(found.nodes, HOSTS, strict=True))
    )


def story(cell: Cell, repeat: int) -> Story | None:
    stage = cell.parameters["zero_stage"]
    if stage == 2:
        return None
    if stage == 1:
        halt = {"cause": "exit", "host": "gpu", "message": "gpu: exit code 1"}
        return Story({0: torch_gpt(5, of=50), 1: SAID + OUT_OF_MEMORY}, halt)
    return Story({0: torch_gpt(50), 1: SAID})


def facts(host: str) -> dict[str, Any]:
    return inspected(f"{host}.lab.example.org")


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    campaign = write(tmp_path / "runs", MATRIX, cluster(), story, facts=facts)
    measured = Products({host: (Product("fp32", 1.8e9, (0.5,)),) for host in HOSTS})
    for attempt in campaign.path.glob(ATTEMPTS):
        keep_products(attempt, measured, 1.8e9)
    return campaign


def test_a_trace_is_taken_along_and_left_out_where_names_go(
    tmp_path: Path, export: Callable[..., Path]
) -> None:
    """It is compressed, and what a trainer names in it is not known."""
    matrix = small_matrix(defaults={"profile": "torch", "nodes": 2}, name="traced")
    made = write(tmp_path / "runs", matrix, cluster(), lambda *_: Story({0: torch_gpt(50)}))
    (attempt,) = made.path.glob(ATTEMPTS)
    (attempt / "nodes" / "0000-dgx-a17" / "profile").mkdir()
    (attempt / "nodes" / "0000-dgx-a17" / "profile" / "rank0.json.gz").write_bytes(b"\x1f\x8b")
    traces = []
    for path in (export(of=made.name), export("--redact", name="y.tar.gz", of=made.name)):
        with tarfile.open(path) as archived:
            traces.append([name for name in archived.getnames() if name.endswith(".json.gz")])
    assert [len(names) for names in traces] == [1, 0]


@pytest.fixture
def export(campaign: Campaign, tmp_path: Path) -> Callable[..., Path]:
    def go(*more: str, name: str = "x.tar.gz", of: str | None = None) -> Path:
        target = tmp_path / "out" / name
        runs = ["--runs", str(campaign.path.parent)]
        assert main(["export", of or campaign.name, *runs, "-o", str(target), *more]) == 0
        return target

    return go


def names(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def texts(path: Path) -> dict[str, str]:
    found = {}
    with tarfile.open(path) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None
            found[member.name] = stream.read().decode()
    return found


def table(of: str, capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["collect", "--campaign", of, "--format", "json", *more]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    for row in rows:
        for run in row["runs"]:
            run.pop("log")  # a path from here
            for node in run["nodes"]:
                node["log"].pop("path")
    return rows


# --- as it is -------------------------------------------------------------------------------------


def test_an_archive_has_the_evidence_and_the_tables(
    campaign: Campaign, export: Callable[..., Path]
) -> None:
    found = names(export())
    assert found[:-1] == sorted(found[:-1])
    assert found[-1] == "m-rack/manifest.json"
    for path in campaign.path.rglob("*.log"):
        assert f"m-rack/{path.relative_to(campaign.path).as_posix()}" in found
    for name in ("campaign.json", "inspect/gpu.json", "tables/table.md", "tables/matrix.yaml"):
        assert f"m-rack/{name}" in found
    assert not any("lock" in name for name in found)


def test_a_campaign_that_runs_is_redacted_too(
    campaign: Campaign, export: Callable[..., Path]
) -> None:
    """The copy has no lock: what runs here runs there, too."""
    cell = next(campaign.path.glob("*zero_stage=0*")).name
    attempt = Campaign(campaign.path).attempts(cell, 1)[0]
    (attempt.path / "outcome.json").unlink()
    os.utime(attempt.path / "run.json")
    with campaign.locked():
        export("--redact")


def test_the_same_campaign_gives_the_same_bytes(
    campaign: Campaign, export: Callable[..., Path], tmp_path: Path
) -> None:
    first = export(name="a.tar.gz")
    assert export(name="b.tar.gz").read_bytes() == first.read_bytes()
    assert export(name="c.tar.gz", of=str(first)).read_bytes() == first.read_bytes()
    with tarfile.open(first) as tar:
        assert {(m.mtime, m.uid, m.uname) for m in tar} == {(0, 0, "")}


@pytest.mark.parametrize("packed", [False, True])
def test_no_secret_leaves_and_names_stay(
    campaign: Campaign, export: Callable[..., Path], packed: bool
) -> None:
    """A variable's value, a login in an address, and both once more in an archive of a node whose
    log is not the one that the page shows the end of.
    """
    node = next(campaign.path.glob("*zero_stage=1*/repeat1/attempt1/nodes/0000-*"))
    words = "clone https://alice:pa55word@git.example.org/x.git\nexport HF_TOKEN=abc123def456\n"
    with (node / "launcher.log").open("a") as log:
        log.write(words)
    before = (node / "launcher.log").read_text()
    if packed:
        with zipfile.ZipFile(node / "samples.zip", "w") as samples:
            samples.writestr("samples.csv", words)
    files = texts(export())
    for secret in ("pa55word", "abc123def456", "hf_abcdef"):
        assert not [name for name, text in files.items() if secret in text]
    assert sum("git.example.org" in text for text in files.values()) == 1 + packed
    assert any("dgx-a17.lab.example.org" in text for text in files.values())
    assert (node / "launcher.log").read_text() == before


def test_collect_reads_an_archive_as_the_folder(
    campaign: Campaign, export: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in filter(Path.is_file, campaign.path.rglob("*")):  # in an archive it is masked
        path.write_bytes(path.read_bytes().replace(b"hf_abcdef", b"redacted"))
    archived = export()
    rows = table(str(archived), capsys)
    assert rows == table(campaign.name, capsys, "--runs", str(campaign.path.parent))
    assert rows == table(str(campaign.path), capsys)
    assert [row["status"] for row in rows] == ["ok", "failed", "pending"]


def test_links_lead_to_where_the_archive_would_be_extracted(
    export: Callable[..., Path], tmp_path: Path
) -> None:
    archived = export()
    with archive.opened(tmp_path, str(archived)) as found:
        records = records_of(found.campaign, tmp_path, reader_path=found.shown)
    with tarfile.open(archived) as tar:
        tar.extractall(archived.parent, filter="data")
    logs = [tmp_path / record.log for record in records if record.log]
    assert len(logs) == 2
    assert all(log.is_file() for log in logs)


def test_links_of_the_page_inside_lead_to_its_logs(
    export: Callable[..., Path], tmp_path: Path
) -> None:
    pages = texts(export())
    page = pages["m-rack/tables/report.html"]
    assert 'href="../zero_stage=0-' in page or 'href="../zero_stage%3D0-' in page


# --- redacted -------------------------------------------------------------------------------------


def test_no_name_is_left_in_any_file_or_file_name(export: Callable[..., Path]) -> None:
    everything = texts(export("--redact"))
    for name, text in everything.items():
        for word in ("dgx-a17-", "dgx-a17.", "dgx-a17:", "alice", "example.org", "hf_abcdef"):
            assert word not in text, (name, word)
            assert word not in name
        for word in ("10.20.30.41", "10.0.0.1", "fe80::a00", "0001-gpu", '"gpu"', "gpu: "):
            assert word not in text, (name, word)
            assert word not in name


def test_event_files_which_name_their_host_are_left_out(
    export: Callable[..., Path], campaign: Campaign
) -> None:
    node = next(campaign.path.glob("*/repeat1/attempt1/nodes/0000-*"))
    (node / "tensorboard").mkdir()
    (node / "tensorboard" / "events.out.tfevents.1.gpu").write_bytes(b"\0alice")
    assert any("tfevents" in name for name in names(export()))
    assert not any("tfevents" in name for name in names(export("--redact")))


@pytest.mark.parametrize("once_more", [False, True])
def test_what_nodes_packed_is_plain_where_names_go(
    export: Callable[..., Path], campaign: Campaign, once_more: bool
) -> None:
    """A node's archive, and one of all nodes: what is in it is text that may name somebody."""
    node = next(campaign.path.glob("*/repeat1/attempt1/nodes/0000-*"))
    with zipfile.ZipFile(node / "samples.zip", "w") as packed:
        packed.writestr("samples.csv", "timestamp, index\n# of alice on dgx-a17\n")
    if once_more:
        pack(node.parents[1])
    assert sum(name.endswith("samples.zip") for name in names(export())) == 1
    plain = texts(export("--redact"))
    (samples,) = (text for name, text in plain.items() if name.endswith("samples.csv"))
    assert "alice" not in samples
    assert not any(name.endswith(".zip") for name in plain)


def test_one_word_for_one_name_and_the_rest_as_it_was(export: Callable[..., Path]) -> None:
    everything = texts(export("--redact"))
    log = next(
        text for name, text in everything.items() if name.endswith("0001-node2/launcher.log")
    )
    assert log.startswith("node1: NET/Socket : Using [0]eth0:address")
    assert 'File "/home/user1/megatron/train.py", line 3; user1@node1 redacted' in log
    rest = "cudnn 8.9.2.26 on node1-ib0, not on dgx-a171; the gpu is busy; 06:40:42 std::vector"
    assert f"{rest} 127.0.0.1" in log
    run = json.loads(next(text for name, text in everything.items() if name.endswith("run.json")))
    assert [node["host"] for node in run["nodes"]] == ["node1", "node2"]
    assert run["nodes"][0]["env"]["HF_TOKEN"] == "redacted"
    assert run["nodes"][0]["dir"].startswith("/home/user1/tb/runs/")
    master = run["master_address"]
    assert master.startswith("address")
    assert master in next(text for name, text in everything.items() if name.endswith("launch.sh"))


def test_redacted_or_not_the_figures_are_the_same(
    campaign: Campaign, export: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = table(str(campaign.path), capsys), table(str(export("--redact")), capsys)
    assert [row.pop("cell_id") for row in ours] == [row.pop("cell_id") for row in theirs]
    said = [row.pop("reason") for row in theirs]
    for rows in (ours, theirs):
        for row in rows:
            for key in ("reason", "runs", "axes", "hosts", "parameters"):
                row.pop(key, None)
    assert ours == theirs
    assert ours[0]["figures"]["matmul_percent"] is not None
    assert said[1] is not None
    assert said[1].startswith("node2: exit code 1: memory ran out: torch.cuda.OutOfMemoryError")
    assert "(nodes/0001-node2/launcher.log:" in said[1]


def test_a_redacted_archive_is_the_same_twice(export: Callable[..., Path]) -> None:
    first = export("--redact", name="a.tar.gz").read_bytes()
    assert export("--redact", name="b.tar.gz").read_bytes() == first


def test_a_redaction_that_would_change_a_figure_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user named as a word of the trainer's own lines."""
    matrix = small_matrix()
    log = 'File "/home/step_time_ms/x"\n' + torch_gpt(50)
    campaign = write(tmp_path, matrix, small_cluster(1), lambda *_: Story({0: log}))
    target = tmp_path / "x.tar.gz"
    assert main(["export", str(campaign.path), "-o", str(target), "--redact"]) == 2
    assert "redaction would change what the log of cell torch_gpt says" in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("vs008: x vs009 vs0081 xvs008", "node1: x node2 vs0081 xvs008"),
        ("vs008.lab.example.org.", "node1."),
        ("a: exit code 1, a process", "node3: exit code 1, a process"),
        ("host=a hostname a", "host=node3 hostname a"),
        ("rank 0 at 10.0.0.1:29500 and 10.0.0.2", "rank 0 at address1:29500 and address2"),
        ("torch==1.2.3.4, version 1.2.3.4, 1.2.3.4.5, 300.1.1.1", None),
        ("NCCL version 2.18.3+cuda12.1 12:34:56 c10::Error ::1 0.0.0.0", None),
        ("mac aa:bb:cc:dd:ee:ff", "mac address1"),
        ("http://bob:pw@proxy:3128/", "http://redacted@proxy:3128/"),
        ("/home/bob/x /Users/carol/y ~bob malice", "/home/user2/x /Users/user3/y ~user2 malice"),
        ("/home/ubuntu/x on ubuntu", "/home/user2/x on ubuntu"),
        ("--world_info=eyJ2czAwOCI6IFswXX0= x", "--world_info=redacted x"),
        ("alice alice@vs009", "user1 user1@node2"),
    ],
)
def test_what_is_a_name_and_what_is_not(text: str, after: str | None) -> None:
    redaction = Redaction(["vs008", "vs009", "a"], ["alice"])
    redaction.learn(text)
    assert redaction.text(text) == (text if after is None else after)


@pytest.mark.parametrize("inside", [b"[" * 100_000, b"9" * 5_000, b"{}" * 9, b"\xff" * 9])
def test_nodes_that_a_log_encodes_badly_are_taken_out(inside: bytes) -> None:
    """Issue 12, point 13: brackets within brackets raised RecursionError."""
    world = base64.urlsafe_b64encode(inside).decode()
    assert Redaction([], []).text(f"world_info={world.rstrip('=')}=") == "world_info=redacted"


def test_a_job_of_slurms_does_not_tell_the_site() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --account=lab-x\n#SBATCH --nodelist=n[01-04]\n"
    )
    redaction = Redaction([], [])
    assert redaction.text(script) == (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --account=redacted\n#SBATCH --nodelist=redacted\n"
    )
    cell = {"nodes": 2, "placement": {"partition": "lab-x", "exclude": "n[01-04]"}}
    assert redaction.content(cell) == {
        "nodes": 2,
        "placement": {"partition": "redacted", "exclude": "redacted"},
    }


def test_a_log_that_names_users_without_end_is_not_redacted_for_hours() -> None:
    redaction = Redaction([], [])
    with pytest.raises(UserError, match="more than 2,000 home folders or logins"):
        redaction.learn("".join(f"/home/u{number}/ " for number in range(3_000)))


# --- what others send -----------------------------------------------------------------------------


def made(path: Path, *members: tuple[str, bytes | tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                tar.addfile(content)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


def link(kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo()
    member.type, member.linkname = kind, "/etc/passwd"
    return member


GOOD = ("c/campaign.json", b'{"schema": 1, "repeats": 1, "inventory": "rack", "cells": []}')


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("../evil", b"x")], "outside its own folder"),
        ([("c/../../evil", b"x")], "outside its own folder"),
        ([("/tmp/evil", b"x")], "outside its own folder"),
        ([("c/x", link(tarfile.SYMTYPE))], "not a plain file"),
        ([("c/x", link(tarfile.LNKTYPE))], "not a plain file"),
        ([("c/x", link(tarfile.CHRTYPE))], "not a plain file"),
        ([GOOD, GOOD], "is in it twice"),
        ([GOOD, ("c/campaign.json/x", b"x")], "is in it twice"),
        ([GOOD, ("d/campaign.json", b"{}")], "holds no campaign.json"),
        ([("c/x", b"x")], "holds no campaign.json"),
        ([("c/campaign.json", b"[]")], "campaign.json is a list; it must be a mapping"),
        ([], "holds no campaign.json"),
    ],
)
def test_what_no_export_would_hold_is_refused(
    members: list[tuple[str, Any]], words: str, tmp_path: Path
) -> None:
    path = made(tmp_path / "x.tar.gz", *members)
    (tmp_path / "in").mkdir()
    with pytest.raises(UserError, match=words):
        extraction.unpack(path, tmp_path / "in")
    assert {found.name for found in tmp_path.iterdir()} == {"x.tar.gz", "in"}


@pytest.mark.parametrize(
    "content", [b"", b"text", gzip.compress(b"", mtime=0), gzip.compress(b"x" * 2000, mtime=0)]
)
def test_what_is_no_archive_is_refused_in_one_sentence(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    assert main(["collect", "--campaign", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1


def test_a_cut_archive_is_refused_at_any_length(
    export: Callable[..., Path], tmp_path: Path
) -> None:
    whole = export().read_bytes()
    for part in range(1, 10):
        path = tmp_path / "cut.tar.gz"
        path.write_bytes(whole[: len(whole) * part // 10])
        folder = tmp_path / f"in{part}"
        folder.mkdir()
        with pytest.raises(UserError):
            extraction.unpack(path, folder)


def test_what_is_too_large_is_refused_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "MOST_FILES", 3)
    monkeypatch.setattr(extraction, "LEAST_BYTES", 1 << 20)
    many = made(tmp_path / "many.tar.gz", *((f"c/{n}", b"x") for n in range(4)))
    large = made(tmp_path / "large.tar.gz", ("c/x", b"\0" * (2 << 20)))
    bomb = tmp_path / "bomb.tar.gz"
    header = tarfile.TarInfo("c/x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30
    bomb.write_bytes(gzip.compress(header.tobuf() + b"\0" * (32 << 20)))
    for path in (many, large, bomb):
        folder = tmp_path / f"in-{path.stem}"
        folder.mkdir()
        with pytest.raises(
            UserError, match=r"holds more than|larger than 1 MiB; if|has 1073741824 bytes"
        ):
            extraction.unpack(path, folder)
        assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 1 << 20
