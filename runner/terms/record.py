"""What a run measured: the words that parsers, tables and reports share.

A *record* is one run (the last attempt of one repeat of one cell) as numbers; an *interval* is
one logged line over some iterations. Nothing here reads a file or computes a statistic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from runner.terms.architecture import Architecture
from runner.terms.profile import Profile
from runner.terms.story import Story

# One documented list (docs/runs.md). A run that never trained a step is `did_not_run`, whatever
# ended it (`no_steps` where its trainer ended by itself and nothing says why), and carries no
# numbers; `reason` says what ended it.
STATUSES: Mapping[str, str] = {
    "ok": "every node's launcher ended with exit code 0 and the last iteration was reached",
    "diverged": "the last iteration was reached, and the last loss is NaN or infinite",
    "unfinished": "training ended with exit code 0, or its log ended, before the last iteration",
    "failed": "training started, then a process ended with an error",
    "timed_out": "training started, then the run reached time_limit_s, or its job its own limit",
    "stalled": "training started, then no node printed anything for stall_limit_s",
    "node_lost": "training started, then a node was out of contact for lost_contact_s, or down",
    "ended_early": "training started, then tune ended it as too slow; not a failure",
    "interrupted": "training started, then Ctrl-C, a stop, the end of bench or its job ended it",
    "no_steps": "every launcher ended with exit code 0, and no step was logged; no numbers",
    "did_not_run": "no training step was logged; no numbers",
    "unreadable": "the run's files cannot be read; no numbers",
    "running": "it runs now",
    "queued": "it waits in a scheduler's queue",
    "pending": "not run yet",
}

UNREADABLE = "unreadable"
WELL = ("ok", "ended_early")  # endings that are no failure
UNDER_WAY = ("running", "queued")
NOT_ENDED = (*UNDER_WAY, "pending")
ENDED = tuple(status for status in STATUSES if status not in NOT_ENDED)

# Attention whose scores are written to memory and read again: by a trainer step by step, or by
# the kernel of torch's that is none.
UNFUSED, MATH = "unfused", "math"
MIXED_FP8 = "fp8+bf16"  # arithmetic: some layers multiply in fp8, the others in bf16
DATA_PARALLEL = "data_parallel"  # every system has it: what its other parallel sizes leave

# What a logged loss is the mean of: its line's last iteration alone, all iterations that its line
# covers, or more than those (a running mean or median); "" where nobody knows.
LossKind = Literal["", "iteration", "window", "running"]


# By what times are: the trainer's own words, or when its lines arrived.
Clock = Literal["log", "arrivals"]


@dataclass(frozen=True)
class Interval:
    """One logged line of a trainer.

    `iteration` is the last iteration that the line covers, counted from 1; `iterations` how many
    it covers. `step_time_ms` is the mean time of one iteration in that window (milliseconds),
    `samples_per_s` the whole job's throughput in that window (sequences a second). None means
    that the log does not say; it never means zero. `tflop_per_s` is the trainer's own count, of one
    device; `energy_j` what one device took for one iteration, by the trainer. `tokens_per_s` is the
    whole job's and `device_tokens_per_s` one device's, where the trainer prints those.
    `global_batch_size` is the samples of one iteration of this line, where the log says it (None:
    the run's own). `paused_ms` is the time of evaluations and checkpoints that the log states and
    that was taken out of `step_time_ms`, over all iterations of the line. `timed` is how many
    iterations the time is the mean of, where that is more than the line covers, `remembers` how
    many a moving average is made of: what came before is less than 1 % of it. Where lines are timed
    by their arrival, `logged_samples_per_s` is the trainer's own figure, `paused` says that the
    time held an evaluation or a checkpoint and was left out, and `iterations` is 0 where a later
    line, which came together with this one, covers them.
    """

    iteration: int
    iterations: int = 1
    step_time_ms: float | None = None
    samples_per_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    skipped: int = 0
    nan: int = 0
    tflop_per_s: float | None = None
    energy_j: float | None = None
    tokens_per_s: float | None = None
    device_tokens_per_s: float | None = None
    global_batch_size: int | None = None
    paused_ms: float = 0.0
    timed: int = 0
    remembers: int = 0
    logged_samples_per_s: float | None = None
    paused: bool = False


@dataclass(frozen=True)
class Utilisation:
    """How busy the devices were, in percent, and of what.

    `source` is "samples" (the mean of all devices' samples in the steady window) or "log" (the
    busiest reading that the log shows).
    """

    percent: float
    source: Literal["samples", "log"]


@dataclass(frozen=True)
class Energy:
    """What all devices took over `iterations` steps: joules, None with the reason in `missing`.

    `method` is counter, or integrated: of power samples, where a counter could not be used. The
    samples, and when the steps began and ended, leave ± `within_percent` of it open; `mean_power_w`
    is one device's.
    """

    joules: float | None
    method: Literal["counter", "integrated"] | None = None
    iterations: int = 0
    missing: str = ""
    within_percent: float = 0.0
    mean_power_w: float | None = None


@dataclass(frozen=True)
class Telemetry:
    """What samples say of a run's devices; None: no sample says it.

    Over the counted steps: mean W of one device, the hottest in °C, the lowest clock of the
    multiprocessors in MHz, why clocks were lowered (none: ()), and `gap_s`, the longest time
    without a sample of a device, None for the reason in `missing`. Before its node's launcher
    started: W of one device, and the most MiB in use on one.
    """

    mean_power_w: float | None = None
    idle_power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    throttled: tuple[str, ...] | None = None
    gap_s: float | None = None
    missing: str = ""
    before_mib: float | None = None


class Place(NamedTuple):
    """Where a logged step stands in its node's log: how many bytes are before it, and before the
    line behind it; `paused`: before its line, and behind that of the step before, the log names an
    evaluation or a checkpoint.
    """

    iteration: int
    begin: int
    end: int
    paused: bool = False


class FirstStep(NamedTuple):
    """When a run logged its first line, in s from its launcher's start; of what iteration it is."""

    seconds: float
    iteration: int


@dataclass(frozen=True)
class Reached:
    """What doctor's matrix product reached on the run's devices, in its arithmetic: TFLOP/s of one.

    None with the reason in `missing`.
    """

    tflop_per_s: float | None = None
    missing: str = "it has not run"


@dataclass(frozen=True)
class Measurement:
    """What a parser read from the logs of one run, all nodes together.

    What each of the four `memory_..._mib` is the peak of: memory.py.
    `perplexity` is of the last evaluation. `unmeasured` counts times and rates on the lines that
    measure nothing: of zero, or less. `loss_kind` is of the log's losses. `validation` has
    (iteration, loss) pairs of the log's evaluations (nanochat's in bits a byte). `by_node` has each
    node's own steps (node rank to intervals) where several logged the same iterations; `intervals`
    has them once. Of each node that was sampled, `busy`, `power_w` and `memory_mib` have (seconds
    since its first sample, value): its devices' mean utilisation in percent and mean power, and
    what its fullest device had in use.
    `compile_s` is what the trainer says that it compiled for before its first step, `train_iters`
    how many iterations it says that it will do, if it does. `missing` says of what the matrix's own
    patterns
    did not find (a key of `log`) why, `contradicted` where the log says other than the matrix.
    `places` has where each node's logged steps stand in its log (node rank to places), and
    `logged_holds` says of what the trainer's own time is.
    """

    intervals: tuple[Interval, ...] = ()
    memory_allocated_mib: float | None = None
    memory_reserved_mib: float | None = None
    memory_used_mib: float | None = None
    memory_rss_mib: float | None = None
    utilisation: Utilisation | None = None
    padded_vocab_size: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    perplexity: float | None = None
    unmeasured: int = 0
    loss_kind: LossKind = ""
    validation: tuple[tuple[int, float], ...] = ()
    by_node: Mapping[int, tuple[Interval, ...]] = field(default_factory=dict)
    places: Mapping[int, tuple[Place, ...]] = field(default_factory=dict)
    busy: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    power_w: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    memory_mib: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    energy: Energy = Energy(None, missing="the devices were not sampled")
    telemetry: Telemetry = Telemetry(missing="the devices were not sampled")
    first_step: FirstStep | None = None
    compile_s: float | None = None
    train_iters: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    contradicted: tuple[str, ...] = ()
    logged_holds: str = ""
    rate_doubt: str = ""  # which of them says that no samples/s can be right
    untimed: str = ""  # why its lines may have no time that the counted steps alone make
    clock: Clock = "log"  # what the times are by
    clock_within_ms: float | None = None  # of all counted time, at most

    def iterations_of(self, parameters: Mapping[str, Any]) -> int | None:
        """Return the iterations that the run is to have: as asked for, else as its log says."""
        train_iters: int | None = parameters.get("train_iters")
        return train_iters if train_iters is not None else self.train_iters


@dataclass(frozen=True)
class Tried:
    """An attempt of a repeat that another one took the place of: how it ended, when it began by the
    control node's clock (epoch seconds), what it took, and was queued for before.
    """

    attempt: int
    status: str
    reason: str
    began: float | None = None
    wall_s: float = 0.0
    queued_s: float | None = None
    hosts: tuple[str, ...] = ()


def missing_in_all(reasons: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return what all of several logs or runs lack, with the first one's reasons: what one of them
    has is not missing.
    """
    first_reasons, *other_reasons = list(reasons) or [{}]
    return {
        key: why
        for key, why in first_reasons.items()
        if all(key in reasons_there for reasons_there in other_reasons)
    }


@dataclass(frozen=True)
class Record:
    """One run: what was asked, how it ended, what it measured.

    `warmup_iters` None: where warm-up ends is found in the steps. `device` is the name of the
    nodes' devices as nvidia-smi or npu-smi prints it, empty where they have none or several kinds.
    `fingerprinted` names what of the nodes its figures hang on (`system torch_gpt/torch-2.13`).
    `parallel` has the sizes that the system names, as matrix keys (data_parallel, tensor_parallel);
    `layout_free`: of a seed its first weights are the same whatever these are.
    `model` is None where the system does not say what it trains (`tokens_per_sample` may be known
    all the same), `arithmetic` (bf16, fp16, tf32,
    fp32 or MIXED_FP8) where it does not say what matrices are multiplied in, `attention` (unfused,
    sdpa) where it does not say what computes it; what its log says that did (cudnn, math) goes
    before.
    `target_loss` is the loss to which the matrix asks how long it takes, in nats a token.
    `device_kind` is what its nodes train on (cpu, cuda, npu), `hosts` are the nodes by rank.
    `noted` is what they said before it began that may disturb it, in sentences.
    `began` is when it did by the control node's clock (epoch seconds), `date` that day in UTC
    (YYYY-MM-DD); it took `wall_s`, after `queued_s` in a queue (None: without one).
    `tried` are the repeat's earlier attempts, oldest first.
    `activation_checkpointing` None: unknown. `imported`: it is of a log from elsewhere, and
    no `hosts` are known.
    `diagnosis` is a word of diagnosis.STATUSES where the logs name the first cause of a failure,
    and `log` then the log that does.
    """

    campaign: str
    cell: str
    cell_id: str
    system: str
    status: str
    reason: str
    repeat: int = 1
    attempt: int = 1
    axes: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fingerprinted: tuple[str, ...] = ()
    nodes: int = 1
    devices_per_node: int = 1
    parallel: Mapping[str, int] = field(default_factory=dict)
    layout_free: bool = False
    micro_batch_size: int | None = None
    global_batch_size: int | None = None
    warmup_iters: int | None = 0
    target_loss: float | None = None
    activation_checkpointing: bool | None = False
    model: Architecture | None = None
    tokens_per_sample: int | None = None
    arithmetic: str | None = None
    attention: str | None = None
    measurement: Measurement = field(default_factory=Measurement)
    reached: Reached = Reached()
    device: str = ""
    device_kind: str = ""
    hosts: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    began: float | None = None
    wall_s: float = 0.0
    queued_s: float | None = None
    tried: tuple[Tried, ...] = ()
    date: str = ""
    log: str = ""
    diagnosis: str | None = None
    last_words: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    imported: bool = False
    profile: Profile | None = None  # that ran along
    until_percent: float | None = None  # its cell was repeated until samples/s was known to that
    story: Story | None = None  # of its attempts that went on from each other

    @property
    def sample_length(self) -> int | None:
        """Tokens of a sample: the model's, else as the system says; None where nobody does."""
        return self.tokens_per_sample if self.model is None else self.model.seq_length

    def parallel_size(self, name: str) -> int:
        """Return a parallel size; what the system does not name it does not split: 1."""
        return self.parallel.get(name, 1)

    @property
    def world_size(self) -> int:
        """Devices in the run: nodes x devices_per_node."""
        return self.nodes * self.devices_per_node
