"""The answer to "is my number normal?", as text and as JSON. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from node.printable import printable
from runner.base.escapes import json_text
from runner.expect.conditions import Subject, why_impossible
from runner.expect.expectation import Expectation, expect, rate_text, source_lines
from runner.expect.references import Reference

PUBLISHED, OURS, OWN = "published by others", "measured by this project", "your campaigns"


@dataclass(frozen=True)
class SpeedAnswer:
    """A cell's or log's answer: `missing` says why it has no subject, and what to do about it."""

    name: str
    subject: Subject | None = None
    missing: str = ""
    expectations: tuple[tuple[str, Expectation], ...] = ()

    @property
    def compared(self) -> bool:
        """Whether there is a percentage of anything."""
        return any(expectation.comparable for _, expectation in self.expectations)


def answer(
    name: str,
    subject: Subject | None,
    missing: str,
    published: Sequence[Reference],
    own_speeds: Sequence[Reference],
) -> SpeedAnswer:
    """Answer for one speed; without a device, or above its peak, nothing is compared."""
    missing = missing or (why_impossible(subject) if subject is not None else "")
    if subject is None or missing:
        return SpeedAnswer(name, subject, missing)
    others = [reference for reference in published if not reference.is_ours]
    ours = [reference for reference in published if reference.is_ours]
    expectations = tuple(
        (kind, expectation)
        for kind, references in ((PUBLISHED, others), (OURS, ours), (OWN, own_speeds))
        if (expectation := expect(subject, references)) is not None
    )
    return SpeedAnswer(name, subject, "", expectations)


def to_text(answers: Sequence[SpeedAnswer], most_sources: int) -> str:
    """Write a paragraph for each: the speed, what others reached, and where they say so."""
    return "\n\n".join(map("\n".join, (_lines(speed, most_sources) for speed in answers))) + "\n"


def _lines(speed: SpeedAnswer, most_sources: int) -> list[str]:
    name = printable(speed.name)
    rate = ""
    if speed.subject is not None:
        rate = f": {rate_text(speed.subject.tokens_per_s_per_device)} tokens/s per device"
    lines = [f"{name}{rate}"]
    if speed.missing:
        lines.append(f"  not compared: {speed.missing}")
    for kind, expectation in speed.expectations:
        lines.append(f"  {kind}: {printable(expectation.words)}")
        lines += [
            f"    {printable(line)}" for line in source_lines(expectation.references, most_sources)
        ]
    if not speed.missing and not speed.expectations:
        lines.append("  not compared: no reference is left by --sources")
    return lines


def to_json(answers: Sequence[SpeedAnswer]) -> str:
    """Write one JSON object, indented; docs/how-to/expect.md has its keys."""
    return json_text({"schema": 1, "speeds": [_plain(speed) for speed in answers]}) + "\n"


def _plain(speed: SpeedAnswer) -> dict[str, Any]:
    return {
        "name": printable(speed.name),
        "conditions": None if speed.subject is None else vars(speed.subject),
        "missing": speed.missing,
        "expectations": [
            {
                "of": kind,
                "percent": expectation.percent,
                "same_conditions": expectation.same,
                "median_tokens_per_s_per_device": expectation.median,
                "differences": [
                    {"what": difference.what, "here": difference.here, "there": difference.there}
                    for difference in expectation.differences
                ],
                "references": [
                    {
                        **vars(reference),
                        "tokens_per_s_per_device": reference.tokens_per_s_per_device,
                    }
                    for reference in expectation.references
                ],
            }
            for kind, expectation in speed.expectations
        ],
    }
