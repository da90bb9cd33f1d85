"""The answer to "is my number normal?": what others reached under the same conditions. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from node.printable import printable
from runner.base.escapes import json_text
from runner.base.text import counted, listing
from runner.expect import conditions
from runner.expect.conditions import ConditionDifference, device_kind
from runner.expect.references import Speed

PUBLISHED, OURS, OWN = "published by others", "measured by this project", "your campaigns"
FEW = 3  # figures from which on their range says what is usual
_UNIT = "tokens/s per device"


@dataclass(frozen=True)
class Expectation:
    """A speed beside those of `references`, which all differ from it in `differences` alone."""

    subject: Speed
    references: tuple[Speed, ...]
    differences: tuple[ConditionDifference, ...] = ()

    @property
    def rates(self) -> list[float]:
        """Those of the references, in tokens/s of one device."""
        return [reference.tokens_per_s_per_device for reference in self.references]

    @property
    def percent(self) -> float | None:
        """The speed in percent of their median; None where the two cannot be compared."""
        if any(difference.incomparable for difference in self.differences):
            return None
        return self.subject.tokens_per_s_per_device / median(self.rates) * 100

    @property
    def difference_words(self) -> str:
        """What the others do otherwise, in one sentence; empty without any."""
        who = "it" if len(self.references) == 1 else "each of them"
        return conditions.difference_words(self.differences, who)

    @property
    def words(self) -> str:
        """What people read: one sentence without its full stop."""
        if self.percent is None:
            return (
                "not compared: no figure for this device, model size and precision; nearest"
                f" {self._theirs}; {self.difference_words}"
            )
        percent = f"{self.percent:.0f}" if self.percent >= 10 else f"{self.percent:.2g}"
        if self.differences:
            return f"{percent} % of the nearest, {self._theirs}; {self.difference_words}"
        mine, rank = self.subject.tokens_per_s_per_device, ""
        if len(self.references) >= FEW:
            slow, fast = mine < min(self.rates), mine > max(self.rates)
            than = "slower than each of them" if slow else "faster than each of them"
            rank = f", {than if slow or fast else 'within their range'}"
        return f"{percent} % of {self._theirs}{rank}"

    @property
    def _theirs(self) -> str:
        """Whose figure it is, and how large."""
        figure = f"{rate_text(median(self.rates))} {_UNIT}"
        if (count := len(self.references)) > 1:
            low, high = (rate_text(end(self.rates)) for end in (min, max))
            spread = f", {low} to {high}" if low != high else ""
            figure = f"the median of {count}: {figure}{spread}"
        nearest = self.references[0]
        trainers, models = (
            listing(list(dict.fromkeys(names)))
            for names in (map(_trainer, self.references), (of.model for of in self.references))
        )
        device = f"{nearest.devices} x {device_kind(nearest.device)} {nearest.device_detail}"
        return f"{figure} ({trainers}; {models}; {device.strip()})"


def expect(subject: Speed, references: Iterable[Speed]) -> Expectation | None:
    """Find the references under the same conditions, else the nearest; None without any.

    The nearest ones are those that differ in the same words: several figures of one source.
    """
    alike: dict[tuple[ConditionDifference, ...], list[Speed]] = {}
    for reference in references:
        alike.setdefault(tuple(conditions.differences(subject, reference)), []).append(reference)
    if not alike:
        return None
    best = min(alike, key=lambda found: (sum(each.weight for each in found), -len(alike[found])))
    return Expectation(subject, tuple(alike[best]), best)


def _trainer(reference: Speed) -> str:
    return f"{reference.trainer} {reference.version}".strip()


def rate_text(rate: float) -> str:
    """Write tokens/s: whole, or with two decimals below 100."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.2f}"


@dataclass(frozen=True)
class SpeedAnswer:
    """A cell's or log's answer: `missing` says why it has no subject, and what to do about it."""

    name: str
    subject: Speed | None
    missing: str
    expectations: tuple[tuple[str, Expectation], ...] = ()

    @property
    def compared(self) -> bool:
        """Whether there is a percentage of anything."""
        return any(expectation.percent is not None for _, expectation in self.expectations)


def answer(
    name: str,
    subject: Speed | None,
    missing: str,
    published: Sequence[Speed],
    own_speeds: Sequence[Speed],
) -> SpeedAnswer:
    """Answer for one speed; without a device, or above its peak, nothing is compared."""
    if subject is None or (missing := missing or conditions.why_impossible(subject)):
        return SpeedAnswer(name, subject, missing)
    kinds = (
        (PUBLISHED, [reference for reference in published if not reference.is_ours]),
        (OURS, [reference for reference in published if reference.is_ours]),
        (OWN, own_speeds),
    )
    found = ((kind, expect(subject, references)) for kind, references in kinds)
    return SpeedAnswer(name, subject, "", tuple((kind, it) for kind, it in found if it is not None))


def to_text(answers: Sequence[SpeedAnswer], most_sources: int) -> str:
    """Write a paragraph for each: the speed, what others reached, and where they say so."""
    return "\n\n".join("\n".join(_lines(speed, most_sources)) for speed in answers) + "\n"


def _lines(speed: SpeedAnswer, most_sources: int) -> list[str]:
    lines = [printable(speed.name)]
    if speed.subject is not None:
        lines[0] += f": {rate_text(speed.subject.tokens_per_s_per_device)} {_UNIT}"
    if missing := speed.missing or ("" if speed.expectations else "--sources leaves no reference"):
        lines.append(f"  not compared: {missing}")
    for kind, expectation in speed.expectations:
        lines.append(f"  {kind}: {printable(expectation.words)}")
        lines += [f"    {printable(_source(of))}" for of in expectation.references[:most_sources]]
        if (more := len(expectation.references) - most_sources) > 0:
            lines.append(f"    and {counted(more, 'more figure')}")
    return lines


def _source(of: Speed) -> str:
    """Say what a reference is and where it stands."""
    detail = f" ({of.conditions})" if of.conditions else ""
    read = f", read {of.read}" if of.read else ""
    return (
        f"{rate_text(of.tokens_per_s_per_device)} {_UNIT}: {_trainer(of)}, {of.model}{detail};"
        f" {of.address}, {of.where}{read}"
    )


def to_json(answers: Sequence[SpeedAnswer]) -> str:
    """Write one JSON object, indented; docs/how-to/expect.md has its keys."""
    return json_text({"schema": 1, "speeds": [_plain(speed) for speed in answers]}) + "\n"


def _plain(speed: SpeedAnswer) -> dict[str, Any]:
    return {
        "name": printable(speed.name),
        "conditions": None if speed.subject is None else _values(speed.subject),
        "missing": speed.missing,
        "expectations": [
            {
                "of": kind,
                "percent": found.percent,
                "same_conditions": not found.differences,
                "median_tokens_per_s_per_device": median(found.rates),
                "differences": [
                    {"what": each.what, "here": each.here, "there": each.there}
                    for each in found.differences
                ],
                "references": list(map(_values, found.references)),
            }
            for kind, found in speed.expectations
        ],
    }


def _values(of: Speed) -> dict[str, Any]:
    return {**vars(of), "tokens_per_s_per_device": of.tokens_per_s_per_device}
