"""A toy system trains on a test node, is recognised, diagnosed and has an MFU: three additions.

The project is copied, and gets one role folder, one system file and one parser file, as
docs/adding-a-system.md has it. What setup would put on the node is put there by hand.
"""

import csv
import filecmp
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runner.folder import names
from tests import stand_in
from tests.cluster.fixtures import RealNodes
from tests.cluster.system import base_python
from tests.conftest import ROOT
from tests.project_copy import FOLDERS, copy_project, runner

pytestmark = pytest.mark.cluster

ADDED = {"roles/toy", "runner/systems/toy.py", "runner/logs/families/toy.py"}
SYSTEM = '''"""toy: fits a line by gradient descent, in plain Python."""

from dataclasses import dataclass

from runner.systems.common.system import System
from runner.terms.architecture import Formula
from runner.terms.cell import Parameter
from runner.terms.run import Command


@dataclass(frozen=True)
class Line:
    """So many weights a sample, each multiplied and added three times."""

    weights: int
    seq_length: int = 1
    vocab_size: int = 0

    @property
    def formula(self):
        """Say how flops counts."""
        return Formula("toy-flops", "6*W", "forward and backward pass", "this test")

    def flops(self, *, recompute=False, vocab_size=None):
        """Count those of one sample."""
        return 6.0 * self.weights

    def divided(self):
        """Name nothing: it is not split."""
        return ()


def command(cell, node):
    """Start the one process."""
    program, values = f"{node.home}/src/toy.py", cell.parameters
    argv = (node.program("python3"), program, str(values["train_iters"]), str(values["fail_at"]))
    return Command(argv=argv, env={}, cwd=str(node.home), requires={program: None})


SYSTEM = System(
    name="toy",
    summary="a line through points",
    launcher="none",
    parameters=(
        Parameter("micro_batch_size", int, 4, "points a pass", minimum=1),
        Parameter("train_iters", int, 30, "iterations of a run", minimum=1),
        Parameter("fail_at", int, 0, "iteration at which it gives up; 0: never", minimum=0),
    ),
    command=command,
    model=lambda parameters: Line(10**12),
    arithmetic=lambda parameters: "bf16",
)
'''
PARSER = '''"""toy's lines: `toy: pass 3 of 30 took 0.0102 s, error 0.25`."""

import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import number


class Toy(LineParser):
    """A line is whole with its error."""

    name = "toy"
    says = "toy's `toy: pass` lines"
    candidates = (Candidate("toy"),)
    named = (Candidate("toy", "the log names toy", (Sign((b"toy: ",)),)),)
    marker = b"toy: pass "
    head = re.compile(rb"toy: pass (\\d{1,9}) of \\d{1,9} took ([\\d.]+) s, ")
    step = rb"toy: pass \\d+ of \\d+ took "
    error = rb"toy gives up: "

    def row(self, head, rest, closed):
        """Read one pass."""
        if not closed:
            return None
        seconds, loss = number(head[2]), number(rest.rpartition(b" ")[2])
        return LoggedStep(int(head[1]), seconds * 1000, 4 / seconds, loss=loss)
'''
TRAINER = """import sys, time
steps, fail_at = int(sys.argv[1]), int(sys.argv[2])
points = [(x / 4, 3 * x / 4 + 1) for x in range(4)]
slope = shift = 0.0
for step in range(1, steps + 1):
    if step == fail_at:
        sys.exit("toy gives up: Cannot allocate memory")
    time.sleep(0.01)
    wrong = [(slope * x + shift - y, x) for x, y in points]
    slope -= 0.2 * sum(error * x for error, x in wrong)
    shift -= 0.2 * sum(error for error, _ in wrong)
    loss = sum(error * error for error, _ in wrong)
    print(f"toy: pass {step} of {steps} took 0.0100 s, error {loss:.6f}", flush=True)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project with the three additions."""
    root = tmp_path / "project"
    copy_project(root)
    role = shutil.copytree(ROOT / "roles" / "oneflow_gpt", root / "roles" / "toy")
    for path in (path for path in role.rglob("*") if path.is_file()):
        path.write_text(path.read_text().replace("oneflow_gpt", "toy").replace("osdi", "toy-1"))
    (role / "vars" / "pins.yml").write_text(yaml.safe_dump({"toy_pins": {"toy-1": {}}}))
    (root / "runner" / "systems" / "toy.py").write_text(SYSTEM)
    (root / "runner" / "logs" / "families" / "toy.py").write_text(PARSER)
    return root


