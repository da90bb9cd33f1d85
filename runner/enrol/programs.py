"""Run programs of this machine: ssh and its helpers, Slurm's, the reader of hostfiles."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from subprocess import CompletedProcess

from runner.base.errors import UserError

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
        return subprocess.run(
            argv,
            input=text,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        raise UserError(f"{argv[0]} is not on this machine; {cure}") from None
    except subprocess.TimeoutExpired:
        words = f"{argv[0]} gave no answer for {LIMIT_S:.0f} s"
        return CompletedProcess(argv, returncode=124, stdout="", stderr=words)
