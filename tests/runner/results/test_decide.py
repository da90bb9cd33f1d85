"""How a run ended: from its nodes, its first cause, and what it measured."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.causes import LATE, Cause
from node.validated_text import InsidePath
from runner.base.dataclass_schema import read
from runner.base.paths import PROJECT
from runner.folder.attempt import Halt
from runner.folder.endings import Ending
from runner.results.decide import decide, is_finished, last_words, learned, with_verdict
from runner.results.diagnosis.verdict import Verdict
from runner.terms.outcome import Outcome, Place
from runner.terms.record import ENDED, NOT_ENDED, Interval, Measurement

RECORDED = PROJECT / "tests" / "data" / "torchrun"
VERDICT = Verdict(
    "out_of_memory",
    "memory ran out: CUDA out of memory (nodes/0001-b/log:7)",
    Path("runs/x/nodes/0001-b/log"),
    7,
    "CUDA out of memory",
    "nodes/0001-b/log",
)
WELL = {"ended_by": "exit", "rc": 0}
BOTH_WELL = {"a": WELL, "b": WELL}
# What may stand in `halt`, or be said of a node; bench adds two of its own.
CAUSES = [cause for cause in Cause if cause not in (Cause.NO_STEP, Cause.STOPPED_EARLY)]


def steps(reached: int) -> Measurement:
    return Measurement(tuple(Interval(n) for n in range(1, reached + 1)))


def ended(
    cause: str = "", reached: int = 5, done: Mapping[str, Any] = BOTH_WELL, **more: Any
) -> Outcome:
    """The outcome of a run of two nodes and five iterations; `done` as in done.json."""
    facts: dict[str, Any] = {
        "nodes": 2,
        "halt": Halt(cause, "a", f"a: {cause}") if cause else None,
        "measured": steps(reached),
        "train_iters": 5,
        "play_words": "",
        "endings": {host: read(Ending, how) for host, how in done.items()},
    }
    return decide(**{**facts, **more})


def test_all_nodes_well_and_the_last_iteration_reached_is_ok() -> None:
    assert ended() == Outcome("ok", "", "")


@pytest.mark.parametrize(
    "last",
    [
        Interval(5, loss=float("nan")),
        Interval(5, loss=float("inf")),
        Interval(5, nan=1),  # as Megatron leaves its loss out
    ],
)
def test_a_run_whose_last_loss_is_no_number_is_diverged(last: Interval) -> None:
    """Such a run has learned nothing: `ok` beside its speed would be a lie."""
    first = tuple(Interval(n, loss=9.0) for n in range(1, 5))
    outcome = ended(measured=Measurement((*first, last)))
    assert (outcome.status, outcome.cause) == ("diverged", "nan_loss")
    assert "NaN or infinite at iteration 5" in outcome.reason
    assert is_finished(outcome)
    again = learned(Outcome("ok", "", ""), Measurement((*first, last)))  # of an older version
    assert again.status == "diverged"


def test_a_last_step_that_the_optimiser_skipped_says_nothing_of_the_loss() -> None:
    losses = tuple(Interval(n, loss=9.0) for n in range(1, 5))
    skipped = Interval(5, loss=float("inf"), skipped=1)
    assert ended(measured=Measurement((*losses, skipped))).status == "ok"
    assert ended(measured=Measurement((Interval(1, nan=1), *losses[1:], skipped))).status == "ok"


@pytest.mark.parametrize(
    ("cause", "trained", "untrained"),
    [
        ("exit", "failed", "did_not_run"),
        ("time_limit", "timed_out", "did_not_run"),
        ("node_lost", "node_lost", "did_not_run"),
        ("supervisor_lost", "failed", "did_not_run"),
        ("missing", "failed", "did_not_run"),
        ("unreachable", "failed", "did_not_run"),
        ("interrupted", "interrupted", "did_not_run"),
        ("control_lost", "interrupted", "did_not_run"),
        ("stopped", "interrupted", "did_not_run"),
    ],
)
def test_the_status_of_a_cause(cause: str, trained: str, untrained: str) -> None:
    assert (ended(cause, reached=4).status, ended(cause, reached=0).status) == (trained, untrained)
    assert ended(cause, reached=4).cause == cause
    assert ended(cause, reached=4).reason.startswith(f"a: {cause}")


def test_every_status_word_can_be_reached_and_no_other() -> None:
    all_ends = [ended(cause, reached) for cause in ["", *CAUSES] for reached in (0, 3, 5)]
    assert {end.status for end in all_ends} == set(ENDED)


@pytest.mark.parametrize("done", [{}, {"a": WELL}, {"a": WELL, "b": WELL}])
def test_without_a_step_nothing_ran(done: dict[str, Any]) -> None:
    """Whatever ended it: the row carries no numbers. Whether bench runs it again is its cause's."""
    for cause in ["", *CAUSES]:
        end = ended(cause, reached=0, done=done)
        by_itself = not cause and len(done) == 2  # every trainer ended with exit code 0
        assert end.status == ("no_steps" if by_itself else "did_not_run")
        assert end.reason


