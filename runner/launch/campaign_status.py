"""The one document on how far a campaign is: bench makes it as it goes, `status` from a folder.

`status --format json` prints it, the live view draws it (`runner/launch/progress_layout.py`). Pure.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from node.time_words import lasts
from runner.base.escapes import TerminalLine, plain
from runner.base.text import listing

MOST_NEXT = 100  # repeats that did not begin, of which JSON has the names
_DRAWN = ("title", "words", "others")  # fields that only people see


@dataclass(frozen=True)
class Running:
    """A run that goes on now, at its newest step; `hosts` are its nodes by rank.

    None is not known (yet). `left_s` is a guess by the time of a step, `power_w` that of all its
    devices together.
    """

    cell: str
    repeat: int
    attempt: int
    elapsed_s: float
    folder: str
    hosts: tuple[str, ...] = ()
    iteration: int | None = None
    train_iters: int | None = None
    samples_per_s: float | None = None
    loss: float | None = None
    memory_used_mib: float | None = None
    left_s: float | None = None
    memory_rss_mib: float | None = None
    tokens_per_s: float | None = None
    power_w: float | None = None
    title: str = ""

    @property
    def on(self) -> str:
        """Write ` on a1, a2`."""
        return f" on {listing(self.hosts)}" if self.hosts else ""

    @property
    def time(self) -> str:
        """Write `14 s, about 20 s left`."""
        time_left = "" if self.left_s is None else f", {lasting(self.left_s)}"
        return f"{self.elapsed_s:.0f} s{time_left}"

    @property
    def step(self) -> str:
        """Write `12/50`; `starting` before the first iteration."""
        if self.iteration is None:
            return "starting"
        return f"{self.iteration}/{self.train_iters}" if self.train_iters else str(self.iteration)

    @property
    def figures(self) -> list[str]:
        """Write `98.1 samples/s`, `loss 5.321` and `1024 MiB`, as far as they are known."""
        values_and_texts = (
            (self.samples_per_s, "{:.1f} samples/s"),
            (self.loss, "loss {:.3f}"),
            (self.memory_used_mib, "{:.0f} MiB"),
            (self.memory_rss_mib, "RSS {:.0f} MiB"),
        )
        return [words.format(value) for value, words in values_and_texts if value is not None]

    @property
    def words(self) -> str:
        """Write `iteration 12/50, 98.1 samples/s, loss 5.321, 1024 MiB, 14 s, about 20 s left`."""
        if self.iteration is None:
            return f"starting, {self.elapsed_s:.0f} s"
        return ", ".join([f"iteration {self.step}", *self.figures, self.time])


@dataclass(frozen=True)
class Waiting:
    """A run that is queued, as the queue said last, when it was asked (epoch seconds)."""

    cell: str
    repeat: int
    attempt: int
    job_id: str = ""
    state: str = ""
    reason: str = ""
    position: int | None = None
    expected_start: float | None = None
    asked_at: float = 0.0
    folder: str = ""
    title: str = ""
    words: str = ""


@dataclass(frozen=True)
class Status:
    """A campaign as it stands: ended runs by status, those not ok by name, and what runs now.

    `left_s` is a guess: what the running ones say, and the median time of those that ended for each
    that did not begin. `others` go on, and were not looked at.
    """

    campaign: str
    runs: int
    live: bool = True
    ended: Mapping[str, int] = field(default_factory=dict)
    not_ok: tuple[tuple[str, str, str], ...] = ()
    left_s: float | None = None
    runs_now: tuple[Running, ...] = ()
    queued: tuple[Waiting, ...] = ()
    next: tuple[str, ...] = ()
    others: int = 0

    @property
    def running(self) -> Running | None:
        """The first of the runs that go on."""
        return self.runs_now[0] if self.runs_now else None

    @property
    def over(self) -> int:
        """Count the runs that ended."""
        return sum(self.ended.values())

    def to_json(self) -> dict[str, Any]:
        """Return what `status --format json` prints: numbers without sentences."""
        content: dict[str, Any] = {"schema": 1, **asdict(self)}
        for run_entry in (content, *content["runs_now"], *content["queued"]):
            for key in _DRAWN:
                run_entry.pop(key, None)
        content["running"] = content["runs_now"][0] if self.runs_now else None
        content["next"] = content["next"][:MOST_NEXT]
        return dict(plain(content))

    def words(self) -> str:
        """Say the same for a person."""
        state = "a bench runs it" if self.live else "no bench runs it"
        lines = [f"campaign {self.campaign}: {self.over} of {self.runs} runs ended, {state}"]
        lines += [f"  {count} {status}" for status, count in self.ended.items()]
        for now in self.runs_now:
            where = f"on {listing(now.hosts)}; {now.folder}" if now.hosts else now.folder
            lines.append(f"now: {now.title}: {now.words}  ({where})")
        for waiting in self.queued:
            lines.append(
                f"job {waiting.job_id}: {waiting.title}: {waiting.words}  ({waiting.folder})"
            )
        if (self.runs_now or self.queued) and not self.live:
            lines.append("the same bench command follows what runs and waits, and records its end")
        if self.left_s is not None:
            lines.append(f"campaign: {lasting(self.left_s)}")
        lines += [f"{status}: {cell}: {reason}" for cell, status, reason in self.not_ok]
        return "\n".join(map(TerminalLine, lines))


def titled(name: str, repeat: int) -> str:
    """Name a repeat of a cell."""
    return name + (f" repeat {repeat}" if repeat > 1 else "")


def lasting(left: float) -> str:
    """Write `about 20 s left`."""
    return f"about {lasts(round(left))} left"
