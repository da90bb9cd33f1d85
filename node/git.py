"""The node's git, which asks nobody and runs nothing that a repository names."""

from __future__ import annotations

import os
import subprocess

from node.answer import ProgramError

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Mapping, Optional

OPTIONS = [
    "advice.detachedHead=false",
    "core.autocrlf=false",
    "core.fileMode=true",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "init.defaultBranch=main",
    "log.showSignature=false",  # which would run gpg.program
]


class GitError(ProgramError):
    """What git said when it failed."""


def git(
    folder: str, *arguments: str, stdin: str = "", env: Optional[Mapping[str, str]] = None
) -> str:
    """Run git in a folder of ours, asking nobody; its output, or GitError with its own words."""
    return output(folder, *arguments, stdin=stdin, env=env, fetches=True).strip()


def output(
    folder: str,
    *arguments: str,
    stdin: str = "",
    env: Optional[Mapping[str, str]] = None,
    limit_s: Optional[float] = None,
    fetches: bool = False,
) -> str:
    """Run git likewise, in anyone's repository; its output as it is.

    Without `fetches` no transport may run: of a partial clone, the repository names its program.
    Raises GitError; TimeoutExpired after `limit_s`.
    """
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    environment.update(
        LC_ALL="C",
        GIT_TERMINAL_PROMPT="0",
        GIT_NO_LAZY_FETCH="1",
        GIT_SSH_COMMAND="ssh -o BatchMode=yes",
    )
    if not fetches:
        environment["GIT_ALLOW_PROTOCOL"] = "none"  # before git 2.45 nobody reads NO_LAZY_FETCH
    options = [word for option in OPTIONS for word in ("-c", option)]
    completed = subprocess.run(
        ["git", *options, *arguments],
        cwd=folder,
        env={**environment, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=limit_s,
    )
    if completed.returncode != 0:
        raise GitError(
            (completed.stderr or completed.stdout).strip() or "git %s failed" % arguments[0]
        )
    return completed.stdout
