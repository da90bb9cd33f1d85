"""Faults of the controller, of bench itself, and of what is asked of Slurm."""

import json
import signal
import time
from collections.abc import Callable

from runner.folder import names
from tests.cluster.slurm_files import JOBS_ENDED
from tests.faults.faults import before_only
from tests.faults.stage import PATIENCE_S, Row
from tests.on_nodes.campaign import wait
from tests.on_slurm.stage import STRUCK, SlurmStage

LEASE_S = 120.0  # for a run that nobody renews: a minute, and its end


def controller_down(stage: SlurmStage) -> Row:
    """The controller is away for a minute, and the struck job ends meanwhile."""
    stage.start()
    stage.slurm.controller_down()
    time.sleep(60)
    stage.slurm.controller_up()
    return stage.row(stage.until_struck_ended())


def runner_killed_queued(stage: SlurmStage) -> Row:
    """bench is killed while the job waits, and begun again: it follows that job."""
    before_only(stage)
    stage.block()
    stage.bench.start(*STRUCK)
    number = stage.until_submitted()
    stage.kill_runner()
    stage.unblock()
    return _followed(stage, number)


def runner_killed_running(stage: SlurmStage) -> Row:
    """bench is killed while the job runs, and begun again."""
    stage.start()
    number = stage.until_submitted()
    stage.kill_runner()
    return _followed(stage, number)


def runner_killed_ended(stage: SlurmStage) -> Row:
    """bench is killed, the job ends, and bench is begun again."""
    stage.start()
    number = stage.until_submitted()
    stage.kill_runner()
    stage.until_job_over(number)
    return _followed(stage, number)


def runner_killed_before_id(stage: SlurmStage) -> Row:
    """bench is killed between sbatch and writing the id down: the mark in its comment finds it."""
    stage.start()
    number = stage.until_submitted()
    stage.kill_runner()
    path = stage.folder_of("struck") / names.SUBMITTED
    path.write_text(json.dumps({**json.loads(path.read_text()), "job_id": None}))
    return _followed(stage, number)


def login_rebooted(stage: SlurmStage) -> Row:
    """Runs are left in the queue, and the login node is rebooted: its user's processes are gone,
    and Slurm's controller for ten seconds. The same command gathers the run.
    """
    before_only(stage)
    left = stage.bench.run("--submit", *STRUCK)
    assert left.returncode == 0, left.stderr
    number = stage.until_submitted()
    for pid, argv in stage.slurm.login.processes():
        if str(stage.slurm.shared) in " ".join(argv):
            stage.slurm.login.signal(pid, signal.SIGKILL)
    stage.slurm.controller_down()
    time.sleep(10)
    stage.slurm.controller_up()
    stage.until_job_over(number)
    return _followed(stage, number)


def forgotten(stage: SlurmStage) -> Row:
    """bench is killed, and Slurm forgets the ended job before it is begun again."""
    stage.slurm.configure(MinJobAge=2)
    stage.start()
    number = stage.until_submitted()
    stage.kill_runner()
    stage.until_job_over(number)
    wait(lambda: not stage.record(number), 120, "the controller to forget the job")
    return _followed(stage, number)


def forgotten_without_record(where: str) -> Callable[[SlurmStage], Row]:
    """A job that never began is cancelled, and forgotten, while no bench runs.

    `where`: by the controller, whose list of ended jobs (`sacct -c`) has it, or by both.
    """

    def do(stage: SlurmStage) -> Row:
        stage.slurm.configure(MinJobAge=2)
        before_only(stage)
        stage.block()
        stage.bench.start(*STRUCK)
        number = stage.until_submitted()
        stage.kill_runner()
        stage.slurm.run(["scancel", str(number)], check=True)
        wait(lambda: not stage.record(number), 120, "the controller to forget the job")
        if where == "both":
            stage.slurm.login.exec(["truncate", "-s", "0", JOBS_ENDED], check=True)
        stage.unblock()
        stage.bench.run(*STRUCK)
        return stage.row(None)

    return do


def _followed(stage: SlurmStage, number: int) -> Row:
    began = time.monotonic()
    again = stage.bench.run()
    took_s = time.monotonic() - began
    attempts = list(stage.folder_of("struck").parent.glob("attempt*"))
    assert len(attempts) == 1, again.stdout + again.stderr
    assert stage.job() == number, again.stderr
    return stage.row(took_s)


