"""The combinations of a matrix's knobs as candidates of a search, each legal or refused. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from runner.base.errors import UserError
from runner.matrix.cells import label
from runner.plan import checks
from runner.systems.common import placeholders
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.tuning import Tuning
from runner.tune.candidates import Knob, TuneCandidate
from runner.tune.trials import Length

ITERATIONS = "train_iters"
SHORT_ITERS = 16  # of a short run: the warm-up rule needs 8 lines, and leaves out half at most
SHORT_LINES = 8  # logged lines that a short run has at least
# Keys whose effect the layout holds, so that they are no knobs without a formula.
IN_LAYOUT = (
    *("tensor_parallel", "pipeline_parallel", "context_parallel", "micro_batch_size"),
    *("zero_stage", "activation_checkpointing", "selective_recompute", "sequence_parallel"),
    *("distributed_optimizer", "dp_shard", "dp_replicate", "nodes", "devices_per_node"),
    "global_batch_size",
)


@dataclass(frozen=True)
class RaceCandidate:
    """A combination of the knobs: what the search knows of it, and the cells that it runs as.

    `short` and `long` differ in train_iters alone; they are one cell where a run has one length.
    """

    known: TuneCandidate
    short: Cell
    long: Cell

    @property
    def id(self) -> str:
        """The id of its long cell."""
        return self.known.id

    @property
    def name(self) -> str:
        """`tensor_parallel=2,micro_batch_size=4`."""
        return ",".join(f"{key}={label(value)}" for key, value in self.knobs.items()) or self.id

    @property
    def knobs(self) -> Mapping[str, Any]:
        """Its values of the knobs."""
        return {key: value for key, value in self.long.axes.items() if key != ITERATIONS}

    def cell(self, length: Length) -> Cell:
        """Return the cell of a run of that length."""
        return self.short if length == "short" else self.long


@dataclass(frozen=True)
class Candidates:
    """All combinations of a matrix's knobs, in the order of the file: the default is the first."""

    all: tuple[RaceCandidate, ...]
    tuning: Tuning

    @cached_property
    def by_id(self) -> Mapping[str, RaceCandidate]:
        """Each candidate by its id."""
        return {candidate.id: candidate for candidate in self.all}

    @cached_property
    def by_digest(self) -> Mapping[str, tuple[RaceCandidate, Length]]:
        """Each legal candidate by the digests of its cells, and the length of such a run."""
        runs: dict[str, tuple[RaceCandidate, Length]] = {}
        for candidate in self.legal:
            runs[candidate.long.digest] = (candidate, "long")
            runs[candidate.short.digest] = (candidate, "short")
        return runs

    @cached_property
    def legal(self) -> Sequence[RaceCandidate]:
        """Those that no check refused."""
        return [candidate for candidate in self.all if not candidate.known.refused]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of all legal candidates."""
        return tuple(
            {
                cell.id: cell
                for candidate in self.legal
                for cell in (candidate.short, candidate.long)
            }.values()
        )

    @property
    def refusals(self) -> Sequence[tuple[str, int]]:
        """Each reason with the number of candidates that it refused, most first."""
        return Counter(
            candidate.known.refused for candidate in self.all if candidate.known.refused
        ).most_common()

    @cached_property
    def default(self) -> RaceCandidate | None:
        """The one with the first value of each knob; None where it is excluded or refused."""
        return next(
            (candidate for candidate in self.legal if _is_first(candidate, self.tuning)), None
        )


def _is_first(candidate: RaceCandidate, tuning: Tuning) -> bool:
    values = tuning.knobs_of(candidate.long.system)
    return all(value == values[key][0] for key, value in candidate.knobs.items())


def candidates_of(matrix: Matrix, cluster: Cluster) -> Candidates:
    """Check each cell of a matrix with `tune`, and say what is known of it beforehand.

    Raises UserError where the matrix has no `tune`.
    """
    if matrix.tune is None:
        raise UserError(
            f"the matrix {matrix.name} has no `tune`; name the knobs there, as"
            " matrices/start/tune.yaml does, or run it with bench"
        )
    candidates: list[RaceCandidate] = []
    for cell in matrix.cells:
        short, long = lengths(cell, matrix)
        refused = _refusal(short, long, cluster, matrix) or other_training(
            long, matrix.cells[0], matrix.tune
        )
        description = (
            TuneCandidate(long.id, refused=refused)
            if refused
            else candidate_of(long, cluster, matrix.tune)
        )
        candidates.append(RaceCandidate(description, short, long))
    return Candidates(tuple(candidates), matrix.tune)


def lengths(cell: Cell, matrix: Matrix) -> tuple[Cell, Cell]:
    """Return the cells of a candidate's short and long run."""
    iterations = cell.parameters.get(ITERATIONS)
    if iterations is None or not _takes_iterations(cell):
        return cell, cell
    line = cell.parameters.get("log_interval") or 1
    least = max(SHORT_ITERS, SHORT_LINES * line) + (matrix.warmup_iters or 0)
    assert matrix.tune is not None
    short = min(matrix.tune.short_iters or least, iterations)
    long = _of_length(cell, iterations)
    return (long if short == iterations else _of_length(cell, short)), long


