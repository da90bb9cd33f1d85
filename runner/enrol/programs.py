"""Run programs of this machine: ssh and its helpers, Slurm's, the reader of hostfiles."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import CompletedProcess
from typing import IO

from runner.base.errors import UserError

MOST_BYTES = 4 << 20  # that a program may print
LIMIT_S = 60.0  # nvidia-smi without its daemon takes ten seconds and more


def run(
    argv: Sequence[str],
    text: str = "",
    env: Mapping[str, str] = os.environ,
    cure: str = "install OpenSSH's client",
) -> CompletedProcess[str]:
    """Run a program to its end, with `text` for its input: it cannot ask a person anything.

    Raises UserError with `cure` where the program is missing.
    """
    try:
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that what it starts ends with it
        )
    except FileNotFoundError:
        raise UserError(f"{argv[0]} is not on this machine; {cure}") from None
    with process, ThreadPoolExecutor(3) as threads:
        input_task = threads.submit(_give, process.stdin, text)
        outputs = [
            threads.submit(_take, stream, process) for stream in (process.stdout, process.stderr)
        ]
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            _end(process)
            message = f"{argv[0]} gave no answer for {LIMIT_S:.0f} s"
            return CompletedProcess(argv, returncode=124, stdout="", stderr=message)
        except BaseException:
            _end(process)
            raise
        input_task.result()
        try:
            stdout, stderr = (output.result(LIMIT_S) for output in outputs)
        except TimeoutError:  # what it left behind holds them open
            _end(process)
            stdout, stderr = (output.result() for output in outputs)
    if stdout is None or stderr is None:
        message = f"{argv[0]} printed more than {MOST_BYTES >> 20} MiB"
        return CompletedProcess(argv, returncode=124, stdout="", stderr=message)
    texts = (stream_bytes.decode(errors="replace") for stream_bytes in (stdout, stderr))
    return CompletedProcess(argv, process.returncode, *texts)


def _give(stream: IO[bytes] | None, text: str) -> None:
    with suppress(OSError):  # it did not want to hear it
        if stream:
            stream.write(text.encode())
            stream.close()


def _take(stream: IO[bytes] | None, process: "subprocess.Popen[bytes]") -> bytes | None:
    """Return what a program prints; None where it is too much, which ends it."""
    data = stream.read(MOST_BYTES + 1) if stream else b""
    if len(data) <= MOST_BYTES:
        return data
    _end(process)
    return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
