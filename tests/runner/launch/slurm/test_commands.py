"""Each program of Slurm's is asked in one way, and what it says becomes an answer or a sentence."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from runner.launch.slurm import commands
from runner.launch.slurm.commands import ControllerError, QueueFullError, Said, SlurmError

from . import said

Asked = list[tuple[str, ...]]
Answering = Callable[[Mapping[str, Said]], Asked]


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Programs that say what Slurm's said (said.py); what they were asked is listed."""

    def answering(answers: Mapping[str, Said]) -> Asked:
        asked: Asked = []

        def run(program: str, *argv: str, **_: object) -> Said:
            asked.append((program, *argv))
            return next(a for words, a in answers.items() if words in " ".join(asked[-1]))

        monkeypatch.setattr(commands, "_run", run)
        return asked

    return answering


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a program called squeue first into PATH."""
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n{text}\n")
    (tmp_path / "squeue").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_what_has_no_line_end_in_its_first_mib_is_no_answer() -> None:
    assert commands._text(b"x" * (commands.MOST_BYTES + 1) + b"\n") == ""
    assert commands._text(b"1\n" + b"x" * commands.MOST_BYTES) == "1\n"


def test_a_job_is_submitted_and_its_id_read(slurm: Answering) -> None:
    asked = slurm({"sbatch": Said(0, "Welcome to the cluster!\n12;alpha\n", "")})
    assert commands.submit(Path("/runs/job.sh"), {}) == 12
    assert asked == [("sbatch", "--parsable", "/runs/job.sh")]


def test_a_refused_job_is_a_sentence_and_an_odd_answer_is_to_be_looked_for(
    slurm: Answering,
) -> None:
    slurm({"sbatch": Said(1, "", said.NO_PARTITION)})
    with pytest.raises(SlurmError, match=r"job\.sh: invalid partition specified: nope; alloc"):
        commands.submit(Path("job.sh"), {})
    assert commands.test_only(Path("job.sh")) == (
        "invalid partition specified: nope; allocation failure: Invalid partition name specified"
    )
    slurm({"sbatch": Said(0, "\x1b[2J", "")})
    with pytest.raises(ControllerError, match="said no job id"):
        commands.submit(Path("job.sh"), {})


def test_a_job_that_slurm_would_take_has_no_sentence(slurm: Answering) -> None:
    slurm({"sbatch": Said(0, "", "sbatch: Job 13 to start at 1795369649 using ...")})
    assert commands.test_only(Path("job.sh")) is None


def test_a_queue_that_is_full_for_this_user_is_tried_again(slurm: Answering) -> None:
    slurm({"sbatch": Said(1, "", said.FULL)})
    with pytest.raises(QueueFullError, match=r"no more jobs .* \(QOSMaxSubmitJobPerUserLimit\)"):
        commands.submit(Path("job.sh"), {})
    assert commands.test_only(Path("job.sh")) is None


def test_all_jobs_are_asked_for_at_once(slurm: Answering) -> None:
    asked = slurm({"squeue": Said(0, said.SQUEUE, "")})
    assert sorted(commands.jobs([7, 1, 1, 99])) == [1, 7]
    assert len(asked) == 1
    assert "--jobs=1,7,99" in asked[0]
    assert commands.jobs([]) == {}
    assert len(asked) == 1


def test_ids_that_the_controller_has_forgotten_are_missing(slurm: Answering) -> None:
    slurm({"squeue": Said(1, "", said.INVALID_JOB), "scontrol": Said(1, "", said.INVALID_JOB)})
    assert commands.jobs([99999]) == {}
    assert commands.job(99999) is None
    slurm({"squeue": Said(0, "", "")})
    assert commands.jobs([99999, 99998]) == {}


def test_a_jobs_record_is_that_of_the_id(slurm: Answering) -> None:
    slurm({"scontrol": Said(0, said.RUNNING, "")})
    found = commands.job(1)
    assert found is not None
    assert found.state == "RUNNING"
    assert commands.job(2) is None


def test_a_job_is_found_by_its_mark_alone(slurm: Answering) -> None:
    slurm({"squeue": Said(0, said.SQUEUE, "")})
    assert [job.id for job in commands.find_by_comment("abc")] == [1]
    assert commands.find_by_comment("ab") == ()
    assert {mark: job.id for mark, job in commands.ours().items()} == {"abc": 1, "def": 7}


def test_accounts_come_from_the_database_else_from_completions_else_not(slurm: Answering) -> None:
    disabled = Said(1, "", said.NO_ACCOUNTS)
    asked = slurm({"--completion": Said(0, said.COMPLETED, ""), "--allocations": disabled})
    assert [(n, job.state) for n, job in commands.accounted([2, 3]).items()] == [(2, "CANCELLED")]
    assert [argv[1] for argv in asked] == ["--allocations", "--completion"]
    slurm({"sacct": disabled})
    assert commands.accounted([2]) == {}
    asked = slurm({"sacct": Said(0, "2|CANCELLED by 0|0:15|1|2|node1\n", "")})
    assert commands.accounted([2])[2].by == 0
    assert len(asked) == 1


def test_jobs_are_cancelled_by_id_and_those_that_are_gone_are_no_error(slurm: Answering) -> None:
    asked = slurm(
        {"scancel": Said(1, "", "scancel: error: Kill job error on job id 9: Invalid job id")}
    )
    commands.cancel([9, 3])
    commands.cancel([])
    assert asked == [("scancel", "3", "9")]
    slurm({"scancel": Said(1, "", "scancel: error: Access/permission denied")})
    with pytest.raises(SlurmError, match="permission denied"):
        commands.cancel([3])


def test_what_a_site_has_is_read(slurm: Answering) -> None:
    config = "Configuration data as of 1\nMinJobAge               = 30 sec\nPrivateData = none\n"
    slurm({"config": Said(0, config, ""), "mpi": Said(0, "", said.MPI)})
    assert commands.configuration() == {"MinJobAge": "30 sec", "PrivateData": "none"}
    assert commands.mpi_types() == ("pmix", "none", "cray_shasta", "pmi2", "pmix_v4")


def test_a_controller_that_is_down_is_asked_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, f"echo '{said.NO_CONTROLLER.strip()}' >&2; exit 1")
    with pytest.raises(ControllerError, match=r"cannot be reached: .*Unable to contact slurm"):
        commands.jobs([1])
    program(tmp_path, monkeypatch, "sleep 60")
    with pytest.raises(ControllerError, match="said nothing for"):
        commands._run("squeue", limit_s=0.1)


def test_a_machine_without_slurm_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SlurmError, match=r"squeue cannot be run: .*login node"):
        commands.jobs([1])


def test_much_is_cut_at_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MOST_BYTES", 100)
    line = said.SQUEUE.splitlines()[0]
    program(tmp_path, monkeypatch, f"for i in 1 2 3 4 5; do echo '{line}'; done")
    assert sorted(commands.jobs([2])) == [2]
