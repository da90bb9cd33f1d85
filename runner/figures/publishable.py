"""One verdict a cell: publishable, or why not, by codes. Pure. docs/measures.md has their table.

This is the one place where a code is added: a function of the evidence that returns why it holds
here (nothing where it does not), below what it is called, when it holds and what to do about it.
Tables, notes, `collect --strict` and the documents are written from CODES, and a code's `sign` is
printed beside a speed that it makes doubtful.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from runner.base.text import counted, listing
from runner.figures import devices
from runner.figures.cell_statistics import CellStatistics
from runner.figures.parity import Parity
from runner.figures.power import GAP_S, POWER_CAP
from runner.figures.resumed import TOLERANCE, Resumed
from runner.figures.run_mean import DRIFT_PERCENT, DRIFT_SIGMAS
from runner.figures.target import Alike
from runner.logs.logged_step import unmeasured
from runner.terms.cell import FEWEST_REPEATS
from runner.terms.engines.engine_table import cures
from runner.terms.record import MATH, MIXED_FP8, UNFUSED, Record, missing_in_all

UNSTEADY = "§"  # beside a speed that its machine, or its own steps, make doubtful
BY_STEPS = "○"  # beside the speed of a trainer that was not allowed its fused attention
FORCED = "◇"  # beside the speed of a mixture of experts whose balance was forced
DIVERGED = "≠"  # beside the speed of a cell that learns something else than its baseline

# Fewer counted steps of a run: NVIDIA's dgxc-benchmarking averages iterations 35 to 44.
FEWEST_STEPS = 10
# A spread beyond these is marked: of one run's steps (interquartile range), and between repeats.
WIDE_STEPS_PERCENT = 10.0
WIDE_REPEATS_PERCENT = 5.0
# Beyond this mean and median step tell two stories.
STALLS_PERCENT = 2.0
CLOCKS_DIFFER = 0.02  # of samples/s: more than resolution and rounding leave
# More MiB in use on an NVIDIA device before a run: half of what a CUDA context alone was seen to
# take on an H200, 526. An idle one has 0: the driver's own part is not counted (node/nvml.py).
LEFTOVER_MIB = 256.0

Hosts = tuple[str, ...]


@dataclass(frozen=True)
class CellEvidence:
    """What a cell is judged by: its repeats, their statistics, and its circumstances.

    `nodes_beside` has the nodes of the cells that it is compared with, to the name of one of them;
    `meanwhile` the name of a cell that ran at the same time on one of its nodes, `beside` of one
    that did so on any nodes of the same cluster. `mfu_percent` is that of the cell's median.
    """

    records: Sequence[Record]
    statistics: CellStatistics
    parity: Parity | None = None
    learning: Alike | None = None
    nodes_beside: Mapping[Hosts, str] = field(default_factory=dict)
    meanwhile: str = ""
    beside: str = ""
    mfu_percent: float | None = None
    resumed: Resumed | None = None

    @property
    def runs(self) -> Sequence[Record]:
        """The repeats that give the cell's numbers."""
        return self.statistics.runs

    @property
    def accelerated(self) -> bool:
        """Whether it trained on devices: processors are judged by less."""
        return self.runs[0].device_kind not in ("", "cpu") or bool(self.runs[0].device)


_Why = Callable[[CellEvidence], str]


@dataclass(frozen=True)
class Code:
    """One reason not to publish a cell.

    `when` says when it holds, with its threshold, `cure` what to do, both for people; `why` returns
    what it is here, or nothing. `sign` is printed beside the speed. `of_failed`: a cell without a
    run that ended well is asked, too.
    """

    word: str
    when: str
    cure: str
    why: _Why
    sign: str = ""
    of_failed: bool = False


def verdict(evidence: CellEvidence) -> dict[str, str]:
    """Return the codes that hold, worst first, to why; none: the cell is publishable.

    Of a cell without a run that ended well only codes that are `of_failed` are asked.
    """
    ended_well = evidence.statistics.basis == "ok"
    codes = (code for code in CODES.values() if ended_well or code.of_failed)
    return {code.word: why for code in codes if (why := code.why(evidence))}


