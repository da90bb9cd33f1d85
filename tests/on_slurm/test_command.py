"""`system: command` as jobs of Slurm: the address and the port in its words are the job's own."""

import json

import pytest

from runner.results.arrivals import arrivals_of
from tests import clock_trainer
from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import SlurmBench, chown, user_folder

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row")]

# Rank 0 waits for each other rank, which comes to its address.
TRAINER = """import os, socket, time
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
while rank > 0 and socket.socket().connect_ex(address):
    time.sleep(0.05)  # rank 0 is not there yet
if rank == 0:
    server = socket.create_server(address)
    met = [server.accept() for _ in range(int(os.environ["WORLD_SIZE"]) - 1)]
    for step in range(1, 11):
        print(f"step {step} | loss {1 / step:.6f}", flush=True)
        time.sleep(0.02)
"""
SHELL = "for s in 1 2 3 4 5; do echo step $s at {master_addr} {master_port}, {node_rank}; done"


def test_a_trainer_and_words_in_a_job(slurm_cluster: SlurmCluster) -> None:
    """Its processes meet at the job's first node; so does what argv names."""
    folder = user_folder(slurm_cluster, "own")
    (folder / "train.py").write_text(TRAINER)
    matrix = {
        "name": "own",
        "defaults": {
            **{"system": "command", "nodes": 2, "devices_per_node": 2, "cwd": str(folder)},
            "log": {"step": r"step (\d+)", "loss": r"loss (\S+)"},
        },
        "include": [
            {"argv": ["python3", "train.py"], "launcher": "processes"},
            {"argv": ["bash", "-c", SHELL]},
        ],
    }
    bench = SlurmBench(slurm_cluster, folder, matrix)
    chown(folder / "train.py")
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    trained, said = sorted(
        bench.campaign.glob("*/repeat1/attempt1"), key=lambda each: "bash" in str(each)
    )
    outcome = json.loads((trained / "outcome.json").read_text())
    assert outcome["status"] == "ok", outcome
    placement = json.loads((said / "placement.json").read_text())
    for rank in (0, 1):
        (log,) = said.glob(f"nodes/000{rank}-*/launcher.log")
        words = f"step 5 at {placement['host'][0]} {placement['port']}, {rank}"
        assert words in log.read_text(), placement
        assert arrivals_of(log.parent).entries[-1].size == log.stat().st_size


def test_figures_are_by_arrival(slurm_cluster: SlurmCluster) -> None:
    folder = user_folder(slurm_cluster, "clock")
    (folder / "train.py").write_text(clock_trainer.PROGRAM)
    bench = SlurmBench(slurm_cluster, folder, clock_trainer.matrix(str(folder)))
    chown(folder / "train.py")
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    clock_trainer.check(bench.runs)
