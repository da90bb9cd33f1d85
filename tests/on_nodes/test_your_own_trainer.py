"""`system: command` on two real nodes: its page followed to the letter, and what goes wrong.

The page's files and commands are taken from docs/your-own-trainer.md as they stand, but for the
inventory's name, the folder of the runs, and the Python with torch, which `make setup` made.
"""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.folder import names
from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench, wait

pytestmark = pytest.mark.cluster

PAGE = (ROOT / "docs" / "your-own-trainer.md").read_text(encoding="utf-8")
STEPS = PAGE.partition("## From a script to a table")[2].partition("\n## ")[0]
TOY = "/opt/toy"
TORCH = ROOT / ".trainbench" / "systems" / "torch_gpt" / "torch-2.13" / "env" / "bin" / "python3"
# What a rank does, by its first word; it prints as the page's trainer does.
TRAINER = """import os, sys, time
act, rank = sys.argv[1], int(os.environ["RANK"])
for step in range(1, 11):
    time.sleep(0.02)
    while act == "lasts" and step == 6 and not os.path.exists("enough"):
        time.sleep(0.02)
    if act == "fails" and rank == 3 and step == 5:
        sys.exit("ValueError: rank 3 has no more points")
    while act == "fails" and step == 7:
        time.sleep(1)
    if rank == 0:
        print(f"step {step}/10 | loss {1 / step:.6f} | dt: 20.000ms", flush=True)
"""
# As mpirun: it starts every process, those of its own node too, over ssh, and waits for them.
LAUNCHER = """import os, subprocess, sys
hosts = [line.split() for line in open(sys.argv[1])]
ranks = [host for host, slots in hosts for _ in range(int(slots.partition("=")[2]))]
mark = "PYTHON_TRAINBENCH_RUN=" + os.environ["PYTHON_TRAINBENCH_RUN"]
ssh = ["ssh", "-i", "key", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"]
ssh += ["-o", "UserKnownHostsFile=/dev/null"]  # the nodes are other tests', too
started = [
    subprocess.Popen([*ssh, host, "env", mark, f"RANK={rank}", "python3", *sys.argv[2:]])
    for rank, host in enumerate(ranks)
]
print("started on", ranks, flush=True)
sys.exit(max(abs(each.wait()) for each in started))
"""


@pytest.fixture
def group(real_nodes: RealNodes) -> Group:
    """Two nodes that nothing was set up on."""
    variables = {"cluster_root": "/opt/own-root", "cluster_devices_per_node": 2}
    return real_nodes(2, variables=variables)


def fenced(language: str) -> str:
    """The page's file in that language."""
    found = re.search(rf"^ *```{language}\n(.*?)^ *```$", STEPS, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[1])


def commands(group: Group, runs: Path) -> list[list[str]]:
    """The page's command lines, in order."""
    lines = re.findall(r"^ {4,}((?:ansible|trainbench) .*)$", STEPS, flags=re.MULTILINE)
    argvs = [shlex.split(line.replace("inventory/mine", str(group.inventory))) for line in lines]
    return [argv + ["--runs", str(runs)] * (argv[0] == "trainbench") for argv in argvs]


