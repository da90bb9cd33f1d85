"""`profile: torch` as a whole, with real torch: a trace comes home, and no traced step counts."""

import gzip
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from runner.systems.common.pins import pins
from tests.conftest import ROOT
from tests.golden.places import inventory
from tests.on_nodes.campaign import Bench

PIN = next(iter(pins("torch_gpt")))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """This checkout's root folder with this checkout's trainer, without setup."""
    installed, made = ROOT / ".trainbench", tmp_path / "root"
    home = made / "systems" / "torch_gpt" / PIN
    home.mkdir(parents=True)
    (made / "datasets").symlink_to(installed / "datasets")
    there = installed / home.relative_to(made)
    (home / "env").symlink_to(there / "env")
    (home / "installed.json").write_bytes((there / "installed.json").read_bytes())
    (home / "src").mkdir()
    for path in (ROOT / "roles/torch_gpt/files/torch_gpt").glob("*.py"):
        (home / "src" / path.name).write_bytes(path.read_bytes())
    module = "megatron_mmap.py"
    (home / "src" / module).write_bytes((ROOT / "node/dataset" / module).read_bytes())
    return made


def test_a_trace_comes_home_and_its_steps_are_not_counted(tmp_path: Path, root: Path) -> None:
    small = {"train_iters": 12, "seq_length": 64, "global_batch_size": 8, "micro_batch_size": 1}
    profile = {"tool": "torch", "steps": "5-6", "ranks": [1]}
    matrix = {
        "name": "traced",
        "defaults": {"system": "torch_gpt", "devices_per_node": 2, **small},
        "include": [{"profile": profile, "axes": {"traced": "yes"}}],
        "time_limit_s": 480,
    }
    place = inventory(tmp_path / "here", cluster_root=str(root))
    bench = Bench(tmp_path, place, matrix)
    report = tmp_path / "report.html"
    done = bench.run("--format", "json", "--report", str(report), timeout=200)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["status"] == "ok"
    window = [row["figures"][f"window_{end}_iteration"] for end in ("first", "last")]
    assert window == [8, 12]
    assert row["verdict_reasons"]["profiled"] == "torch, iterations 5 to 6 of ranks 1"
    (node,) = row["runs"][0]["nodes"]
    assert [Path(path).name for path in node["traces"]] == ["rank1.json.gz"]
    (trace,) = (tmp_path / "runs").rglob("*.json.gz")
    names = [event.get("name", "") for event in json.loads(gzip.decompress(trace.read_bytes()))[
        "traceEvents"]]  # fmt: skip
    assert sum(bool(re.fullmatch(r"ProfilerStep#\d+", name)) for name in names) == 2
    assert trace.relative_to(tmp_path).as_posix() in report.read_text()
