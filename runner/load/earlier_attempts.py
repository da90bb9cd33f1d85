"""Earlier attempts of a repeat, as they were recorded: their logs are not read."""

from collections.abc import Sequence

from runner.folder.attempt import Attempt
from runner.folder.stored import UnreadableError
from runner.terms.record import Tried


def earlier(attempts: Sequence[Attempt], current: Attempt) -> tuple[Tried, ...]:
    """Return how the attempts before `current` ended, oldest first."""
    return tuple(
        Tried(
            attempt=attempt.number,
            status=ended.status,
            reason=ended.reason,
            began=ended.started_at,
            wall_s=ended.wall_s,
            queued_s=ended.queued_s,
            hosts=_hosts(attempt),
        )
        for attempt in attempts
        if attempt.number < current.number and (ended := attempt.outcome) is not None
    )


def _hosts(attempt: Attempt) -> tuple[str, ...]:
    try:
        return tuple(attempt.hosts.values())
    except UnreadableError:
        return ()
