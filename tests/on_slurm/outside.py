"""Faults of jobs, nodes and the shared folder: what others, or the site, do to a run."""

import contextlib
import json
import time

from runner.folder import names
from tests.cluster.late import show_at_once, show_late
from tests.cluster.system import base_python
from tests.faults.faults import LATE, before_only
from tests.faults.stage import PATIENCE_S, Row
from tests.on_nodes.campaign import wait
from tests.on_slurm.stage import STRUCK, SlurmStage

SLOW_S = 150.0  # for what Slurm does within two minutes


def scancelled(stage: SlurmStage) -> Row:
    """Somebody cancels the running job."""
    return stage.strike(lambda: stage.slurm.run(["scancel", str(stage.job())], check=True))


def scancelled_in_queue(stage: SlurmStage) -> Row:
    """Somebody cancels the job before it has nodes."""
    before_only(stage)
    stage.block()
    stage.bench.start(*STRUCK)
    number = stage.until_submitted()
    stage.slurm.run(["scancel", str(number)], check=True)
    took_s = stage.until_struck_ended()
    stage.unblock()
    stage.bench.finish()
    return stage.row(took_s)


def slurm_time_limit(stage: SlurmStage) -> Row:
    """The administrator cuts the running job's time: Slurm ends it."""
    stage.start()
    stage.slurm.slurm("scontrol", "update", f"jobid={stage.job()}", "TimeLimit=1")
    began = time.monotonic()
    wait(lambda: bool(stage.outcome("struck")), SLOW_S, "the end of the struck cell")
    return stage.row(time.monotonic() - began)


def preempted(stage: SlurmStage) -> Row:
    """A job of a partition that goes first takes the nodes."""
    home = f"--chdir={stage.slurm.shared}/home"
    first = ["sbatch", "-p", "high", "-N4", "--gpus-per-node=2", home, "--wrap", "sleep 2"]
    return stage.strike(lambda: stage.slurm.run(first, check=True))


def requeued(stage: SlurmStage) -> Row:
    """The administrator requeues the running job, and lets it start again at once."""
    stage.start()
    number = stage.until_submitted()
    stage.slurm.slurm("scontrol", "requeue", str(number))
    stage.until_state(number, "PENDING")
    stage.slurm.slurm("scontrol", "update", f"jobid={number}", "StartTime=now")
    began = time.monotonic()
    wait(lambda: bool(stage.outcome("struck", 2)), PATIENCE_S, "the end of the second attempt")
    first = stage.outcome("struck", 1)
    assert first.get("cause") == "requeued", first
    return stage.row(time.monotonic() - began, attempt=2)


def node_down(stage: SlurmStage) -> Row:
    node = stage.slurm.compute[2]
    return stage.strike(lambda: stage.slurm.node_down(node), lambda: stage.slurm.node_up(node))


def slurmd_killed(stage: SlurmStage) -> Row:
    """The node's slurmd alone is gone: its job runs on."""
    node = stage.slurm.compute[2]
    kill = ["sh", "-c", "kill -9 $(pidof slurmd)"]
    return stage.strike(lambda: node.exec(kill, check=True), stage.slurm.start_daemons)


def link_down_shortly(stage: SlurmStage) -> Row:
    node = stage.slurm.compute[3]
    stage.start()
    node.link(False)
    time.sleep(2)
    node.link(True)
    return stage.row(stage.until_struck_ended())


def drained_while_pending(stage: SlurmStage) -> Row:
    """The nodes are drained before the job starts, and come back."""
    before_only(stage)
    stage.block()
    stage.bench.start(*STRUCK)
    number = stage.until_submitted()
    stage.drain()
    stage.unblock()
    time.sleep(2)
    assert stage.record(number)["JobState"] == "PENDING"
    stage.drain("resume")
    took_s = stage.until_struck_ended()
    stage.bench.finish()
    return stage.row(took_s)


def folder_not_mounted(stage: SlurmStage) -> Row:
    """The job's first node has lost the shared folder: its output file cannot be made."""
    before_only(stage)
    node = stage.slurm.compute[0]
    node.exec(["umount", "--lazy", str(stage.slurm.shared)], check=True)
    stage.bench.start(*STRUCK)
    took_s = stage.until_struck_ended()
    stage.bench.finish()
    node.kill()
    stage.slurm.node_up(node)
    return stage.row(took_s)


def shared_memory_full(stage: SlurmStage) -> Row:
    """A dead process has left a node's /dev/shm full."""
    before_only(stage)
    node = stage.slurm.compute[1]
    node.exec(["mount", "-o", "remount,size=20m", "/dev/shm"], check=True)
    node.exec(["sh", "-c", "head -c 18M /dev/zero > /dev/shm/nccl-aBc9"], check=True)
    try:
        stage.bench.start(*STRUCK)
        took_s = stage.until_struck_ended()
        stage.bench.finish()
    finally:
        node.exec(["rm", "/dev/shm/nccl-aBc9"], check=True)
        node.exec(["mount", "-o", "remount,size=50%", "/dev/shm"], check=True)
    return stage.row(took_s)


def clock_ahead(stage: SlurmStage) -> Row:
    """A node's Python believes that it is an hour later: nodes of a test share one kernel."""
    node, python = stage.slurm.compute[1], base_python()
    late = LATE.format(python=f"{python}.true")
    write = "import os, sys; open(sys.argv[1], 'w').write(sys.argv[2]); os.chmod(sys.argv[1], 493)"
    node.exec(["cp", "-p", python, f"{python}.true"], check=True)
    node.exec(["rm", python], check=True)
    node.exec([f"{python}.true", "-c", write, python, late], check=True)
    try:
        row = stage.by_itself()
    finally:
        node.exec(["mv", f"{python}.true", python], check=True)
    done = next(stage.folder_of("struck").glob(f"nodes/0001-*/{names.DONE}"))
    ahead_s = json.loads(done.read_text())["started_at"] - time.time()
    assert 3000 < ahead_s < 3600, ahead_s
    return row


def shared_full(stage: SlurmStage) -> Row:
    """The quota of the shared folder is used up while the cell trains."""
    stage.start()
    filler = stage.slurm.shared / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(1 << 16)):
            pass
    try:
        code, said = stage.bench.finish(timeout=PATIENCE_S)
        assert code != 0, said
        assert "Traceback" not in said, said
        assert "No space left" in said or "disk" in said, said
        took_s = stage.until_clean()
    finally:
        filler.unlink()
    return stage.row(took_s)


def files_late(stage: SlurmStage) -> Row:
    """The login node and a compute node see what others write on the shared folder 5 s late."""
    nodes = (stage.slurm.login, stage.slurm.compute[1])
    for node in nodes:
        show_late(node, stage.slurm.shared, seconds=5)
    try:
        return stage.by_itself()
    finally:
        for node in nodes:
            show_at_once(node, stage.slurm.shared)
