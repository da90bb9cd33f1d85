r"""Does tune find the fastest layout, and with how few runs? Its policy on measured layouts.

    python -m benchmarks.tuning FILE.csv... [--noise 3] [--seeds 10] [--groups]

Each row of a table is a layout with its measured step time (columns: COLUMNS below). A group is
what a person would tune: the same model, devices, batch and sequence. In place of a run stands a
look into the table; runner/tune decides what to look at, with its default settings. The earlier
measurements that it knows are the rows of all other models: those of the judged model are left out.

`exact`: share of groups whose fastest layout was found; `2 %`: whose choice is at most 2 % slower;
`worst`: the largest regret. `runs`: layouts started, as a share of all layouts, over all groups
together; `repeats`: runs of a layout that had run before, which the final race makes mostly, as a
share likewise. Groups of fewer than 6 layouts are left out. Beside tune:

    other widths      tune, which knows the rows of other hidden sizes only (where there are some)
    no earlier rows   tune, which knows the coefficients that it begins with and nothing else
    random order      as many layouts of each group as tune started, drawn at random
    rule of thumb     least tensor x pipeline parallelism, then the largest micro batch
    model alone       what is predicted fastest before the first run
    exhaustive        every layout once; with noise every layout three times

With noise, each measurement is multiplied by 1 + noise x a normal deviate; regret is that of the
true times.
"""

import argparse
import csv
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
from tabulate import tabulate

from runner.base.errors import UserError
from runner.study.study import RunEnding
from runner.terms.layout import Layout
from runner.tune.beliefs import Earlier, Knowledge
from runner.tune.candidates import TuneCandidate
from runner.tune.search import NextRun, Search
from runner.tune.trials import Trial

COLUMNS = {  # of a table: of Layout
    "devices": "devices",
    "devices_per_node": "devices_per_node",
    "global_batch_size": "global_batch_size",
    "micro_batch_size": "micro_batch_size",
    "sequence_length": "sequence_length",
    "layers": "layers",
    "hidden": "hidden",
    "heads": "heads",
    "tensor_parallel": "tensor_parallel",
    "data_parallel": "data_parallel",
    "pipeline_parallel": "pipeline_parallel",
}
TIME = "step_time_ms"
LARGEST = 10**9  # of a size
GROUP = ("devices", "devices_per_node", "global_batch_size", "sequence_length")
MOST_NOISE, MOST_SEEDS = 20.0, 1000  # percent of a measurement, draws
FEWEST = 6  # layouts of a group that is judged
CLOSE = 0.02
EXHAUSTIVE_REPEATS = 3


@dataclass(frozen=True)
class Row:
    """A measured layout of a table."""

    model: str
    layout: Layout
    step_s: float


@dataclass(frozen=True)
class Choice:
    """What a way to choose came to in one group."""

    regret: float  # of the true times, as a share
    started: int
    repeats: int
    layouts: int


Way = Callable[["Group", float, int], Choice]


class Group:
    """The layouts of one training, as candidates and a stand-in for running them."""

    def __init__(self, name: str, rows: Sequence[Row], earlier: Knowledge, wide: Knowledge) -> None:
        self.name, self.rows, self.earlier, self.other_widths = name, rows, earlier, wide
        self.candidates = [TuneCandidate(str(at), row.layout) for at, row in enumerate(rows)]
        self.search = Search(self.candidates, earlier)

    def measure(self, at: int, repeat: int, noise: float, seed: int) -> float:
        """Return the time of one run; the same arguments give the same time."""
        if not noise:
            return self.rows[at].step_s
        random = np.random.default_rng([zlib.crc32(self.name.encode()), at, repeat, seed])
        return float(self.rows[at].step_s * (1 + noise * random.standard_normal()))

    def choice(self, at: int, started: int, repeats: int = 0) -> Choice:
        """Judge the choice of a layout."""
        best = min(row.step_s for row in self.rows)
        return Choice(self.rows[at].step_s / best - 1, started, repeats, len(self.rows))


