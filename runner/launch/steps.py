"""What a playbook does, step by step: lines for a person from what it says of itself. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from runner.base.text import counted, listing
from runner.terms.printed_answers import StepOnHost
from runner.terms.progress import Told

STEP_WIDTH, HOST_WIDTH, STATE_WIDTH = 20, 16, 12
MOST_LINES = 8  # of why a step failed
BAD = ("failed", "unreachable", "refused")


def duration(seconds: float) -> str:
    """Return minutes and seconds."""
    minutes, seconds_left = divmod(round(seconds), 60)
    return f"{minutes}:{seconds_left:02}"


@dataclass
class OnHost:
    """What a step came to on one host."""

    changes: int = 0
    bad: str = ""
    why: str = ""
    ended: float = 0.0

    @property
    def word(self) -> Literal["ok", "changed", "failed", "unreachable"]:
        """Return it in a word."""
        if self.bad:
            return "unreachable" if self.bad == "unreachable" else "failed"
        return "changed" if self.changes else "ok"

    @property
    def state(self) -> str:
        """Return it in two words."""
        changed = counted(self.changes, "change")
        return self.bad or (changed if self.changes else "ok")


@dataclass
class Steps:
    """The steps of a playbook so far; `doing` is what each host is at."""

    plays: int = 0
    begun: int = 0
    step: str = ""
    since: float = 0.0
    hosts: dict[str, OnHost] = field(default_factory=dict)
    doing: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    refused: bool = False  # some host has wrong input
    changes: int = 0
    complete: bool = False
    closed: list[StepOnHost] = field(default_factory=list)
    told: set[str] = field(default_factory=set)  # lines for a person, which need no second time

    def take(self, said: Told, now: float) -> Iterator[str]:
        """Take what the playbook says; yield lines for a person."""
        if said.event == "begin":
            self.plays = said.count
        if said.event == "play":
            self.begun += 1
        if said.event in ("play", "end") or (said.step and said.step != self.step):
            yield from self._close()
            self.step, self.since = said.step, now
        if said.event == "task":
            self.doing[said.host] = said.words
        elif said.event == "text":
            self.told = set(said.words.splitlines())
            yield from ("", *said.words.splitlines(), "")
        elif said.event == "result":
            self._count(said, now)
        self.complete = self.complete or said.event == "end"

    def _count(self, said: Told, now: float) -> None:
        self.doing.pop(said.host, None)
        on_host = self.hosts.setdefault(said.host, OnHost())
        on_host.ended = now
        if said.status in BAD:
            on_host.bad, on_host.why = said.status, said.words
            self.failed[said.host] = self.step
            self.refused |= said.status == "refused"
        elif said.status == "changed":
            on_host.changes += 1
            on_host.why += said.words and f"{said.words}\n"
            self.changes += 1

    def _close(self) -> Iterator[str]:
        told = set(self.told)
        for host, ended in self.hosts.items():
            self.closed.append(
                StepOnHost(
                    step=self.step,
                    host=host,
                    state=ended.word,
                    changes=ended.changes,
                    took_s=max(0.0, ended.ended - self.since),
                    why=ended.why.strip(),
                )
            )
            took = duration(ended.ended - self.since)
            yield (
                f"{self.step:<{STEP_WIDTH}}  {host:<{HOST_WIDTH}}  {ended.state:<{STATE_WIDTH}}"
                f"  {took:>6}"
            )
            new_lines = [line for line in ended.why.splitlines() if line not in told]
            told.update(new_lines)
            yield from (f"    {line}" for line in new_lines[:MOST_LINES])
            if len(new_lines) > MOST_LINES:
                yield f"    and {len(new_lines) - MOST_LINES} more lines in Ansible's output"
        self.hosts, self.doing = {}, {}

    @property
    def now(self) -> str:
        """What goes on, for a line that changes: the hosts that do the same stand together."""
        by_words: dict[str, list[str]] = {}
        for host, step_title in self.doing.items():
            by_words.setdefault(step_title, []).append(host)
        parts = [
            f"{listing(hosts, 3 if len(hosts) < 4 else 1)}: {step_title}"
            for step_title, hosts in by_words.items()
        ]
        return f"{self.step}  {'; '.join(parts)}" if parts else self.step
