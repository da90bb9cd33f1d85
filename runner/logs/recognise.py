"""Which system a log is of, and why. Several share a format; then the reason says so."""

from __future__ import annotations

from runner.logs.kind import Sign
from runner.logs.kinds import KINDS

# Of a log without steps: by the words of few systems before those of many.
_NAMED = tuple(
    told
    for kind in sorted(KINDS.values(), key=lambda kind: len(kind.systems()))
    for told in kind.named
)
_SIGNS = {
    sign
    for told in (*_NAMED, *(told for kind in KINDS.values() for told in kind.told))
    for sign in (*told.by, *told.without)
}


def signs(sample: bytes) -> set[Sign]:
    """Return the telling signs that a part of a log has."""
    small = sample.lower()
    return {sign for sign in _SIGNS if sign.stands_in(small)}


def system_of(kind: str | None, found: set[Sign]) -> tuple[str | None, str]:
    """Return the system of a log with that kind of step lines and those signs, and why."""
    for told in _NAMED if kind is None else KINDS[kind].told:
        if told.fits(found):
            return told.system, told.why
    return None, "nothing in the log names a system"