def read(paths: Iterable[Path]) -> list[Row]:
    """Read tables. A full recomputation is what they were measured with.

    Raises UserError that names the file and the line that does not fit.
    """
    rows: list[Row] = []
    for path in paths:
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows += _rows(csv.DictReader(file, strict=True), path)
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{path} is not CSV in UTF-8: {error}; save it as one") from None
    return rows


def _rows(table: "csv.DictReader[str]", path: Path) -> Iterator[Row]:
    needed = ("model", *COLUMNS, TIME)
    if missing := [name for name in needed if name not in (table.fieldnames or ())]:
        raise UserError(
            f"{path}: its first line lacks {', '.join(missing)}; it must name the columns"
            f" {', '.join(needed)}"
        )
    for line in table:
        where = f"{path}, line {table.line_num}"
        sizes = {ours: _size(line[theirs], theirs, where) for theirs, ours in COLUMNS.items()}
        layout = Layout(**sizes, recompute="full")  # type: ignore[arg-type]
        ranks = layout.tensor_parallel * layout.data_parallel * layout.pipeline_parallel
        if ranks != layout.devices:
            raise UserError(
                f"{where}: tensor_parallel x data_parallel x pipeline_parallel is {ranks}, and"
                f" devices {layout.devices}; correct the line or remove it"
            )
        yield Row(line["model"], layout, _number(line[TIME], TIME, where) / 1e3)


def _size(text: str | None, column: str, where: str) -> int:
    number = _number(text, column, where)
    if number != int(number) or number > LARGEST:
        raise UserError(f"{where}: {column} is {text!r}; it must be a whole number up to {LARGEST}")
    return int(number)


