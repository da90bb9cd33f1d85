"""Lines that look like frames of an open traceback, and say something else."""

import pytest

from runner.results.diagnosis.line_judge import LineJudge

TRACEBACK = (b"Traceback (most recent call last):", b'  File "train.py", line 3', b"    main()")


def judge() -> LineJudge:
    line_judge = LineJudge()
    for line in TRACEBACK:
        assert line_judge.feed(0, b"", line) is None
    return line_judge


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"  worker ended with exit code 134", "aborted"),
        (b"  worker 3 finished with exit code 137", "killed"),
        (b"  worker ended with exit code 139", "segfault"),
        (b"  worker ended with exit code 143", "terminated"),
        (b"  JOB 7 CANCELLED DUE TO NODE FAILURE", "node_lost"),
        (b"  DUE TO NODE FAILURE", "node_lost"),
        (b"  n2 was not reachable via ssh", "remote_shell"),
        (b"  pdsh is not installed", "remote_shell"),
        (b'  "message": "StopIteration: "', "error"),
        (b'  "message": "subprocess.TimeoutExpired: x"', "process_failed"),
    ],
)
def test_evidence_among_frames_is_seen(line: bytes, status: str) -> None:
    said = judge().feed(1, b"", line)
    assert said is not None
    assert said.status == status


@pytest.mark.parametrize("line", [b'    "py_callstack": "x"', b"    return f(x)"])
def test_the_last_frame_is_what_a_traceback_is_cut_off_behind(line: bytes) -> None:
    line_judge = judge()
    assert line_judge.feed(0, b"", line) is None
    (last_line,) = line_judge.cut_off().values()
    assert last_line[1] == (b"return f(x)" if b"return" in line else b"main()")
