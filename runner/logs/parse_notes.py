"""Why a figure of a log is not simply the log's, or is missing, and what cures it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.logs.kind import Kind
from runner.logs.logged_step import unmeasured
from runner.logs.run_sizes import UNKNOWN, Known
from runner.logs.totals import LogTotals

STALLS_PERCENT = 2  # by which mean and median step may differ without a word


@dataclass(frozen=True)
class Tokens:
    """Tokens/s of a run, of the whole job and of one device; None: nothing says it."""

    job: float | None = None
    device: float | None = None
    derived: bool = False  # from samples/s

    @classmethod
    def of(cls, summary: LogTotals, sizes: Known) -> Tokens:
        """Take the lines' own, else work them out of what else is known of the run."""
        job, device = summary.tokens_per_s.mean(), summary.device_tokens_per_s.mean()
        samples = summary.samples_per_s.mean()
        derived = job is None and samples is not None and sizes.tokens_per_sample is not None
        if derived:
            job = (samples or 0.0) * (sizes.tokens_per_sample or 0)
        if device is None and job is not None and sizes.devices:
            device = job / sizes.devices
        return cls(job, device, derived)


def explained(
    kind: type[Kind],
    summary: LogTotals,
    tokens: Tokens,
    option_sizes: Known,
    facts: Mapping[str, str],
    *,
    validated: bool = False,
) -> Iterator[str]:
    """Yield a sentence for each; `option_sizes` are the user's, `facts` are the log's own."""
    sizes, logged_sizes = option_sizes.or_by(facts), UNKNOWN.or_by(facts)
    if summary.unmeasured:
        yield f"not measured: {unmeasured(summary.unmeasured)}"
    if kind.holds and any(
        sums.count for sums in (summary.step_time_ms, summary.samples_per_s, summary.tokens_per_s)
    ):
        yield f"a line's time is {kind.holds}"
    if summary.paused_lines:
        lines = "1 line" if summary.paused_lines == 1 else f"{summary.paused_lines} lines"
        yield (
            f"{summary.paused_ms / 1000:.3g} s of evaluations and checkpoints, as the log states,"
            f" are taken out of {lines}"
        )
    if validated and kind.validates != Kind.validates:
        yield f"the last evaluation's figure is a {kind.validates}"
    if summary.doubtful:
        printed, derived = summary.doubtful
        yield (
            f"no samples/s: {printed:g} as printed is not batch size / time of the line,"
            f" {derived:.3g}"
        )
    yield from _of_time(kind, summary)
    if abs(stalls := summary.stalls_percent or 0.0) > STALLS_PERCENT:
        more = "more" if stalls > 0 else "less"
        yield f"the mean step took {abs(stalls):.1f} % {more} time than the median one"
    yield from _of_samples(kind, summary, sizes)
    yield from _of_tokens(tokens, sizes)
    for option, mine, theirs in (
        ("--tokens-per-sample", option_sizes.tokens_per_sample, logged_sizes.tokens_per_sample),
        ("--devices", option_sizes.devices, logged_sizes.devices),
    ):
        if mine and theirs and mine != theirs:
            yield f"the log says {theirs}, not {option} {mine}"


def _of_time(kind: type[Kind], summary: LogTotals) -> Iterator[str]:
    rates = (summary.samples_per_s, summary.tokens_per_s, summary.device_tokens_per_s)
    if summary.first_counted and any(sums.count for sums in (summary.step_time_ms, *rates)):
        yield "compilation and warm-up are in its times: it has one line"
    if summary.derived_time:
        yield "step time from the batch size and samples/s"
    elif summary.step_time_ms.count:
        return
    elif not any(rate.count for rate in rates):
        out = summary.warmup.iterations
        yield f"no step is left after --warmup-iters {out}" if out else "the lines show no time"
    elif kind.own_rate and not summary.global_batch_size:
        yield "no step time: the lines have a rate and no batch size (--global-batch-size N)"


def _of_samples(kind: type[Kind], summary: LogTotals, sizes: Known) -> Iterator[str]:
    rate = summary.samples_per_s.count
    tokens = summary.tokens_per_s.count or summary.device_tokens_per_s.count
    if summary.doubtful:
        return
    if rate and summary.derived:
        batch_size = summary.global_batch_size
        source = "the batch size and the time on the lines"
        yield f"samples/s from {f'--global-batch-size {batch_size}' if batch_size else source}"
    elif rate and tokens and not {"samples_per_s"} & {*kind.gives, *kind.works_out}:
        yield f"samples/s from tokens/s and {sizes.tokens_per_sample} tokens per sample"
    elif rate and not kind.own_rate:
        yield (
            "samples/s as DeepSpeed computes it from ds_config's train_batch_size"
            " (--global-batch-size puts it right)"
        )
    elif rate:
        return
    elif tokens and not sizes.tokens_per_sample:
        yield "no samples/s: tokens per sample are unknown (--tokens-per-sample N)"
    elif summary.step_time_ms.count and not summary.global_batch_size:
        yield "no samples/s: the lines have no batch size (--global-batch-size N)"


def _of_tokens(tokens: Tokens, sizes: Known) -> Iterator[str]:
    if tokens.derived:
        yield f"tokens/s from samples/s and {sizes.tokens_per_sample} tokens per sample"
    elif tokens.job is None and tokens.device is not None:
        yield "no tokens/s of the job: the lines have a device's (--devices N)"
