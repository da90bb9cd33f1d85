"""The table, the losses as CSV and the plot. Pure: curves in, text out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchmarks.same_learning import noise
from benchmarks.same_learning.noise import Curves, Ratios
from benchmarks.same_learning.paths import REFERENCE, Path
from runner.base.escapes import MarkdownText
from runner.figures import parity
from runner.tables.markdown import piped
from runner.tables.spreadsheet import csv_text

HEADERS = (
    *("path", "ranks", "arithmetic", "last loss", "difference"),
    *("loss start", "loss whole", "norm start", "norm whole", "verdict", "loss by parity.py"),
)


@dataclass(frozen=True)
class Line:
    """A path: its curves, or why it is missing."""

    path: Path
    curves: Curves | None = None
    why_not: str = ""


@dataclass(frozen=True)
class Model:
    """The paths of a model beside its reference, whose seeds are in the order of `references`."""

    name: str
    seeds: Sequence[int]
    references: Sequence[Curves]
    lines: Sequence[Line]

    def ratios(self, line: Line) -> Ratios | None:
        """Compare a path with the reference of its seed."""
        return noise.ratios(line.curves, self.references) if line.curves else None

    def differs(self, line: Line) -> list[str]:
        """Name what of a path is beyond the noise."""
        ratios = self.ratios(line)
        return ratios.beyond(line.path.arithmetic) if ratios else []

    def row(self, line: Line, verdict: str = "") -> list[str]:
        """Write a path as texts of the table."""
        head = [line.path.name, str(line.path.ranks), line.path.arithmetic]
        ratios = self.ratios(line)
        if line.curves is None or ratios is None:
            return [*head, *[""] * 6, line.why_not, ""]
        own = self.references[0]
        end = slice(-(len(own.loss) // 4), None)
        report = parity.compare([_by_iteration(line.curves)], [_by_iteration(own)])
        return [
            *head,
            f"{line.curves.loss[end].mean():.4f}",
            f"{(line.curves.loss - own.loss)[end].mean():+.4f}",
            *(f"{ratio:.3f}" for ratio in vars(ratios).values()),
            verdict or _verdict(line.path, ratios),
            "same" if report.same else f"diverges at {report.at}",
        ]

    def markdown(self) -> str:
        """Write the table, the reference's seeds first."""
        seeds = [
            self.row(
                Line(replace(REFERENCE, name=f"{REFERENCE.name}, seed {seed}"), curves),
                "the reference" if curves is self.references[0] else "the noise",
            )
            for seed, curves in zip(self.seeds, self.references, strict=True)
        ]
        rows = [*seeds, *map(self.row, self.lines)]
        return piped(
            [MarkdownText(header) for header in HEADERS],
            [[MarkdownText(text) for text in row] for row in rows],
            ["left", *["right"] * 8, "left", "left"],
        )


def csv(models: Sequence[Model]) -> str:
    """Write every loss and gradient norm: a line an iteration of a run."""
    runs = [
        (model.name, name, seed, curves)
        for model in models
        for name, seed, curves in (
            *((REFERENCE.name, *each) for each in zip(model.seeds, model.references, strict=True)),
            *((each.path.name, model.seeds[0], each.curves) for each in model.lines),
        )
        if curves
    ]
    frames = [
        pd.DataFrame(
            {
                **{"model": model, "path": name, "seed": seed},
                "iteration": range(1, len(curves.loss) + 1),
                "loss": curves.loss,
                "grad_norm": np.exp(curves.norm).round(3),
            }
        )
        for model, name, seed, curves in runs
    ]
    return csv_text(pd.concat(frames)) if frames else ""


def _verdict(path: Path, ratios: Ratios) -> str:
    if path.wrong:
        caught = [arithmetic for arithmetic in noise.LIMITS if ratios.beyond(arithmetic)]
        return f"caught in {', '.join(caught)}" if caught else "not caught"
    beyond = ratios.beyond(path.arithmetic)
    return f"differs: {', '.join(beyond)}" if beyond else "same"


def _by_iteration(curves: Curves) -> dict[int, float]:
    return dict(enumerate(curves.loss.tolist(), 1))