def test_the_page_is_true(
    tmp_path: Path,
    group: Group,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mytrainer").mkdir()
    (tmp_path / "mytrainer" / "train.py").write_text(fenced("python"))
    assert TORCH.is_file(), "this machine is not set up: run `make setup` first"
    (tmp_path / "mine.yaml").write_text(fenced("yaml").replace("/opt/venv/bin/python3", f"{TORCH}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(ROOT / "ansible.cfg"))
    copy, *ours = commands(group, tmp_path / "runs")
    copied = subprocess.run(copy, capture_output=True, text=True)
    assert copied.stdout.count('"changed": true') == 2, copied
    planned, benched, table = (said(capsys, argv[1:]) for argv in ours)
    assert f"LOCAL_RANK=1 {TORCH} train.py --lr 0.5 --batch 64 --steps 100" in planned
    assert "2 ok, 0 not ok" in benched
    for word in ("\n0.1 ", "\n0.5 ", "samples/s", "TFLOP/s"):
        assert word in table
    give_devices(tmp_path / "runs")
    collect = ["collect", "--runs", str(tmp_path / "runs"), "--format", "csv"]
    rows = list(csv.DictReader(io.StringIO(said(capsys, collect))))
    assert [row["cell"] for row in rows] == ["lr=0.1", "lr=0.5"]
    for row in rows:
        rate = float(row["samples_per_s"])
        assert rate == pytest.approx(256 / float(row["step_time_ms"]) * 1000, rel=2e-2)
        assert float(row["tokens_per_s"]) == pytest.approx(16 * rate, rel=2e-2)
        flops = 6e6 * 16 * rate / 4 / 1e12
        assert float(row["mfu_percent"]) == pytest.approx(flops / 989.5 * 100, rel=2e-2)
        assert float(row["final_loss"]) < 2.0
        assert row["window_last_iteration"] == "100"
        assert [name for name in row if name.endswith("_parallel")] == ["data_parallel"]


def said(capsys: pytest.CaptureFixture[str], argv: list[str]) -> str:
    """What a command of ours printed on both streams."""
    code = main(argv)
    printed = capsys.readouterr()
    assert code == 0, (argv, printed)
    return printed.out + printed.err * (argv[0] == "bench")


def give_devices(runs: Path) -> None:
    """Let the nodes have had GPUs, which test nodes lack: an MFU is of a device."""
    for path in runs.glob(f"*/{names.INSPECTED}/*.json"):
        seen = json.loads(path.read_text())
        seen["devices"] = [{"name": "NVIDIA H200", "memory_mib": 143771, "driver": "0"}] * 2
        path.write_text(json.dumps(seen))
    for path in runs.rglob(names.RUN):
        planned = json.loads(path.read_text())
        planned["nodes"] = [{**node, "device": "cuda"} for node in planned["nodes"]]
        path.write_text(json.dumps(planned))


@pytest.fixture
def toy(group: Group) -> Group:
    """The nodes with the toy; the first may reach both by ssh."""
    key = (group.cluster.directory / "id_ed25519").read_text()
    for node in group.nodes:
        node.exec(["mkdir", "-p", TOY], check=True)
        for name, text in (("train.py", TRAINER), ("launch.py", LAUNCHER), ("key", key)):
            node.exec(["tee", f"{TOY}/{name}"], input=text, check=True)
        node.exec(["chmod", "600", f"{TOY}/key"], check=True)
    return group


def matrix() -> dict[str, Any]:
    own = {"argv": ["python3", "train.py", "{act}"], "cwd": TOY, "launcher": "processes"}
    log = {"step": r"step (\d+)/(\d+)", "loss": r"loss ([\d.]+)"}
    ssh = ["python3", "launch.py", "{hostfile}", f"{TOY}/train.py", "{act}"]
    return {
        "name": "own",
        "defaults": {"system": "command", "nodes": 2, "devices_per_node": 2, **own, "log": log},
        "include": [
            {"act": "fails"},
            {"act": "over-ssh", "argv": ssh, "launcher": "first_node"},
            {"act": "lasts"},
        ],
    }


def test_a_rank_fails_and_a_killed_bench_goes_on(tmp_path: Path, toy: Group) -> None:
    """Processes on both nodes; a launcher that starts the others itself; nothing is left."""
    bench = Bench(tmp_path, toy.inventory, matrix())
    bench.start()
    log = "act=lasts*/*/*/nodes/0000-*/launcher.log"
    wait(
        lambda: any(b"step 5/10" in path.read_bytes() for path in bench.campaign.glob(log)),
        400,
        f"the third cell; bench said: {bench.said()}",
    )
    assert bench.process is not None
    os.killpg(bench.process.pid, signal.SIGKILL)
    bench.process.wait()

    failed = bench.outcome("act=fails")
    second = toy.nodes[1].hostname
    said = f"{second}: the launcher ended with exit code 1: ValueError: rank 3 has no more points"
    assert (failed["status"], failed["reason"]) == ("failed", said)
    launched = bench.outcome("act=over-ssh")
    assert (launched["status"], launched["reason"]) == ("ok", ""), launched
    first = next(bench.attempt("act=over-ssh").glob("nodes/0000-*/launcher.log")).read_text()
    one, two = (node.address for node in toy.nodes)
    assert f"started on {[one, one, two, two]}" in first

    # The run ends well before its nodes miss the bench: the next one records it, and makes none.
    for node in toy.nodes:
        node.exec(["touch", f"{TOY}/enough"], check=True)
    planned = json.loads((bench.attempt("act=lasts") / names.RUN).read_text())
    ended = [["test", "-e", f"{node['dir']}/done.json"] for node in planned["nodes"]]
    wait(
        lambda: all(n.exec(argv).returncode == 0 for n, argv in zip(toy.nodes, ended, strict=True)),
        60,
        "what the supervisors say of the run's end",
    )
    done = bench.run("--format", "json")
    rows = json.loads(done.stdout)["rows"]
    assert [row["status"] for row in rows] == ["failed", "ok", "ok"], done.stderr
    assert bench.outcome("act=lasts")["status"] == "ok"
    assert not list(bench.campaign.glob("act=over-ssh*/*/r1a2"))
