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
]


class GitError(ProgramError):
    """What git said when it failed."""


def git(folder: str, *words: str, stdin: str = "", env: Optional[Mapping[str, str]] = None) -> str:
    """Run git in the folder, asking nobody; its output, or GitError with its own words."""
    return output(folder, *words, stdin=stdin, env=env).strip()


def output(
    folder: str,
    *words: str,
    stdin: str = "",
    env: Optional[Mapping[str, str]] = None,
    limit_s: Optional[float] = None,
) -> str:
    """Run git likewise; its output as it is. Raises GitError; TimeoutExpired after `limit_s`."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    kept.update(
        LC_ALL="C",
        GIT_TERMINAL_PROMPT="0",
        GIT_NO_LAZY_FETCH="1",
        GIT_SSH_COMMAND="ssh -o BatchMode=yes",
    )
    options = [word for option in OPTIONS for word in ("-c", option)]
    done = subprocess.run(
        ["git", *options, *words],
        cwd=folder,
        env={**kept, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=limit_s,
    )
    if done.returncode != 0:
        raise GitError((done.stderr or done.stdout).strip() or "git %s failed" % words[0])
    return done.stdout