@pytest.fixture
def node_root() -> Iterator[Path]:
    """The node's root as setup would leave it; test nodes hide /tmp."""
    root = ROOT / "build" / f"toy-{os.getpid()}"
    stand_in.install(root, base_python())
    home = root / "systems" / "toy" / "toy-1"
    for name in ("src", "env/bin"):
        (home / name).mkdir(parents=True)
    (home / "src" / "toy.py").write_text(TRAINER)
    (home / "env" / "bin" / "python3").symlink_to(base_python())
    (home / "installed.json").write_text(json.dumps({"schema": 1, "identity": {"toy": "1"}}))
    yield root
    shutil.rmtree(root)


def differing(ours: Path, theirs: Path, inside: str = "") -> set[str]:
    """Every path that only one of two trees has, or that is not the same in both."""
    found = filecmp.dircmp(ours / inside, theirs / inside, ignore=["__pycache__"])
    _, wrong, unread = filecmp.cmpfiles(
        ours / inside, theirs / inside, found.common_files, shallow=False
    )
    here = [*found.left_only, *found.right_only, *wrong, *unread]
    paths = {f"{inside}/{name}" for name in here}
    return paths.union(*(differing(ours, theirs, f"{inside}/{n}") for n in found.common_dirs))


def test_a_system_is_a_role_a_system_file_and_a_parser_file(
    project: Path, node_root: Path, real_nodes: RealNodes, tmp_path: Path
) -> None:
    assert set().union(*(differing(ROOT, project, name) for name in FOLDERS)) == ADDED
    variables = {"cluster_root": str(node_root), "cluster_devices_per_node": 1}
    inventory = real_nodes(1, variables=variables).inventory
    matrix = tmp_path / "toy.yaml"
    cells = {"defaults": {"system": "toy"}, "axes": {"fail_at": [0, 12]}, "warmup_iters": 2}
    matrix.write_text(yaml.safe_dump(cells))
    runs = str(tmp_path / "runs")
    bench = ("bench", "--matrix", str(matrix), "-i", str(inventory), "--runs", runs)
    done = runner(project, *bench)
    assert done.returncode == 1, done.stdout + done.stderr  # one of the two gives up

    campaign = tmp_path / "runs" / f"toy-{inventory.name}"
    for path in (campaign / names.INSPECTED).glob("*.json"):  # test nodes have no GPU to ask
        seen = json.loads(path.read_text())
        seen["devices"] = [{"name": "NVIDIA H200", "memory_mib": 143771, "driver": "0"}]
        path.write_text(json.dumps(seen))
    for path in campaign.rglob(names.RUN):
        planned = json.loads(path.read_text())
        planned["nodes"] = [{**node, "device": "cuda"} for node in planned["nodes"]]
        path.write_text(json.dumps(planned))
    collected = runner(project, "collect", "--runs", runs, "--format", "csv")
    assert collected.returncode == 0, collected.stderr + done.stdout + done.stderr
    well, ill = csv.DictReader(io.StringIO(collected.stdout))
    assert (well["status"], float(well["samples_per_s"])) == ("ok", 400.0), collected.stdout
    assert float(well["final_loss"]) < 0.5
    assert float(well["mfu_percent"]) == pytest.approx(6e12 * 400 / 1e12 / 989.5 * 100)
    assert [name for name in well if name.endswith("_parallel")] == ["data_parallel"]
    assert ill["status"] == "failed"
    assert "memory ran out: toy gives up: Cannot allocate memory" in ill["reason"]

    logs = {log.parents[4].name[:9]: log for log in campaign.rglob("launcher.log")}
    for cell, status in (("fail_at=0", "ok"), ("fail_at=1", "out_of_memory")):
        parsed = runner(project, "parse", str(logs[cell]), "--format", "json")
        read = json.loads(parsed.stdout)
        assert (read["system"], read["status"]) == ("toy", status), parsed.stdout
        assert "toy's `toy: pass` lines" in read["reason"]
