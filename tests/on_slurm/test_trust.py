"""On real Slurm: secrets stand nowhere, and `stop` ends what a bench that was killed left."""

import json
import re
import signal
import subprocess
import sys
import uuid

import pytest

from node.supervisor.slurm_environment import SECRETS
from tests.cluster.slurm import SlurmCluster
from tests.on_nodes.campaign import wait
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = [pytest.mark.nightly("slurm", by_day="row"), pytest.mark.cluster]
CELL = {"system": "torch_gpt", "model": "gpt2-tiny", "nodes": 2, "devices_per_node": 1}


@pytest.mark.parametrize("mode", ["job", "allocation"])
def test_a_secret_reaches_the_trainer_and_no_file(slurm_cluster: SlurmCluster, mode: str) -> None:
    install_stand_in(slurm_cluster)
    token = f"token-{uuid.uuid4().hex}"
    matrix = {"name": "trust", "defaults": CELL, "axes": {"env": [{"STEP_S": "0.1"}]}}
    variables = {
        "slurm_mode": mode,
        "cluster_env": {"HF_TOKEN": "{{ lookup('env', 'MY_TOKEN') }}"},
    }
    folder = user_folder(slurm_cluster, f"trust-{mode}")
    bench = SlurmBench(slurm_cluster, folder, matrix, variables)
    bench.env = {"MY_TOKEN": token}
    bench.start()
    bench.wait_for_step(2)
    node = slurm_cluster.compute[0]
    every = [*node.processes(), *slurm_cluster.login.processes()]
    listed = "\n".join(" ".join(argv) for _, argv in every)
    (trainer,) = [pid for pid, argv in node.processes() if "train.py" in " ".join(argv)][:1]
    environ = node.exec(["cat", f"/proc/{trainer}/environ"]).stdout
    code, said = bench.finish()
    assert code == 0, said
    for log in bench.campaign.rglob("launcher.log"):
        assert f"TOKEN of {len(token)} letters" in log.read_text()
    assert f"HF_TOKEN={token}" in environ
    assert SECRETS not in environ
    assert "train.py" in listed
    assert token not in listed + said
    words = ["grep", "-rl", token, str(slurm_cluster.shared)]
    assert subprocess.run(words, capture_output=True, text=True).stdout == ""


def stop(bench: SlurmBench, *words: str) -> list[str]:
    """What `python -m runner stop` says."""
    argv = [sys.executable, "-m", "runner", "stop", *words, "--runs", str(bench.runs)]
    said: str = bench.slurm.run(argv, check=True, timeout=400).stdout
    return said.splitlines()


def test_stop_ends_an_allocation_after_its_run(slurm_cluster: SlurmCluster) -> None:
    install_stand_in(slurm_cluster)
    matrix = {
        "name": "left",
        "defaults": {**CELL, "train_iters": 200},
        "axes": {"env": [{"STEP_S": "0.5"}]},
    }
    folder = user_folder(slurm_cluster, "left-allocation")
    bench = SlurmBench(slurm_cluster, folder, matrix, {"slurm_mode": "allocation"})
    bench.start()
    bench.wait_for_step(1)
    bench.signal(signal.SIGKILL)
    bench.finish()
    run, allocation = stop(bench, "--campaign", bench.campaign.name)
    assert run.endswith("was ended")
    assert re.fullmatch(r"left-slurm: its allocation: job \d+ was ended", allocation)
    assert slurm_cluster.jobs() == []
    (attempt,) = bench.campaign.glob("*/repeat1/attempt1")
    assert json.loads((attempt / "halt").read_text())["cause"] == "stopped"
    assert len(list(attempt.glob("nodes/*/done.json"))) == 2


def test_stop_ends_what_a_killed_bench_left(slurm_cluster: SlurmCluster) -> None:
    """Four nodes: two runs go on and one waits, beside a job of the user's own."""
    install_stand_in(slurm_cluster)
    env = [{"CELL": name, "STEP_S": "0.5"} for name in ("a", "b", "c")]
    matrix = {"name": "left", "defaults": {**CELL, "train_iters": 200}, "axes": {"env": env}}
    bench = SlurmBench(slurm_cluster, user_folder(slurm_cluster, "left"), matrix)
    bench.start()
    wait(lambda: len(list(bench.campaign.rglob("placement.json"))) == 2, 30, "two runs")
    own = slurm_cluster.run(["sbatch", "--parsable", "--hold", "--wrap", "true"], check=True).stdout
    bench.signal(signal.SIGKILL)
    bench.finish()

    said = stop(bench, "--campaign", bench.campaign.name)
    assert sum(line.endswith("was ended") for line in said) == 2
    assert sum(line.endswith("was cancelled; it had not begun") for line in said) == 1
    assert [line.split()[0] for line in slurm_cluster.jobs()] == [own.strip()]
    assert stop(bench, "-i", str(bench.inventory)) == ["there was nothing to end"]
    slurm_cluster.run(["scancel", own.strip()], check=True)
    bench.run("--stop-after", "3")
    ended = [bench.outcome(f"env=CELL_{name}") for name in "abc"]
    assert {each["cause"] for each in ended} == {"stopped"}
    assert sorted(each["status"] for each in ended) == ["did_not_run", "interrupted", "interrupted"]
