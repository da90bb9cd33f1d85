"""What others reached under the same conditions, or under the nearest. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from runner.base.text import counted, listing
from runner.expect.conditions import (
    RECOMPUTATION,
    UNKNOWN_THERE,
    ConditionDifference,
    Subject,
    device_kind,
    differences,
)
from runner.expect.references import Reference

_UNIT = "tokens/s per device"
FEW = 3  # figures from which on their range says what is usual
# A source that does not say one of these, where all else is the same, is not another condition.
_MAY_BE_UNKNOWN = ("micro batch", RECOMPUTATION)


@dataclass(frozen=True)
class Expectation:
    """A speed beside those of `references`, which all differ from it in `differences` alone."""

    subject: Subject
    references: tuple[Reference, ...]
    differences: tuple[ConditionDifference, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the conditions are the same."""
        return not self.differences

    @property
    def comparable(self) -> bool:
        """Whether device, size of the model and precision are the same."""
        return not any(difference.incomparable for difference in self.differences)

    @property
    def median(self) -> float:
        """The median of the references, in tokens/s of one device."""
        return median(self._rates)

    @property
    def percent(self) -> float | None:
        """The speed in percent of that median; None where the two cannot be compared."""
        return self.subject.tokens_per_s_per_device / self.median * 100 if self.comparable else None

    @property
    def _rates(self) -> list[float]:
        return [reference.tokens_per_s_per_device for reference in self.references]

    @property
    def difference_words(self) -> str:
        """The differences as clauses; empty without any."""
        return "; ".join(difference.words for difference in self.differences)

    @property
    def words(self) -> str:
        """What people read: one sentence without its full stop."""
        if self.percent is None:
            return (
                "not compared: no figure for this device, model size and precision; nearest"
                f" {self._theirs}: {self.difference_words}"
            )
        if self.same:
            return f"{percent_text(self.percent)} % of {self._theirs}{self._rank}"
        percent = percent_text(self.percent)
        return f"{percent} % of the nearest, {self._theirs}, but {self.difference_words}"

    @property
    def _theirs(self) -> str:
        """Whose figure it is, and how large."""
        count = len(self.references)
        figure = f"{rate_text(self.median)} {_UNIT}"
        if count > 1:
            low, high = (rate_text(end(self._rates)) for end in (min, max))
            figure = f"the median of {count}: {figure}, {low} to {high}"
        nearest = self.references[0]
        trainers = listing(
            list(dict.fromkeys(_trainer(reference) for reference in self.references))
        )
        models = listing(list(dict.fromkeys(reference.model for reference in self.references)))
        detail = f" {nearest.device_detail}" if nearest.device_detail else ""
        device = f"{nearest.devices} x {device_kind(nearest.device)}{detail}"
        return f"{figure} ({trainers}; {models}; {device})"

    @property
    def _rank(self) -> str:
        """Whether it is within their range, of FEW or more."""
        if len(self.references) < FEW:
            return ""
        own_rate = self.subject.tokens_per_s_per_device
        if own_rate < min(self._rates):
            return ", slower than each of them"
        return (
            ", faster than each of them" if own_rate > max(self._rates) else ", within their range"
        )


def expect(subject: Subject, references: Iterable[Reference]) -> Expectation | None:
    """Find the references under the same conditions, else the nearest; None without any.

    The nearest ones are those that differ in the same words: several figures of one source.
    """
    alike: dict[tuple[str, ...], list[Reference]] = {}
    differences_by_text: dict[tuple[str, ...], tuple[ConditionDifference, ...]] = {}
    for reference in references:
        conditions = tuple(
            difference
            for difference in differences(subject, reference)
            if not _may_be_unknown(difference)
        )
        texts = tuple(difference.words for difference in conditions)
        alike.setdefault(texts, []).append(reference)
        differences_by_text[texts] = conditions
    if not alike:
        return None
    best = min(
        differences_by_text,
        key=lambda texts: (
            sum(difference.weight for difference in differences_by_text[texts]),
            -len(alike[texts]),
        ),
    )
    return Expectation(subject, tuple(alike[best]), differences_by_text[best])


def _may_be_unknown(difference: ConditionDifference) -> bool:
    return difference.what in _MAY_BE_UNKNOWN and difference.there == UNKNOWN_THERE


def _trainer(reference: Reference) -> str:
    return f"{reference.trainer} {reference.version}".strip()


def percent_text(percent: float) -> str:
    """Write a percentage: whole, or with two digits below 10."""
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def rate_text(rate: float) -> str:
    """Write tokens/s: whole, or with two decimals below 100."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.2f}"


def source_lines(references: Sequence[Reference], most: int = 5) -> list[str]:
    """Say for each reference what it is and where it stands, at most so many."""
    lines = [
        f"{rate_text(reference.tokens_per_s_per_device)} {_UNIT}: {_trainer(reference)},"
        f" {reference.model}{f' ({reference.conditions})' if reference.conditions else ''};"
        f" {reference.address}, {reference.where}"
        f"{f', read {reference.read}' if reference.read else ''}"
        for reference in references[:most]
    ]
    more = len(references) - most
    return [*lines, f"and {counted(more, 'more figure')}"] if more > 0 else lines