def test_exit_code_0_without_a_step_says_so() -> None:
    end = ended(reached=0)
    assert (end.status, end.cause, end.reason) == (
        *("no_steps", "no_step"),
        "the launcher ended normally (exit code 0), but the log has no step",
    )


def test_exit_code_0_before_the_last_iteration_is_unfinished() -> None:
    end = ended(reached=4)
    assert (end.status, end.cause) == ("unfinished", "stopped_early")
    assert end.reason == "the launcher ended with exit code 0 at iteration 4 of 5"
    assert with_verdict(end, Verdict("ok", ""), "").status == "unfinished"
    assert with_verdict(end, VERDICT, "").status == "failed"  # upstream's scripts hide it


def test_a_trainers_own_word_that_it_ended_is_ok() -> None:
    """Megatron core_v0.13.0 megatron/training/training.py:2141, of --exit-duration-in-mins."""
    words = "exiting program after 60.1 minutes"
    end = with_verdict(ended(reached=4), Verdict("ok", "", closed=words), "")
    assert (end.status, end.cause) == ("ok", "")
    assert end.reason.endswith(f"at iteration 4 of 5, as its log says: {words}")


def test_a_run_ends_where_the_first_of_what_it_was_told_says() -> None:
    """Megatron ends at a multiple of --exit-interval (training.py:2170 of core_v0.13.0)."""
    steps = tuple(Interval(n) for n in range(1, 5))
    for every, status in (("4", "ok"), ("2", "ok"), ("5", "unfinished"), ("3", "unfinished")):
        measured = Measurement(steps, facts={"exit_interval": every})
        assert ended(measured=measured).status == status
    tens = Measurement(tuple(Interval(n, 10) for n in (10, 20, 30)))
    for of, status in ((39, "ok"), (40, "unfinished"), (30, "ok")):
        assert ended(measured=tens, train_iters=of).status == status


def test_a_system_that_does_not_say_its_iterations_is_ok_with_any_step() -> None:
    assert ended(reached=1, train_iters=None).status == "ok"


def test_a_node_without_an_answer_is_a_launch_error_with_ansibles_words() -> None:
    end = ended(done={"a": WELL})
    assert (end.status, end.cause, end.reason) == (
        "failed",
        "launch_error",
        "1 of 2 nodes gave no answer",
    )
    assert ended(done={}, play_words="b: no such plugin").reason == "b: no such plugin"


@pytest.mark.parametrize("cause", sorted(LATE))
def test_what_comes_while_a_complete_run_ends_takes_nothing_from_it(cause: str) -> None:
    assert ended(cause) == Outcome("ok", "", "")
    stopped = {"ended_by": "stop", "rc": None, "signal": 15, "message": cause}
    for more in ({"reached": 4}, {"done": {"a": WELL}}, {"done": {"a": WELL, "b": stopped}}):
        assert ended(cause, **more).cause == cause
    assert ended(cause, train_iters=None).cause == cause  # nobody knows whether it is complete


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause not in LATE])
def test_any_other_cause_stands_though_all_nodes_ended_well(cause: str) -> None:
    assert ended(cause).cause == cause


