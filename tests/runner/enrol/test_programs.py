"""Programs of this machine are run within limits, whatever they print."""

import sys

import pytest

from runner.base.errors import UserError
from runner.enrol import programs
from runner.enrol.programs import run


def python(code: str, text: str = "") -> tuple[int, str, str]:
    ended = run([sys.executable, "-c", code], text)
    return ended.returncode, ended.stdout, ended.stderr


def test_what_a_program_prints_comes_back() -> None:
    code = "import sys; print(input()); print('b', file=sys.stderr); sys.exit(3)"
    assert python(code, "a\n") == (3, "a\n", "b\n")


def test_input_that_nobody_reads_is_no_error() -> None:
    assert python("pass", "x" * (1 << 20))[0] == 0


def test_a_flood_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 34: memory grew for 60 s."""
    monkeypatch.setattr(programs, "MOST_BYTES", 1 << 20)
    flood = "import sys\nwhile True: sys.{}.write('x' * 65536)"
    for stream in ("stdout", "stderr"):
        code, stdout, stderr = python(flood.format(stream))
        assert (code, stdout) == (124, "")
        assert stderr.endswith("printed more than 1 MiB")


def test_silence_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LIMIT_S", 0.5)
    assert python("import time; time.sleep(60)")[2].endswith("gave no answer for 0 s")


def test_a_program_that_is_missing_is_named_with_the_cure() -> None:
    with pytest.raises(UserError, match="is not on this machine; install it"):
        run(["/no/such"], cure="install it")
