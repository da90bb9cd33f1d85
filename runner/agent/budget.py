"""Node-hours that campaigns of a folder of runs took: read from the runs, so that no restart of a
server forgets them.
"""

import time
from pathlib import Path

from runner.folder import names
from runner.folder.attempt import Attempt, written_at
from runner.folder.campaign import Campaign, campaigns
from runner.folder.stored import UnreadableError

HOUR_S = 3600.0
LEAST_S = 30.0  # of a bench, which could not do anything in less


def spent_node_s(runs: Path) -> float:
    """Return what all attempts took: seconds times nodes; of one that goes on up to now."""
    return sum(
        _node_s(path) for campaign in campaigns(runs) for path in campaign.path.glob(names.ATTEMPTS)
    )


def _node_s(path: Path) -> float:
    attempt = Attempt(path, path.parents[1].name, 1, 1)
    try:
        run, outcome = attempt.run, attempt.outcome
    except UnreadableError:
        return 0.0
    if run is None:
        return 0.0
    if outcome is not None:
        return outcome.wall_s * len(run.nodes)
    began = written_at(path / names.RUN) or time.time()
    elapsed = min(max(0.0, time.time() - began), run.limits.time_limit_s)
    return elapsed * len(run.nodes)


def running(runs: Path) -> Campaign | None:
    """Return a campaign that bench runs now."""
    return next((campaign for campaign in campaigns(runs) if campaign.is_locked()), None)