def _number(text: str | None, column: str, where: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise UserError(f"{where}: {column} is {(text or '')[:40]!r}; it must be a number above 0")
    return number


def groups(rows: Sequence[Row], *, fewest: int = FEWEST) -> list[Group]:
    """Sort rows into groups, each of which knows the rows of all other models."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row.model, *(getattr(row.layout, name) for name in GROUP))
        found.setdefault(key, []).append(row)
    models = {
        model: knowledge(r for r in rows if r.model != model)
        for model in {row.model for row in rows}
    }
    widths = {
        width: knowledge(r for r in rows if r.layout.hidden != width) for width in hidden(rows)
    }
    return [
        Group(
            " ".join(map(str, key)), members, models[str(key[0])], widths[members[0].layout.hidden]
        )
        for key, members in found.items()
        if len(members) >= fewest
    ]


def knowledge(rows: Iterable[Row]) -> Knowledge:
    """Return what a search knows that has seen these rows."""
    return Knowledge(earlier=tuple(Earlier(row.layout, row.step_s) for row in rows))


def hidden(rows: Iterable[Row]) -> set[int]:
    """Return the widths of the models."""
    return {row.layout.hidden for row in rows}


def tuned(known: Callable[[Group], Knowledge] | None = None) -> Way:
    """Return tune as a way to choose; without `known`, it knows the group's earlier rows."""

    @cache
    def way(group: Group, noise: float, seed: int) -> Choice:
        search = group.search if known is None else Search(group.candidates, known(group))
        trials: list[Trial] = []
        while isinstance(step := search.next(trials), NextRun):
            repeat = sum(trial.candidate == step.candidate for trial in trials)
            time = group.measure(int(step.candidate), repeat, noise, seed)
            early = step.end_above_s is not None and time > step.end_above_s
            ending: RunEnding = "ended_early" if early else "ok"
            trials.append(Trial(step.candidate, step.length, ending, time))
        started = len({trial.candidate for trial in trials})
        return group.choice(int(step.winner or 0), started, len(trials) - started)

    return way


def random_order(like: Way) -> Way:
    """Return the way that starts as many layouts as `like`, at random."""

    def way(group: Group, noise: float, seed: int) -> Choice:
        count = like(group, noise, seed if noise else 0).started
        order = np.random.default_rng([zlib.crc32(group.name.encode()), seed]).permutation(
            len(group.rows)
        )[:count]
        at = min(order, key=lambda one: group.measure(one, 0, noise, seed))
        return group.choice(int(at), count)

    return way


def rule_of_thumb(group: Group, noise: float, seed: int) -> Choice:
    """Choose by the rule that people use. It measures nothing."""

    def key(at: int) -> tuple[int, int, int]:
        one = group.rows[at].layout
        parts = one.tensor_parallel * one.pipeline_parallel
        return parts, -one.micro_batch_size, one.pipeline_parallel

    return group.choice(min(range(len(group.rows)), key=key), 0)


def model_alone(group: Group, noise: float, seed: int) -> Choice:
    """Choose what is predicted fastest."""
    return group.choice(int(group.earlier.over(group.candidates).mean.argmin()), 0)


def exhaustive(group: Group, noise: float, seed: int) -> Choice:
    """Run every layout, three times where there is noise."""
    repeats = range(EXHAUSTIVE_REPEATS if noise else 1)
    means = [
        fmean(group.measure(at, repeat, noise, seed) for repeat in repeats)
        for at in range(len(group.rows))
    ]
    more = (len(repeats) - 1) * len(means)
    return group.choice(means.index(min(means)), len(means), more)


def line(name: str, choices: Sequence[Choice]) -> list[str]:
    """Sum up what a way came to over groups and seeds."""
    layouts = sum(one.layouts for one in choices)
    return [
        name,
        *(f"{100 * fmean(one.regret <= most for one in choices):.1f}" for most in (1e-9, CLOSE)),
        f"{100 * fmean(one.regret for one in choices):.2f}",
        f"{100 * max(one.regret for one in choices):.1f}",
        *(
            f"{sum(counts)} ({100 * sum(counts) / layouts:.1f} %)"
            for counts in ([one.started for one in choices], [one.repeats for one in choices])
        ),
    ]


def table(judged: Sequence[Group], noise: float, seeds: int) -> str:
    """Return the table of all ways. What is random is drawn `seeds` times."""
    tune = tuned()
    wide = len(hidden(row for group in judged for row in group.rows)) > 1
    ways: Mapping[str, tuple[Way, bool]] = {
        "tune": (tune, noise > 0),
        **(
            {"tune, other widths": (tuned(lambda one: one.other_widths), noise > 0)} if wide else {}
        ),
        "tune, no earlier rows": (tuned(lambda _: Knowledge()), noise > 0),
        "random order": (random_order(tune), True),
        "rule of thumb": (rule_of_thumb, False),
        "model alone": (model_alone, False),
        "exhaustive": (exhaustive, noise > 0),
    }
    lines = [
        line(
            name, [way(one, noise, seed) for seed in range(seeds if drawn else 1) for one in judged]
        )
        for name, (way, drawn) in ways.items()
    ]
    headers = ["", "exact, %", "within 2 %, %", "mean regret, %", "worst, %", "runs", "repeats"]
    return tabulate(lines, headers, "github", disable_numparse=True)


def _percent(text: str) -> float:
    """Read a noise: 0 to 20 percent."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST_NOISE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to {MOST_NOISE:g}")
    return value


def _count(text: str) -> int:
    """Read a number of draws."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_SEEDS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_SEEDS}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--noise", type=_percent, default=3.0, help="percent per measurement")
    parser.add_argument("--seeds", type=_count, default=10, help="draws of what is random")
    parser.add_argument("--groups", action="store_true", help="print each group, too")
    chosen = parser.parse_args(argv)
    try:
        judged = groups(read(chosen.files))
    except UserError as error:
        parser.error(str(error))
    if not judged:
        parser.error(f"no group of {FEWEST} layouts or more")
    total = sum(len(one.rows) for one in judged)
    print(f"{len(judged)} groups, {total} layouts; a model's rows are unknown to its searches.\n")
    if chosen.groups:
        for one in judged:
            print("  ".join([one.name, *line("", [tuned()(one, 0.0, 0)])]))
    print(f"As measured:\n\n{table(judged, 0.0, chosen.seeds)}\n")
    if chosen.noise:
        print(f"With {chosen.noise:g} % noise on each measurement, {chosen.seeds} seeds:\n")
        print(table(judged, chosen.noise / 100, chosen.seeds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
