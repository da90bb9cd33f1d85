"""Whether a person can be asked: only at a terminal, and never with `--non-interactive`."""

import sys

_forbidden: list[bool] = []


def ask_nobody() -> None:
    """Have this process ask nobody from now on: what needs an answer is refused."""
    _forbidden.append(True)


def can_ask() -> bool:
    """Return whether somebody sits at this process's terminal and may be asked."""
    return not _forbidden and sys.stdin.isatty()