@pytest.mark.parametrize(
    ("how", "cause", "words"),
    [
        ({"ended_by": "exit", "rc": 1}, "exit", "b: the launcher ended with exit code 1"),
        (
            {"ended_by": "exit", "rc": None, "signal": 9, "oom_kills": 1},
            "exit",
            "b: the launcher was ended by signal 9, and the kernel killed a process for lack of"
            " memory meanwhile",
        ),
        (
            {"ended_by": "error", "cause": "launch_error", "message": "No space left on device"},
            "launch_error",
            "b: No space left on device",
        ),
        (
            {"ended_by": "lost", "cause": "node_lost", "message": "out of contact for 7 s"},
            "node_lost",
            "b: out of contact for 7 s",
        ),
        ({"ended_by": "time_limit"}, "time_limit", "b: the run reached time_limit_s"),
        (
            *({"ended_by": "time_limit", "message": "the run reached time_limit_s, 9 s"},),
            *("time_limit", "b: the run reached time_limit_s, 9 s"),
        ),
        ({"ended_by": "error", "message": "supervisor: x"}, "supervisor_lost", "b: supervisor: x"),
        ({}, "supervisor_lost", "b: ended by None"),
    ],
)
def test_a_node_that_ended_badly_is_the_cause_where_no_halt_says_one(
    how: dict[str, Any], cause: str, words: str
) -> None:
    """As where `halt` could not be written."""
    for reached in (0, 5):
        end = ended(reached=reached, done={"a": WELL, "b": how})
        assert (end.cause, end.ending) == (cause, words)
        assert end.status not in ("ok", *NOT_ENDED)
    assert ended(done={"b": how}).cause == cause  # and where another node said nothing at all


def test_a_log_that_did_not_come_home_in_full_is_no_end_of_the_trainers() -> None:
    lacks = {**WELL, "log": "incomplete: out of contact for 7 s"}
    whole = ended(done={"a": WELL, "b": lacks})  # its last iteration is there
    assert (whole.status, whole.reason) == (
        "ok",
        "the log of b is incomplete: out of contact for 7 s",
    )
    for reached, status in ((4, "failed"), (0, "did_not_run")):
        end = ended(reached=reached, done={"a": lacks, "b": WELL})
        assert (end.status, end.cause) == (status, "launch_error")
        assert not is_finished(end)
        assert end.reason == (
            f"the launcher ended with exit code 0, its log at iteration {reached};"
            " the log of a is incomplete: out of contact for 7 s"
        )
    end = ended("interrupted", reached=4, done={"a": lacks, "b": WELL})
    assert (end.status, end.cause) == ("interrupted", "interrupted")
    assert end.reason.endswith("; the log of a is incomplete: out of contact for 7 s")


def test_a_failed_launcher_is_reported_with_the_first_cause_and_its_evidence() -> None:
    end = with_verdict(ended("exit"), VERDICT, "an epilogue")
    assert end.reason == "a: exit: memory ran out: CUDA out of memory (nodes/0001-b/log:7)"
    assert (end.status, end.ending, end.diagnosis) == ("failed", "a: exit", "out_of_memory")
    assert end.evidence == Place(InsidePath("nodes/0001-b/log"), 7)
    assert end.last_words == "CUDA out of memory"


def test_without_evidence_a_failed_launcher_is_reported_with_its_last_words() -> None:
    for verdict in (None, Verdict("no_step", "nothing in the log says why"), Verdict("ok", "")):
        end = with_verdict(ended("exit"), verdict, "ValueError: no")
        assert (end.reason, end.last_words) == ("a: exit: ValueError: no", "ValueError: no")
        assert (end.diagnosis, end.evidence) == (None, None)


def test_exit_code_0_without_a_step_is_explained_where_the_log_can() -> None:
    """Upstream's scripts exit 0 when the trainer fails."""
    end = with_verdict(ended(reached=0), VERDICT, "")
    assert (end.status, end.cause, end.diagnosis) == ("did_not_run", "no_step", "out_of_memory")
    assert end.reason.startswith(
        "the launcher ended normally (exit code 0), but the log has no step: memory"
    )