def at_once(
    records: Sequence[Record], lanes: Callable[[Record], Iterable[str]]
) -> dict[tuple[str, int], str]:
    """Return each run (cell's id, repeat) that shared a lane with another at a time, to its cell.

    Lanes are its nodes (devices and cores), or its campaign (network and file system). Times are
    the control node's; runs that follow each other within a second do not overlap.
    """
    shared: dict[tuple[str, int], str] = {}
    latest: dict[str, Record] = {}
    for run in sorted((r for r in records if r.began is not None), key=lambda r: r.began or 0):
        for lane in lanes(run):
            neighbour = latest.get(lane)
            if neighbour is None or _ended(run) > _ended(neighbour):
                latest[lane] = run
            if neighbour is not None and (run.began or 0) + 1 < _ended(neighbour):
                shared.setdefault((run.cell_id, run.repeat), neighbour.cell)
                shared.setdefault((neighbour.cell_id, neighbour.repeat), run.cell)
    return shared


def _ended(run: Record) -> float:
    return (run.began or 0) + run.wall_s


def _learns(evidence: CellEvidence, verdict: str) -> str:
    learning = evidence.learning
    applies = learning is not None and learning.verdict == verdict
    return learning.sentence("its baseline") if learning and applies else ""


CODES: dict[str, Code] = {}  # worst first
_QUIET = "Rerun on an idle machine"


def _code(
    word: str, when: str, cure: str, sign: str = "", *, of_failed: bool = False
) -> Callable[[_Why], _Why]:
    """Make a function of the evidence the check for the next code."""

    def add(why: _Why) -> _Why:
        CODES[word] = Code(word, when, cure, why, sign, of_failed)
        return why

    return add


@_code(
    "not_ok",
    "a repeat did not end `ok`",
    "Its reason says what to fix, or what it waits for; bench runs what is unfinished",
    of_failed=True,
)
def _not_ok(evidence: CellEvidence) -> str:
    good = sum(record.status == "ok" for record in evidence.records)
    if good == len(evidence.records):
        return ""
    if len(evidence.records) == 1:
        return evidence.records[0].status
    return f"{good} of {len(evidence.records)} repeats ended ok"


@_code(
    "nan",
    "a loss or gradient norm is NaN or infinite in a counted step, or at the end",
    "Lower the learning rate, or take another precision",
    UNSTEADY,
    of_failed=True,
)
def _nan(evidence: CellEvidence) -> str:
    statistics = evidence.statistics
    if any(record.status == "diverged" for record in evidence.records):
        return "the last loss is NaN or infinite"
    if nan := statistics.after_warmup(lambda line: line.nan):
        return f"{nan} counted steps are NaN"
    figures = [(line.loss, line.grad_norm) for line in statistics.lines]
    lines = sum(any(x is not None and not math.isfinite(x) for x in each) for each in figures)
    if lines:
        return f"loss or gradient norm is NaN or infinite in {lines} lines"
    return ""


@_code(
    "loss_parity",
    "the cell learns something else than its baseline",
    "Its speed is not comparable: find what differs",
    DIVERGED,
)
def _loss_parity(evidence: CellEvidence) -> str:
    parity = evidence.parity
    return parity.words if parity and parity.same is False else ""


@_code(
    "resume_differs",
    "after a failure its losses differ from those of the campaign's unbroken run of the same cell"
    f" and seed by more than {TOLERANCE:g} of it, and by more than the noise before the failure"
    " ([goodput](how-to/goodput.md))",
    "The trainer loses something when it goes on: the optimizer's state, its place in the data, or"
    " a step",
    DIVERGED,
    of_failed=True,
)
def _resume_differs(evidence: CellEvidence) -> str:
    return evidence.resumed.sentence if evidence.resumed and evidence.resumed.same is False else ""


@_code(
    "learns_slower",
    "it needs more training than its baseline to the target loss ([time to a"
    " loss](#time-to-a-loss))",
    "Its speed is not comparable: compare the time to the loss",
    "▼",
)
def _learns_slower(evidence: CellEvidence) -> str:
    return _learns(evidence, "slower")


@_code(
    "learns_faster",
    "it needs less training than its baseline to the target loss; MLPerf also refuses runs that"
    " converge faster than its reference",
    "Its speed is not comparable: find what differs",
    "▲",
)
def _learns_faster(evidence: CellEvidence) -> str:
    return _learns(evidence, "faster")


