"""The figure of each run of a campaign: read once, as a run that ended does not change."""

from dataclasses import dataclass, field
from pathlib import Path

from runner.base.errors import UserError
from runner.figures.cell_figures import cell_figures
from runner.figures.measured_cell import measured_cell
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.results.decide import is_finished
from runner.results.records import record_of
from runner.terms.outcome import Outcome

NO_FIGURE = "its log does not show {}"


@dataclass
class RunFigures:
    """Reads one figure of a campaign's runs, a column of the machine tables (samples_per_s)."""

    campaign: Campaign
    figure: str
    _read: dict[Path, float | None] = field(default_factory=dict)

    def value(self, cell_id: str, repeat: int) -> float | None:
        """Return the figure of a repeat that ended ok; None of another."""
        attempt, outcome = self._last_attempt(cell_id, repeat)
        if attempt is None or outcome is None or outcome.status != "ok":
            return None
        if attempt.path not in self._read:
            self._read[attempt.path] = self._value(attempt)
        return self._read[attempt.path]

    def over(self, cell_id: str, repeat: int) -> bool:
        """Whether a repeat is over, well or not."""
        outcome = self._last_attempt(cell_id, repeat)[1]
        return outcome is not None and is_finished(outcome)

    def failure(self, cell_id: str, repeat: int) -> str:
        """Return why a repeat that is over has no figure; empty where it has one."""
        outcome = self._last_attempt(cell_id, repeat)[1]
        if outcome is None or not is_finished(outcome) or self.value(cell_id, repeat) is not None:
            return ""
        return outcome.reason if outcome.status != "ok" else NO_FIGURE.format(self.figure)

    def wall_s(self) -> list[float]:
        """Return how long the runs took whose figures were read."""
        ended = (Attempt(path, "", 1, 1).outcome for path in list(self._read)[-20:])
        return [outcome.wall_s for outcome in ended if outcome is not None and outcome.wall_s]

    def _last_attempt(self, cell_id: str, repeat: int) -> tuple[Attempt | None, Outcome | None]:
        attempts = self.campaign.attempts(cell_id, repeat)
        return (attempts[-1], attempts[-1].outcome) if attempts else (None, None)

    def _value(self, attempt: Attempt) -> float | None:
        try:
            figures, _, _ = cell_figures(measured_cell([record_of(attempt, self.campaign)]))
        except UserError:
            return None
        value: float | None = figures[self.figure]
        return value if value is not None and value > 0 else None