def test_a_time_limit_is_explained_by_what_came_before_it_not_by_what_it_did() -> None:
    late = replace(VERDICT, status="killed", sentence="a process was killed")
    assert with_verdict(ended("time_limit"), late, "step 3").reason == "a: time_limit"
    assert with_verdict(ended("time_limit"), late, "step 3").last_words == "step 3"
    assert with_verdict(ended("time_limit"), VERDICT, "").diagnosis == "out_of_memory"


@pytest.mark.parametrize("oom_kills", [0, 1])
def test_who_lost_a_killed_peer_is_no_cause(oom_kills: int) -> None:
    """SIGKILL of one rank, and what another says of its socket: one story, the signal first."""
    killed = {"ended_by": "exit", "rc": None, "signal": 9, "oom_kills": oom_kills}
    lost = replace(VERDICT, status="connection_lost", sentence="a peer closed the connection")
    end = with_verdict(ended(done={"a": WELL, "b": killed}, reached=4), lost, "")
    assert end.diagnosis == "killed"
    assert end.reason.startswith("b: the launcher was ended by signal 9")
    assert ("journalctl" in end.reason) == (not oom_kills)
    assert end.reason.endswith("; the others then lost their connection to it")


def test_every_end_is_one_of_the_documented_words() -> None:
    for cause, reached, train_iters in itertools.product(["", *CAUSES], (0, 2, 5), (5, None)):
        assert ended(cause, reached, train_iters=train_iters).status in ENDED


# --- a log's own words ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "exception_on_rank_1.log",
            "ValueError: micro_batch_size 4 x data_parallel 2 does not divide 7",
        ),
        (
            "error_line_on_rank_0.log",
            "torch_gpt error: dataset default_text_document.bin is truncated: 10 bytes",
        ),
    ],
)
def test_the_error_is_found_before_torchruns_own_report(log: str, words: str) -> None:
    assert last_words((RECORDED / log).read_bytes()) == words


def test_a_killed_rank_is_told_by_its_signal() -> None:
    said = last_words((RECORDED / "rank_1_killed.log").read_bytes())
    assert said.startswith("traceback : Signal 9 (SIGKILL) received by PID")


def test_torchruns_advice_is_never_the_last_word() -> None:
    said = last_words((RECORDED / "exit_1_without_a_word.log").read_bytes())
    assert said.startswith("exitcode : 1 (pid: ")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (b"", ""),
        (b"\n\n", ""),
        (b"one\ntwo\n", "two"),
        (b"one\nhalf", "half"),
        (b"MemoryError\nbye\n", "MemoryError"),
        (b"torch.OutOfMemoryError: CUDA out of memory.\nx\n", "torch.OutOfMemoryError: CUDA out"),
        (b"\x1b[31mRuntimeError: red\x1b[0m\nx\n", "RuntimeError: red"),
        (b"[rank1]: KeyError: 'a'\nx\n", "KeyError: 'a'"),
        (b"[default3]:OSError: disk\r\nx\r\n", "OSError: disk"),
        (b"10%\r20%\r30%", "30%"),
        (b"KeyError: first\nDuring handling\nOSError: second\n", "KeyError: first"),
        (b"the loss has no Error: in it\nend\n", "end"),
        (b"AttributeErrors are nice\nend\n", "end"),
        (b"\xff\xfe\n", "��"),
        (b"x\n[trainbench: 12 bytes of this log left out]\n", "x"),
        (b"KeyboardInterrupt\n", "KeyboardInterrupt"),
    ],
)
def test_the_line_that_says_most(log: bytes, words: str) -> None:
    said = last_words(log)
    assert said.startswith(words)
    assert bool(said) == bool(words)


def test_words_are_cut_to_what_a_table_can_show() -> None:
    assert len(last_words(b"ValueError: " + b"x" * 10_000)) == 300


def test_nothing_in_a_log_reaches_the_terminal_as_a_command() -> None:
    """Colours, cursor moves, a clipboard write (OSC 52) and the 8-bit forms of both."""
    evil = "RuntimeError: \x1b[31mred\x1b[0m \x1b]52;c;cm0gLXJm\x07 \x9b2J \x1b]0;title\x1b\\ end\n"
    said = last_words(evil.encode())
    assert said == "RuntimeError: red end"