@_code(
    "not_measured",
    "times or rates on the lines are not numbers from 0 to 10^15 and were left out; or a run has"
    " none",
    "Look into the log",
    UNSTEADY,
)
def _not_measured(evidence: CellEvidence) -> str:
    if count := sum(run.measurement.unmeasured for run in evidence.runs):
        return f"left out: {unmeasured(count)}"
    statistics = evidence.statistics
    if statistics.samples_per_s is None and statistics.step_time_ms is not None:
        return ""  # timed, and nobody knows the batch size
    rates = statistics.samples_per_s.runs if statistics.samples_per_s else ()
    runs = zip_longest(statistics.steps_by_run, rates)
    untimed = sum(steps > 0 and rate is None for steps, rate in runs)
    unmatched = missing_in_all(run.measurement.missing for run in evidence.runs).values()
    sentence = f"no time or rate was logged by {untimed} of {len(evidence.runs)} runs"
    return ": ".join(filter(None, (sentence, "; ".join(unmatched)))) if untimed else ""


@_code(
    "above_peak",
    "the training would need more than the devices can do by their data sheet (MFU above 100 %)",
    "Check the precision, the devices, the batch size and the sequence length that the trainer"
    " really had; it can be real only for very long sequences, where causal kernels skip half of"
    " the attention that is counted",
    UNSTEADY,
)
def _above_peak(evidence: CellEvidence) -> str:
    mfu = evidence.mfu_percent
    return f"MFU would be {mfu:.0f} %" if mfu is not None and mfu > 100 else ""


@_code(
    "throttled",
    "clocks were lowered while the counted steps ran, other than by the device's own power cap, at"
    " which a busy H200 runs (column `throttled`)",
    "Fix the cooling or the power of the node",
    UNSTEADY,
)
def _throttled(evidence: CellEvidence) -> str:
    seen = (run.measurement.telemetry for run in evidence.runs)
    reasons = dict.fromkeys(reason for run in seen for reason in run.throttled or ())
    return ", ".join(reason for reason in reasons if reason != POWER_CAP)


@_code(
    "imported",
    "its logs came from elsewhere (`trainbench import`): this project did not start its runs, and"
    " nobody checked their machines",
    "To lift this, run it with bench (as `system: command`)",
    UNSTEADY,
    of_failed=True,
)
def _imported(evidence: CellEvidence) -> str:
    all_imported = all(run.imported for run in evidence.runs)
    any_imported = any(run.imported for run in evidence.runs)
    runs = "its runs" if all_imported else "some of its runs"
    return (
        f"{runs} were imported from logs, and nobody checked their machines" if any_imported else ""
    )


@_code(
    "profiled",
    "a profiler ran along (the key `profile`), which may slow down all of a run",
    "Run the cell without `profile`; the trace stays with this run",
    UNSTEADY,
)
def _profiled(evidence: CellEvidence) -> str:
    return next((run.profile.words for run in evidence.runs if run.profile), "")


@_code(
    "faulted",
    "faults were caused in its runs (the key `faults`), or a run went on after a failure: its"
    " speed is that of the last attempt alone",
    "Quote its goodput; for its speed run the cell without `faults`",
    UNSTEADY,
)
def _faulted(evidence: CellEvidence) -> str:
    stories = [run.story for run in evidence.runs if run.story]
    count = sum(len(story.faults) for story in stories)
    again = sum(story.faulted for story in stories)
    if count:
        return f"{counted(count, 'fault')} {'was' if count == 1 else 'were'} caused in its runs"
    return f"{again} of its runs went on after a failure" if again else ""


@_code(
    "not_clean",
    "before a run began a node noted what may disturb it ([a clean"
    f" start](reliability.md#a-clean-start)), or more than {LEFTOVER_MIB:g} MiB of an NVIDIA"
    " device were in use",
    "End what the note names, or leave that node out, and run it again",
    UNSTEADY,
)
def _not_clean(evidence: CellEvidence) -> str:
    notes = list(dict.fromkeys(note for run in evidence.runs for note in run.noted))
    most = max(run.measurement.telemetry.before_mib or 0 for run in evidence.runs)
    if evidence.runs[0].device_kind == "cuda" and most > LEFTOVER_MIB:
        notes.append(f"{most:.0f} MiB of a device were in use before a run began")
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    return f"{notes[0]}{more}" if notes else ""


@_code(
    "shared_nodes",
    "another run of the table ran at the same time on one of its nodes",
    "Run them one after the other",
    UNSTEADY,
)
def _shared_nodes(evidence: CellEvidence) -> str:
    neighbour = evidence.meanwhile
    return f"{neighbour} ran on one of its nodes at the same time" if neighbour else ""


