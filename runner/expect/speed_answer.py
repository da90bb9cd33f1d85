"""The answer to "is my number normal?", as text and as JSON. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from node.printable import printable
from runner.base.escapes import json_text
from runner.expect.conditions import Subject
from runner.expect.expectation import Expectation, expect, rate_text, source_lines
from runner.expect.references import Reference

PUBLISHED, OWN = "published", "your campaigns"


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
        return any(each.comparable for _, each in self.expectations)


def answer(
    name: str,
    subject: Subject | None,
    missing: str,
    published: Sequence[Reference],
    own: Sequence[Reference],
) -> SpeedAnswer:
    """Answer for one speed; without a device nothing is compared."""
    if subject is None or missing:
        return SpeedAnswer(name, subject, missing)
    expectations = tuple(
        (kind, found)
        for kind, references in ((PUBLISHED, published), (OWN, own))
        if (found := expect(subject, references)) is not None
    )
    return SpeedAnswer(name, subject, "", expectations)


def to_text(answers: Sequence[SpeedAnswer], most_sources: int) -> str:
    """Write a paragraph for each: the speed, what others reached, and where they say so."""
    return "\n\n".join(map("\n".join, (_lines(each, most_sources) for each in answers))) + "\n"


def _lines(one: SpeedAnswer, most_sources: int) -> list[str]:
    name = printable(one.name)
    rate = ""
    if one.subject is not None:
        rate = f": {rate_text(one.subject.tokens_per_s_per_device)} tokens/s per device"
    lines = [f"{name}{rate}"]
    if one.missing:
        lines.append(f"  not compared: {one.missing}")
    for kind, found in one.expectations:
        lines.append(f"  {kind}: {printable(found.words)}")
        lines += [f"    {printable(line)}" for line in source_lines(found.references, most_sources)]
    if not one.missing and not one.expectations:
        lines.append("  not compared: no reference is left by --sources")
    return lines


def to_json(answers: Sequence[SpeedAnswer]) -> str:
    """Write one JSON object, indented; docs/how-to/expect.md has its keys."""
    return json_text({"schema": 1, "speeds": [_plain(each) for each in answers]}) + "\n"


def _plain(one: SpeedAnswer) -> dict[str, Any]:
    return {
        "name": printable(one.name),
        "conditions": None if one.subject is None else vars(one.subject),
        "missing": one.missing,
        "expectations": [
            {
                "of": kind,
                "percent": found.percent,
                "same_conditions": found.same,
                "median_tokens_per_s_per_device": found.median,
                "differences": [
                    {"what": each.what, "here": each.here, "there": each.there}
                    for each in found.differences
                ],
                "references": [
                    {**vars(each), "tokens_per_s_per_device": each.tokens_per_s_per_device}
                    for each in found.references
                ],
            }
            for kind, found in one.expectations
        ],
    }
