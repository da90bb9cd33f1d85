"""Tables of docs/parsers.md about the kinds of step lines, written from their classes."""

from collections.abc import Mapping

from runner.figures.counted_steps import samples_per_s, step_time_ms
from runner.logs.kind import GIVES, Kind
from runner.logs.kinds import KINDS
from runner.logs.logged_step import LoggedStep
from runner.logs.run_sizes import Known
from runner.terms.memory import MEMORY

# Columns of what is printed: a figure's key, or only its name in GIVES.
MEASURED = ("step_time_ms", "samples_per_s", "tokens_per_s", "device_tokens_per_s")
PRINTED = (*MEASURED, "loss", "grad_norm", "tflop_per_s", "energy_j")
# What a line's loss is the mean of.
LOSSES = {"iteration": "its iteration", "window": "mean of the line", "running": "running mean"}
CURES = {
    "with B": {"global_batch": 8},
    "with T": {"tokens_per_sample": 4},
    "with D": {"devices": 2},
    "with D, T": {"devices": 2, "tokens_per_sample": 4},
    "with B, T": {"global_batch": 8, "tokens_per_sample": 4},
    "with B, D, T": {"global_batch": 8, "devices": 2, "tokens_per_sample": 4},
}


def kinds() -> str:
    """Return the kinds of step lines, a row per module, best first."""
    lines: dict[tuple[str, str], list[str]] = {}
    for kind in KINDS.values():
        module = kind.__module__.rpartition(".")[2]
        systems = ", ".join(sorted(kind.systems()))
        lines.setdefault((module, systems), []).append(kind.says.replace("|", "\\|"))
    rows = "".join(
        f"| `{module}` | {'; '.join(says)} | {systems} |\n"
        for (module, systems), says in lines.items()
    )
    return f"| module | lines, best kind first | systems |\n| --- | --- | --- |\n{rows}"


def _figures(kind: type[Kind], **sizes: int) -> set[str]:
    """What `parse` makes of a line of the kind, with the sizes that its log or the user says."""
    has = {*kind.gives, *kind.works_out}
    step = LoggedStep(1, global_batch=8 * ("global_batch" in has), iterations=1)
    for key in has & set(MEASURED):
        setattr(step, key, 1.0)
    by_log = {key: size for key, size in (("devices", 2), ("tokens_per_sample", 4)) if key in has}
    sizes = {**by_log, **sizes}
    told = Known(sizes.get("tokens_per_sample"), sizes.get("devices"))
    told.complete(step)
    line, batch = step.interval(0), step.global_batch or sizes.get("global_batch")
    tokens = line.tokens_per_s or (samples_per_s(line, batch) and told.tokens_per_sample)
    rates = {
        "samples_per_s": samples_per_s(line, batch),
        "step_time_ms": step_time_ms(line, batch),
        "tokens_per_s": tokens,
        "device_tokens_per_s": line.device_tokens_per_s or (tokens and told.devices),
    }
    return {key for key, rate in rates.items() if rate}


def gives() -> str:
    """What each kind prints, and what follows from it: by the parsers' own arithmetic."""
    rows = ""
    for kind in sorted(KINDS.values(), key=lambda kind: (kind.family(), kind.name)):
        derived = _figures(kind)
        cured = {way: _figures(kind, **sizes) for way, sizes in CURES.items()}
        cells = [f"`{kind.name}`"]
        for key in PRINTED:
            if key == "loss" and kind.loss_kind:
                cells.append(LOSSES[kind.loss_kind])
            elif key in kind.gives:
                cells.append("yes")
            elif key in kind.works_out or key in derived:
                cells.append("derived")
            else:
                cells.append(next((way for way, figures in cured.items() if key in figures), "–"))
        sizes = ("global_batch", "tokens_per_sample", "devices", "train_iters")
        for keys in (MEMORY, sizes):
            cells.append(", ".join(GIVES[key] for key in keys if key in kind.gives) or "–")
        rows += f"| {' | '.join(cells)} |\n"
    heads = ["lines", *(GIVES[key] for key in PRINTED), "memory", "sizes"]
    return f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}\n{rows}\n{_out_of()}\n{_holds()}"


def _out_of() -> str:
    """Return what kinds work out themselves, and from what: a line per sentence."""
    return _listed(
        {
            kind.name: f"{' and '.join(GIVES[key] for key in kind.works_out)} from {kind.out_of}"
            for kind in KINDS.values()
            if kind.works_out
        }
    )


def _holds() -> str:
    """Return what the time of each kind's lines is of."""
    times = {kind.name: kind.holds for kind in KINDS.values() if kind.holds}
    return f"A line's time is\n\n{_listed(times)}"


def _listed(sentences: Mapping[str, str]) -> str:
    """Return a list of the sentences, each after the names that have it."""
    names: dict[str, list[str]] = {}
    for name, sentence in sentences.items():
        names.setdefault(sentence, []).append(f"`{name}`")
    return "".join(f"- {', '.join(of)}: {sentence}.\n" for sentence, of in names.items())