@_code(
    "side_by_side",
    "another run of its campaign ran at the same time on other nodes, and had its part of the"
    " network and the file system",
    f"Run them one after the other: {cures('side_by_side')}",
    UNSTEADY,
)
def _side_by_side(evidence: CellEvidence) -> str:
    neighbour = "" if evidence.meanwhile else evidence.beside
    return f"{neighbour} ran at the same time on other nodes of the cluster" if neighbour else ""


@_code(
    "other_nodes",
    "it ran on other nodes than its baseline (without one: than another cell), or than another of"
    " its repeats; nodes of a larger cell may hold those of a smaller one",
    f"Run both on the same nodes; {cures('other_nodes')}",
    UNSTEADY,
)
def _other_nodes(evidence: CellEvidence) -> str:
    repeats = {run.hosts: f"repeat {run.repeat}" for run in evidence.runs}
    for run in evidence.runs:
        for hosts, name in {**evidence.nodes_beside, **repeats}.items():
            ours, theirs = set(run.hosts), set(hosts)
            if not (ours <= theirs or theirs <= ours):
                return f"ran on {listing(run.hosts)}, {name} on {listing(hosts)}"
    return ""


@_code(
    "other_clock",
    "the trainer's own samples/s differs from those by the arrival of its lines by more than"
    f" {CLOCKS_DIFFER * 100:g} %",
    "Quote samples/s, which has one clock for all trainers; `logged_samples_per_s` has the"
    " trainer's",
)
def _other_clock(evidence: CellEvidence) -> str:
    rate, logged = evidence.statistics.samples_per_s, evidence.statistics.logged_samples_per_s
    if rate is None or logged is None or abs(logged / rate.value - 1) <= CLOCKS_DIFFER:
        return ""
    holds = next((of.logged_holds for run in evidence.runs if (of := run.measurement)), "")
    own = f"the trainer's own is {logged:.1f} samples/s ({(logged / rate.value - 1) * 100:+.1f} %)"
    return f"{own}; its time is {holds}" if holds else own


@_code(
    "warmup_counted",
    "a run's first logged line, which holds its compilation and warm-up, is counted, since it is"
    " the only one or `warmup_iters` is 0 (in a run with eight or more lines, only if that line is"
    " slower)",
    "Log more often or train longer, and leave `warmup_iters: 0` out",
    UNSTEADY,
)
def _warmup_counted(evidence: CellEvidence) -> str:
    if not evidence.statistics.warmup_counted:
        return ""
    lines = len(evidence.statistics.lines)
    line = "the only counted line is" if lines == 1 else f"among {lines} counted lines is"
    return f"{line} a run's first, which holds its compilation and warm-up"


@_code(
    "drift",
    "step time of the second half of the window differs from the first half's by more than"
    f" {DRIFT_PERCENT:g} % and more than {DRIFT_SIGMAS:g} standard errors"
    " (`runner/figures/run_mean.py`)",
    f"{_QUIET}, after more warm-up",
    UNSTEADY,
)
def _drift(evidence: CellEvidence) -> str:
    beyond = [drift for drift in evidence.statistics.drifts if drift.beyond_noise]
    if not beyond:
        return ""
    worst = max(beyond, key=lambda drift: abs(drift.percent))
    return (
        f"step time {worst.percent:+.1f} % from the first half of the window to the second"
        f" (noise {worst.noise_percent:.1f} %)"
    )


@_code(
    "wide_spread",
    f"half of a run's steps span more than {WIDE_STEPS_PERCENT:g} % of the median, or the repeats"
    f" more than {WIDE_REPEATS_PERCENT:g} % of their mean, by which Megatron-Bridge's own tests"
    " judge a timing",
    f"{_QUIET}, with more steps",
    UNSTEADY,
)
def _wide_spread(evidence: CellEvidence) -> str:
    summary = evidence.statistics.samples_per_s or evidence.statistics.step_time_ms
    if summary is None or summary.spread_percent is None:
        return ""
    repeats = summary.spread_of == "repeats"
    limit = WIDE_REPEATS_PERCENT if repeats else WIDE_STEPS_PERCENT
    subject = "the repeats span" if repeats else "half of the steps span"
    wide = f"{subject} {summary.spread_percent:.1f} % (more than {limit:g} %)"
    return wide if summary.spread_percent > limit else ""


@_code(
    "stalls",
    "the total time of the steps differs from (number of steps x median step) by more than"
    f" {STALLS_PERCENT:g} %: what is slow now and then (a checkpoint, an evaluation, an"
    " optimizer's tenth step) is in samples/s, and not in the median",
    "Find what is slow now and then; quote samples/s with the column `stalls`, and no median",
    UNSTEADY,
)
def _stalls(evidence: CellEvidence) -> str:
    share = evidence.statistics.stalls_percent
    if share is None or abs(share) <= STALLS_PERCENT:
        return ""
    return f"the steps took {abs(share):.1f} % {'more' if share > 0 else 'less'} time than medians"