def ctrl_c_once(stage: SlurmStage) -> Row:
    """Ctrl-C: running and queued jobs of the campaign are cancelled."""
    stage.start()
    stage.runner.signal(signal.SIGINT)
    code, said = stage.bench.finish()
    assert code == 130, said
    wait(lambda: not stage.slurm.jobs(), PATIENCE_S, "an empty queue")
    return stage.row(stage.until_clean())


def ctrl_c_twice(stage: SlurmStage) -> Row:
    """Ctrl-C twice: nobody waits for the jobs, which were told to end; the next bench looks."""
    stage.start()
    for _ in range(2):
        stage.runner.signal(signal.SIGINT)
        time.sleep(0.3)
    code, said = stage.bench.finish()
    assert code == 130, said
    assert "the same command follows it" in said, said
    took_s = stage.until_clean()
    again = stage.bench.run()
    assert stage.outcome("struck", 2).get("status") == "ok", again.stdout + again.stderr
    return stage.row(took_s)


def two_benches(stage: SlurmStage) -> Row:
    stage.start()
    same = stage.bench.run()
    assert same.returncode == 2, same.stderr
    assert "another bench runs campaign" in same.stderr
    return stage.row(stage.until_struck_ended())


def user_variables(stage: SlurmStage) -> Row:
    """The user's shell has variables of Slurm's that would change or break every job."""
    stage.runner.env = {
        "SBATCH_PARTITION": "nowhere",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_OUTPUT": "/nowhere/out",
        "SBATCH_EXCLUSIVE": "user",
        "SLURM_NNODES": "1",
        "SLURM_NTASKS": "7",
        "SRUN_EXPORT_ENV": "NONE",
        "SQUEUE_FORMAT": "%i",
        "SLURM_TIME_FORMAT": "%s",
    }
    return stage.by_itself()


def refused_partition(stage: SlurmStage) -> Row:
    """The cells name a partition that there is not: a sentence, and nothing is queued."""
    refused = stage.bench.run()
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert not list(stage.bench.runs.rglob(names.SUBMITTED)), "something was queued"
    nowhere = "partitionname=nowhere"
    stage.slurm.slurm("scontrol", "create", nowhere, "nodes=ALL")
    done = stage.bench.run()
    assert done.returncode == 0, done.stderr
    row = stage.row(None)
    stage.slurm.slurm("scontrol", "delete", nowhere)
    return Row(**{**vars(row), "status": "refused", "reason": refused.stderr.strip()})


def never_starts(stage: SlurmStage) -> Row:
    """The partition's limit falls below the queued job's time: it waits for what never comes."""
    before_only(stage)
    stage.block()
    stage.bench.start(*STRUCK)
    stage.until_submitted()
    stage.slurm.slurm("scontrol", "update", "partitionname=main", "MaxTime=1")
    stage.unblock()
    try:
        took_s = stage.until_struck_ended()
        stage.bench.finish()
    finally:
        stage.slurm.slurm("scontrol", "update", "partitionname=main", "MaxTime=UNLIMITED")
    return stage.row(took_s)


# -- mode allocation -------------------------------------------------------------------------------


def allocation_runner_killed(stage: SlurmStage) -> Row:
    """bench is killed: its run ends well before its lease is over, and the next bench says so.

    The allocation is kept for that bench, which goes on there.
    """
    stage.start()
    (held,) = stage.slurm.jobs()
    stage.kill_runner()
    began = time.monotonic()
    wait(lambda: not stage.struck_pids(), LEASE_S, "the end of the step")
    took_s = time.monotonic() - began
    assert stage.slurm.jobs() == [held]
    again = stage.bench.run(timeout=300)
    assert again.returncode == 0, again.stdout + again.stderr
    return stage.row(took_s)


def allocation_cancelled(stage: SlurmStage) -> Row:
    """Somebody cancels the allocation of the campaign."""
    stage.start()
    (line,) = stage.slurm.jobs()
    stage.slurm.run(["scancel", line.split()[0]], check=True)
    return stage.row(stage.until_struck_ended())
