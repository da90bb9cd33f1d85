"""Each command line of README, tutorial and how-tos, run as it stands there.

Here: those that need one machine, in a folder that has what their page says is there, with the
stand-in trainer. Those that need nodes run in tests/on_nodes/test_documented_commands.py and
tests/on_slurm/test_documented_commands.py; `ELSEWHERE` has the rest.
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.documented_commands import ELSEWHERE, ON_NODES, ON_SLURM, PAGES, commands
from tests.golden.places import stood_in

# In an order in which each page finds what those before it left.
HERE = (
    *("docs/tutorial.md", "docs/report.md", "docs/how-to/cluster.md"),
    *("docs/how-to/publish.md", "docs/how-to/other-tools.md"),
    *("docs/how-to/expect.md", "docs/how-to/tune.md", "docs/how-to/goodput.md"),
)
# By exit code, where it is not 0, and what must be printed.
ENDS = {
    "trainbench publish zero-vs --entity 'Example Lab'": (1, "few_repeats"),
    "trainbench expect zero-vs": (3, "not compared"),  # no device that others published
    "trainbench expect zero-vs --speeds ours.csv": (3, "not compared"),
    "trainbench compare baseline.json zero-vs --junit compare.xml": (3, "cannot_tell"),
    "trainbench compare zero-vs.publication.tar.gz zero-mine --only zero_stage=1": (3, ""),
}
ZERO = """name: {name}
defaults: {{system: torch_gpt, devices_per_node: 1, train_iters: 12, global_batch_size: 16}}
axes: {{zero_stage: [0, 1]}}
warmup_iters: 3
"""


def fenced(page: str, language: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"```{language}\n")[2].partition("```")[0]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, stand_in_root: Path) -> Path:
    """A folder with what the pages take for granted: inventories, campaigns, a log."""
    folder = tmp_path_factory.mktemp("stage")
    for name in ("local", "mine", "vs"):
        stood_in(folder / "inventory" / name, stand_in_root)
    (folder / "mine.yaml").write_text(fenced("docs/tutorial.md", "yaml"))
    for name in ("zero", "on"):
        (folder / f"{name}.yaml").write_text(ZERO.format(name=name))
    run(folder, "trainbench bench zero.yaml -i inventory/vs")
    (folder / "inventory" / "vs").rename(folder / "inventory" / "h100")
    run(folder, "trainbench bench on.yaml -i inventory/h100")
    (folder / "inventory" / "h100").rename(folder / "inventory" / "vs")
    run(folder, "trainbench collect --campaign zero-vs --format json --output baseline.json")
    (folder / "exports").mkdir()
    run(folder, "trainbench export on-h100 -o exports/on-h100.tar.gz")
    log = ROOT / "tests/data/torchtitan/h200_8b_fsdp2.log"
    (folder / "train.log").write_bytes(log.read_bytes())
    speeds = (ROOT / "runner/expect/reference_speeds.csv").read_text(encoding="utf-8")
    (folder / "ours.csv").write_text("".join(speeds.splitlines(keepends=True)[:2]))
    return folder


def run(folder: Path, line: str, codes: tuple[int, ...] = (0,)) -> str:
    """Have bash run a line there, on a terminal that says yes; return what it printed."""
    terminal, stdin = pty.openpty()
    os.write(terminal, b"yes\n" * 3)
    env = {
        **os.environ,
        "TRAINBENCH_FOLDER": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ran = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=env,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=540,
    )
    os.close(terminal)
    os.close(stdin)
    assert ran.returncode in codes, f"{line}\n{ran.stdout}"
    assert "Traceback" not in ran.stdout
    return ran.stdout


@pytest.mark.parametrize("page", HERE)
def test_a_pages_commands_run_as_they_stand(stage: Path, page: str) -> None:
    if page == "docs/how-to/publish.md":  # what a stranger would have sent
        run(stage, "trainbench publish zero-vs --anyway")
    for line in commands(page):
        if line in ELSEWHERE or (page, line) in ON_NODES:
            continue
        code, words = ENDS.get(line, (0, ""))
        where = ROOT if line.startswith("source ") else stage
        printed = run(where, line, (code,))
        assert words in printed, f"{line}\n{printed}"
        if line.endswith(" --detach"):  # the node is the next line's
            run(stage, "trainbench status --watch --campaign quickstart-mine")


def test_what_they_name_was_made(stage: Path) -> None:
    made = ("report.html", "mine.csv", "mine.tar.gz", "campaigns.html")
    left = ("compare.xml", "trainbench.prom", "runs/quickstart-mine/bench.log")
    assert [name for name in (*made, *left) if not (stage / name).is_file()] == []
    assert list((stage / "runs").glob("zero-mine/zero_stage=1-*"))


def test_every_command_is_run_somewhere() -> None:
    """A new page or line is run here, or has its place in tests/documented_commands.py."""
    there = {(page, line) for page in PAGES for line in commands(page)}
    told = {(page, line) for page, line in there if page in HERE or line in ELSEWHERE}
    assert there - told - ON_NODES - ON_SLURM == set()
    assert (ON_NODES | ON_SLURM) - there == set()  # no line of before
    assert set(ELSEWHERE) - {line for _, line in there} == set()
    tests = (why for why in ELSEWHERE.values() if why.startswith("tests/"))
    for name in tests:
        path, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_each_command_that_answers_a_question_stands_in_a_block() -> None:
    asked = re.findall(r"(?m)^\|.*\| `(trainbench .*?)` \|", (ROOT / "README.md").read_text())
    assert set() < set(asked) <= {line for page in PAGES for line in commands(page)}