@_code(
    "unfused_attention",
    "the trainer computed attention step by step (`unfused`, `math`), though it has fused kernels,"
    " with which it is faster by far",
    "Quote it for this attention setting only, not as the trainer's speed; or set"
    " attention_backend to a fused kernel",
    BY_STEPS,
)
def _unfused(evidence: CellEvidence) -> str:
    ran = {word for run in evidence.runs for word in (run.attention or "").split(",")}
    unfused = not ran.isdisjoint((UNFUSED, MATH))
    return "its scores are written out to memory and read again" if unfused else ""


@_code(
    "forced_balance",
    "the tokens of a mixture of experts went to experts by turns (`routing: balanced`): the speed"
    " of an even load, which no training has, and a loss without a router",
    "Quote it as the speed of forced balance, beside that of `routing: learned`",
    FORCED,
)
def _forced_balance(evidence: CellEvidence) -> str:
    forced = any(run.parameters.get("routing") == "balanced" for run in evidence.runs)
    return "each expert got as many tokens, whatever the router says" if forced else ""


@_code(
    "few_steps",
    f"a run has fewer than {FEWEST_STEPS} counted steps: NVIDIA's dgxc-benchmarking averages ten"
    " (35 to 44)",
    "Raise train_iters",
)
def _few_steps(evidence: CellEvidence) -> str:
    fewest = min(evidence.statistics.steps_by_run, default=0)
    return f"{fewest} counted steps" if fewest < FEWEST_STEPS else ""


@_code(
    "few_repeats",
    f"fewer than {FEWEST_REPEATS} repeats ended ok: MLPerf takes 3 runs of its largest benchmark,"
    " 10 of others",
    f"Set repeats to {FEWEST_REPEATS} or more",
)
def _few_repeats(evidence: CellEvidence) -> str:
    count = len(evidence.runs)
    repeats = "1 repeat" if count == 1 else f"{count} repeats"
    return repeats if count < FEWEST_REPEATS else ""


@_code(
    "telemetry_gap",
    f"a device was not sampled for more than {GAP_S:g} s while the counted steps ran, or it is"
    " unknown when they ran; not used for CPUs, where only utilisation depends on samples",
    "See that the node samples its devices (samples.csv), and run it again",
)
def _telemetry_gap(evidence: CellEvidence) -> str:
    if not evidence.accelerated:
        return ""
    for run in evidence.runs:
        telemetry = run.measurement.telemetry
        if telemetry.gap_s is None:
            return telemetry.missing
        if telemetry.gap_s > GAP_S:
            return f"no sample of a device for {telemetry.gap_s:.1f} s"
    return ""


@_code(
    "unpinned",
    "the campaign does not hold the fingerprints of what the cell ran and read",
    "Set the nodes up or name its Python, and run the campaign again",
)
def _unpinned(evidence: CellEvidence) -> str:
    record = evidence.runs[0]
    recorded = record.environment.get("fingerprints") or {}
    if not record.fingerprinted:
        return "what it ran was not recorded"
    missing = " and ".join(name for name in record.fingerprinted if name not in recorded)
    return f"what {missing} held was not recorded" if missing else ""


@_code(
    "unknown_peak",
    "the peak of the device in the cell's precision is unknown, so MFU is missing; not used for"
    " CPUs",
    "Add the data sheet's figure of an unknown device to runner/figures/devices.py; where the"
    " precision is unknown or has no peak, quote samples/s without MFU",
)
def _unknown_peak(evidence: CellEvidence) -> str:
    record = evidence.runs[0]
    if not evidence.accelerated:
        return ""
    if record.arithmetic == MIXED_FP8:
        return ""
    value, why = devices.peak(record.device, record.arithmetic)
    return "" if value else why


@_code(
    "no_single_peak",
    "some products of the cell are in fp8 and the others in bf16, which have two peaks, so MFU is"
    " missing",
    "Quote samples/s or TFLOP/s without MFU",
)
def _no_single_peak(evidence: CellEvidence) -> str:
    record = evidence.runs[0]
    mixed = evidence.accelerated and record.arithmetic == MIXED_FP8
    return devices.peak(record.device, record.arithmetic)[1] if mixed else ""