def _takes_iterations(cell: Cell) -> bool:
    """Whether train_iters reaches the trainer: of a command, as a word of its argv."""
    if not load_system(cell.system).own_keys:
        return True
    try:
        return ITERATIONS in placeholders.all_names(cell.parameters["argv"] or [])
    except (UserError, TypeError):  # its check says what is wrong
        return False


def _of_length(cell: Cell, iterations: int) -> Cell:
    """Return the cell with so many iterations, in its name, too."""
    axes = {**cell.axes, ITERATIONS: iterations}
    name = ",".join(f"{key}={label(value)}" for key, value in axes.items())
    parameters = {**cell.parameters, ITERATIONS: iterations}
    return replace(cell, name=name, axes=axes, parameters=parameters, id="")


def _refusal(short: Cell, long: Cell, cluster: Cluster, matrix: Matrix) -> str:
    """Return why a check refuses it, or nothing."""
    try:
        for cell in {long.id: long, short.id: short}.values():
            checks.check_cell(cell, cluster, matrix.warmup_iters)
    except UserError as error:
        return str(error)
    return ""


def other_training(cell: Cell, reference: Cell, tuning: Tuning) -> str:
    """Say why it would train something else than the first candidate, or nothing."""
    system, theirs = load_system(cell.system), load_system(reference.system)
    facts: list[tuple[str, object, object]] = [
        ("tokens_per_sample", system.tokens_per_sample(cell), theirs.tokens_per_sample(reference)),
    ]
    if tuning.objective != "tokens_per_s":
        facts.append(("global batch", system.batch_size(cell), theirs.batch_size(reference)))
    if cell.system == reference.system:
        facts.append(("dataset", cell.dataset, reference.dataset))
        if system.architecture(cell) != theirs.architecture(reference):
            return "its model is another one than the first candidate's: another training"
    for name, ours, their_fact in facts:
        if ours is not None and their_fact is not None and ours != their_fact:
            return f"its {name} is {ours}, and the first candidate's {their_fact}: another training"
    return ""


def work_of(cell: Cell, tuning: Tuning) -> float:
    """Return what times are divided by: 1, or tokens per step and device."""
    if tuning.objective != "tokens_per_s":
        return 1.0
    system = load_system(cell.system)
    batch, tokens = system.batch_size(cell), system.tokens_per_sample(cell)
    return batch * tokens / cell.world_size if batch and tokens else 1.0


def candidate_of(cell: Cell, cluster: Cluster, tuning: Tuning) -> TuneCandidate:
    """Return a legal cell as a candidate, with its layout and memory where its system tells."""
    estimate = load_system(cell.system).estimate
    expected = estimate(cell, cluster) if estimate else None
    layout = expected.layout if expected else None
    skipped = (ITERATIONS, *(IN_LAYOUT if layout else ()))
    return TuneCandidate(
        id=cell.id,
        layout=layout,
        knobs={key: _plain(value) for key, value in cell.axes.items() if key not in skipped},
        memory_mib=expected.memory_mib if expected else None,
        work=work_of(cell, tuning),
    )


def _plain(value: Any) -> Knob:
    return value if isinstance(value, str | int | float | bool | None) else label(value)
