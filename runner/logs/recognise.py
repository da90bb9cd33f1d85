"""Which system a log is of, and why. Several share a format; then the reason says so."""

from runner.logs.kind import Sign
from runner.logs.kinds import KINDS

# Of a log without steps: by the words of few systems before those of many.
_NAMED = tuple(
    candidate
    for kind in sorted(KINDS.values(), key=lambda kind: len(kind.systems()))
    for candidate in kind.mentions
)
_SIGNS = {
    sign
    for candidate in (
        *_NAMED,
        *(candidate for kind in KINDS.values() for candidate in kind.candidates),
    )
    for sign in (*candidate.by, *candidate.without)
}


def signs(sample: bytes) -> set[Sign]:
    """Return the telling signs that a part of a log has."""
    small = sample.lower()
    return {sign for sign in _SIGNS if sign.stands_in(small)}


def system_of(kind: str | None, signs: set[Sign]) -> tuple[str | None, str]:
    """Return the system of a log with that kind of step lines and those signs, and why."""
    for candidate in KINDS[kind].candidates if kind and kind in KINDS else _NAMED:
        if candidate.fits(signs):
            return candidate.system, candidate.why
    return None, "nothing in the log names a system"
