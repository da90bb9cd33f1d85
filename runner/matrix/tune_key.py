"""`tune:` of a matrix: knobs in the place of axes, and what is best. Pure.

tune:
  knobs:                      # every combination is a candidate; any key of a cell
    system: [torch_gpt, torchtitan]    # what a system does not have is left out of its cells
    tensor_parallel: [1, 2, 4]
    micro_batch_size: [4, 1, 2]      # the first value is the default
  systems:                    # of one system alone: settings, and knobs of its own
    torchtitan: {flavor: 8B, knobs: {compile: [true, false]}}
  objective: step_time        # tokens_per_s, energy, memory
  memory_loss_percent: 5      # of objective memory: speed that less memory may cost
  short_iters: 16             # of the first run of a candidate (default: by train_iters)
  headroom_percent: 5         # of a device's memory, which a winner leaves free
"""

from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.errors import Faults, UserError
from runner.base.suggest import nearest
from runner.matrix.cells import DevicesOf, cells_of
from runner.matrix.keys import CELL_KEYS
from runner.systems.common.registry import load_system, system_names
from runner.terms.cell import Cell, Parameter
from runner.terms.tuning import MEMORY_LOSS_PERCENT, OBJECTIVES, OfSystem, Tuning

KEYS = ("knobs", "systems", "objective", "memory_loss_percent", "short_iters", "headroom_percent")
INSTEAD = ("axes", "include", "repeats", "seeds", "shuffle_seed")
MOST_COMBINATIONS = 50_000
BATCH = "global_batch_size"
# Keys that change what is learned, so that two of their values are two trainings.
FIXED = (
    *("seq_length", "model", "flavor", "vocab_size", "dataset", "split", "seed"),
    *("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size"),
    *("lr", "min_lr", "lr_decay_style", "lr_decay_iters", "lr_warmup_iters", "lr_warmup_fraction"),
    *("weight_decay", "clip_grad", "train_iters", "samples_per_step", "tokens_per_sample"),
)
_NUMBERS = (
    Parameter("memory_loss_percent", float, MEMORY_LOSS_PERCENT, "", minimum=0, maximum=100),
    Parameter("short_iters", int, None, "", minimum=3),
    Parameter("headroom_percent", float, 5.0, "", minimum=0, maximum=90),
)


def tuning_of(content: Mapping[str, Any], where: str) -> Tuning:
    """Read the block. Raises UserError that names the key and the cure."""
    block = content["tune"]
    if not isinstance(block, dict):
        raise UserError(f"{where}: tune is {str(block)[:80]!r}; write tune: {{knobs: {{...}}}}")
    faults = Faults()
    for key in block:
        if key not in KEYS:
            with faults.gathered():
                raise UserError(
                    f"{where}: tune has an unknown key {key!r}{nearest(str(key), KEYS)}; keys are"
                    f" {', '.join(KEYS)}, and knobs are under `knobs`"
                )
    for key in INSTEAD:
        if content.get(key) is not None:
            with faults.gathered():
                raise UserError(f"{where}: {key} does not go with tune, which decides what runs")
    faults.check()
    objective = block.get("objective", "step_time")
    if objective not in OBJECTIVES:
        raise UserError(
            f"{where}: objective of tune is {str(objective)[:80]!r}"
            f"{nearest(str(objective), OBJECTIVES)}; it must be one of {', '.join(OBJECTIVES)}"
        )
    numbers = {item.name: item.read(block.get(item.name), f"{where}: tune") for item in _NUMBERS}
    knobs = _knobs(block.get("knobs"), objective, where)
    systems = _systems(block.get("systems"), knobs, objective, where)
    return Tuning(knobs, objective, systems=systems, **numbers)


def _systems(
    block: Any, knobs: Mapping[str, Any], objective: str, where: str
) -> dict[str, OfSystem]:
    """Read what is set of one system alone."""
    if block is None:
        return {}
    raced = [str(name) for name in knobs.get("system", ())]
    if not isinstance(block, dict) or not all(
        isinstance(settings_of_one, dict) for settings_of_one in block.values()
    ):
        raise UserError(
            f"{where}: tune: systems must be a mapping of systems to their settings, such as"
            " {torchtitan: {flavor: 8B, knobs: {compile: [true, false]}}}"
        )
    read = {}
    for name, system_block in block.items():
        if name not in raced:
            raise UserError(
                f"{where}: tune: systems names {str(name)[:80]!r}, and the knob `system` does not"
                f"{nearest(str(name), raced)}; add it there, or leave it out"
            )
        settings = {str(key): value for key, value in system_block.items() if key != "knobs"}
        more = _knobs(system_block["knobs"], objective, where) if "knobs" in system_block else {}
        if "system" in (*settings, *more):
            raise UserError(f"{where}: tune: systems: {name} sets `system`; leave it out there")
        read[str(name)] = OfSystem(settings, more)
    return read


