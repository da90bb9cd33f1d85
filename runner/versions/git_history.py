"""Ask the trainer's own git repository on this machine: which commit is meant, and what lies
between two. Nothing is checked out, and no program runs that the repository's settings name.
"""

import re
from pathlib import Path

from node.git import GitError, output
from runner.base.errors import UserError
from runner.versions.version import SHORT, Version

MOST_COMMITS = 100_000


def commit_of(repository: Path, revision: str, option: str) -> Version:
    """Return the commit that a revision means. Raises UserError."""
    if revision.startswith("-"):
        raise UserError(f"{option}: {revision!r} is not a revision of git")
    answer = _git(repository, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if answer is None:
        raise UserError(
            f"{option}: {repository} has no commit {revision!r}; fetch it first (git fetch), or"
            " write a package as NAME==VERSION, a pin set as pin=NAME"
        )
    subject = _git(repository, "log", "-1", "--format=%s", answer) or ""
    label = answer[:SHORT] if re.fullmatch(r"[0-9a-f]{7,40}", revision) else revision
    return Version("commit", answer, label, subject)


def between(repository: Path, good: Version, bad: Version) -> list[Version]:
    """Return the commits from good to bad, both included, by first parents. Raises UserError.

    Of a merge its whole branch is one change, as with `git bisect --first-parent`.
    """
    base = _git(repository, "merge-base", good.value, bad.value)
    if base != good.value:
        raise UserError(
            f"{good.label} is not an ancestor of {bad.label}; name the older commit with --good,"
            f" such as their merge base {(base or '')[:SHORT] or '(no common commit)'}"
        )
    arguments = ("log", "--first-parent", "--ancestry-path", "--reverse", "--format=%H %s")
    listed = _git(repository, *arguments, f"{good.value}..{bad.value}") or ""
    lines = [line.partition(" ") for line in listed.splitlines()][:MOST_COMMITS]
    inner = [Version("commit", digits, digits[:SHORT], subject) for digits, _, subject in lines]
    if not inner:
        raise UserError(f"{good.label} and {bad.label} are the same commit; name two")
    return [good, *inner[:-1], bad]


def repository_of(folder: Path) -> Path:
    """Return the top folder of the git repository that a folder is in. Raises UserError."""
    try:
        return Path(_asked(folder, "rev-parse", "--show-toplevel"))
    except GitError as error:
        raise UserError(
            f"{folder} is in no git repository ({str(error)[:200]}), which `repository: .` of a pin"
            " set means; name the repository's address"
        ) from None


def _git(repository: Path, *arguments: str) -> str | None:
    """Return what git says; None where it refuses."""
    try:
        return _asked(repository, *arguments)
    except GitError:
        return None


def _asked(folder: Path, *arguments: str) -> str:
    """Return what git says of someone's repository. Raises GitError, UserError without git."""
    try:
        return output(str(folder), *arguments).rstrip("\n")
    except FileNotFoundError:
        raise UserError("git is not installed here; install it to use commits") from None
