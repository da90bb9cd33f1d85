"""Each end state and each pending reason of Slurm's has one meaning."""

import re

import pytest

from node.causes import Cause
from runner.launch.slurm.answers import recorded
from runner.launch.slurm.states import ENDS, WAITING, is_held, job_end, never_starts

from . import said

GOES_ON = {
    *("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"),
    *WAITING,
}


@pytest.mark.parametrize("state", [*sorted(GOES_ON), "A_STATE_OF_2030"])
def test_a_job_goes_on_until_it_is_known_to_have_ended(state: str) -> None:
    assert job_end(1, state) is None


@pytest.mark.parametrize("state", ENDS)
def test_each_end_is_a_cause_and_a_sentence_about_the_job(state: str) -> None:
    end = job_end(12, state)
    assert end is not None
    assert end.cause.meaning
    assert re.fullmatch(r"job 12 [a-z].{5,200}", end.words)


@pytest.mark.parametrize("state", said.ENDS)
def test_a_recorded_end_is_read_whole(state: str) -> None:
    reason, exit = said.ENDS[state]
    text = said.NO_OUTPUT_FOLDER.replace("JobState=FAILED", f"JobState={state}")
    text = text.replace("JobLaunchFailure", reason).replace("ExitCode=0:53", f"ExitCode={exit}")
    job = recorded(text)
    assert job is not None
    end = job_end(job.id, job.state, job.reason, job.exit_code, job.exit_signal)
    assert end is not None
    assert end.cause == ENDS[state][0]
    assert state != "FAILED" or "ended with exit code 3" in end.words


def test_who_cancelled_a_job_is_said() -> None:
    end = job_end(12, "CANCELLED", by="alice")
    assert end is not None
    assert (end.cause, end.words) == (Cause.CANCELLED, "job 12 was cancelled by alice")


@pytest.mark.parametrize(
    ("reason", "code", "signal", "words"),
    [
        ("JobLaunchFailure", 0, 53, "could not be started; see that the run's folder is there"),
        ("NonZeroExitCode", 3, 0, "ended with exit code 3"),
        ("None", 0, 9, "ended by signal 9"),
    ],
)
def test_a_failed_job_says_how(reason: str, code: int, signal: int, words: str) -> None:
    end = job_end(12, "FAILED", reason, code, signal)
    assert end is not None
    assert end.cause == Cause.JOB_FAILED
    assert words in end.words


@pytest.mark.parametrize(
    ("reason", "key"),
    [
        ("PartitionTimeLimit", "time_limit_s"),
        ("QOSMaxWallDurationPerJobLimit", "time_limit_s"),
        ("AssocMaxCpuMinutesPerJobLimit", "time_limit_s"),
        ("PartitionNodeLimit", "slurm_partition"),
        ("PartitionConfig", "slurm_partition"),
        ("QOSMaxNodePerJobLimit", "slurm_qos"),
        ("QOSMaxGRESPerNode", "slurm_qos"),
        ("QOSMinGRES", "slurm_qos"),
        ("MaxMemPerLimit", "what is asked"),
        ("InvalidAccount", "slurm_account"),
        (said.SENTENCES[2], "slurm_account"),
        ("InvalidQOS", "slurm_qos"),
        ("BadConstraints", "slurm_constraint"),
        ("DependencyNeverSatisfied", "slurm_dependency"),
        ("ReservationDeleted", "slurm_reservation"),
        ("JobHoldMaxRequeue", "nodes fail"),
    ],
)
def test_what_can_never_be_met_is_said_with_the_cure(reason: str, key: str) -> None:
    end = never_starts(12, reason)
    assert end is not None
    assert end.cause == Cause.NEVER_STARTS
    assert reason in end.words
    assert key in end.words


@pytest.mark.parametrize(
    "reason",
    [
        *("", "None", "Priority", "Resources", "Dependency", "BeginTime", "PartitionDown"),
        *("PartitionInactive", "Licenses", "Reservation", "NodeDown", "Cleaning", "Prolog"),
        *("QOSMaxJobsPerUserLimit", "QOSMaxCpuPerUserLimit", "QOSGrpCpuLimit", "QOSGrpGRES"),
        *("AssocGrpCPUMinutesLimit", "AssocMaxJobsLimit", "JobArrayTaskLimit", "JobHeldUser"),
        *said.SENTENCES[:2],
        "AReasonOf2030",
    ],
)
def test_what_may_pass_is_waited_for(reason: str) -> None:
    assert never_starts(12, reason) is None


def test_a_held_job_waits_for_a_person() -> None:
    assert is_held("JobHeldUser")
    assert is_held("JobHeldAdmin")
    assert is_held("launch failed requeued held")
    assert not is_held("Priority")


def test_every_state_that_slurm_names_ends_a_job_or_does_not() -> None:
    known = said.STATES.split(",")
    assert len(known) == 24
    assert set(known) <= {*ENDS, *GOES_ON}