def _knobs(knobs: Any, objective: str, where: str) -> dict[str, tuple[Any, ...]]:
    if knobs and not isinstance(knobs, dict):
        raise UserError(
            f"{where}: knobs of tune must name each knob with its values, such as"
            " knobs: {micro_batch_size: [4, 1, 2]}"
        )
    if not knobs:
        raise UserError(
            f"{where}: tune has no knobs; name at least one, such as knobs: {{micro_batch_size:"
            " [4, 1, 2]}, its default first"
        )
    faults, count = Faults(), 1
    for key, values in knobs.items():
        with faults.gathered():
            _check_knob(str(key), values, objective, where)
        count *= len(values) if isinstance(values, list) else 1
    faults.check()
    if count > MOST_COMBINATIONS:
        raise UserError(
            f"{where}: the knobs have {count:,} combinations, more than {MOST_COMBINATIONS:,};"
            " give them fewer values"
        )
    return {str(key): tuple(values) for key, values in knobs.items()}


def _check_knob(key: str, values: Any, objective: str, where: str) -> None:
    if not isinstance(values, list) or not values:
        raise UserError(
            f"{where}: knob {key!r} must be a list such as [1, 2]; a fixed value goes under"
            " `defaults`"
        )
    if any(value in values[:at] for at, value in enumerate(values)):
        raise UserError(f"{where}: knob {key!r} names a value twice; drop one")
    if key in FIXED:
        raise UserError(
            f"{where}: {key} cannot be a knob: it would change the training itself; set it under"
            " `defaults`"
        )
    if key == BATCH and objective != "tokens_per_s":
        raise UserError(
            f"{where}: {BATCH} cannot be a knob: it would change the training itself; set it under"
            " `defaults`, or ask for objective: tokens_per_s"
        )


def tuned_cells(
    content: Mapping[str, Any], tuning: Tuning, where: str, devices_of: DevicesOf
) -> Iterator[Cell]:
    """Yield a cell for each combination of the knobs that its system has."""
    defaults = content.get("defaults")
    fixed = defaults if isinstance(defaults, dict) else {}
    systems = tuning.knobs.get("system", (fixed.get("system"),))
    readers = [_keys_of(name, where) for name in systems if name is not None]
    for key in tuning.knobs:
        if readers and not any(known_keys is None or key in known_keys for known_keys in readers):
            known_keys = {name for keys in readers for name in keys or ()}
            raise UserError(
                f"{where}: knob {key!r} is a key of none of the systems"
                f"{nearest(key, known_keys)}; `python -m runner systems {systems[0]}` lists them"
            )
    for name, keys in zip(systems, readers or [None], strict=True):
        alone = tuning.systems.get(str(name), OfSystem())
        axes = {
            key: [name] if key == "system" else list(values)
            for key, values in tuning.knobs_of(str(name)).items()
            if keys is None or key in keys or key in alone.knobs
        }
        settings = {**fixed, **alone.settings}
        system_content: dict[str, Any] = {
            "defaults": settings,
            "axes": axes,
            "pins": content.get("pins"),
        }
        excludes = content.get("exclude")
        if isinstance(excludes, list):
            system_content["exclude"] = [
                exclude for exclude in excludes if _goes_with(exclude, axes)
            ]
        yield from cells_of(system_content, where, devices_of)


def _goes_with(entry: Any, axes: Mapping[str, Any]) -> bool:
    """Whether an entry of `exclude` is of these axes; what is wrong with one is told elsewhere."""
    if not isinstance(entry, dict) or "system" not in entry:
        return True
    return entry["system"] in axes.get("system", ())


def _keys_of(name: Any, where: str) -> frozenset[str] | None:
    """Return the keys of a system's cells; None where a matrix may set keys of its own."""
    if name not in system_names():
        raise UserError(
            f"{where}: system is {name!r}{nearest(str(name), system_names())}; it must be one of"
            f" {', '.join(system_names())}"
        )
    system = load_system(name)
    if system.own_keys:
        return None
    return frozenset((*CELL_KEYS, *(item.name for item in system.parameters)))
