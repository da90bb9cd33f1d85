"""A matrix file: its keys checked, its axes multiplied. Pure, except `load_matrix`.

    name: quickstart                  # of the campaign; default: the file's name
    defaults: {system: torch_gpt, model: gpt2-tiny, global_batch_size: 16}
    axes:                             # every combination is one cell
      zero_stage: [0, 1]
      devices_per_node: [1, 2]
    exclude:                          # drop the cells that match all keys of an entry
      - {zero_stage: 1, devices_per_node: 1}
    include:                          # add whole cells, on top of the defaults
      - {zero_stage: 3, devices_per_node: 2}
    repeats: 3                        # runs of each cell (default 1): all cells once, then again
                                      # {until: 5 %, most: 10}: until samples/s is known to 5 %
    seeds: [1, 2, 3]                  # instead of repeats: one run of each cell with each seed
    target_loss: 3.2                  # iterations and seconds to it, in the table
    shuffle_seed: 7                   # shuffles each such round of cells (default: as they stand)
    warmup_iters: 5                   # first iterations of a run that no figure counts (default:
                                      # found in the step times, see docs/measures.md)
    time_limit_s: 600                 # a run that lasts longer is ended (default 3600)
    stall_limit_s: 300                # one that prints nothing for so long, too (default 1800)
    baseline: zero_stage=0            # what `collect` compares with, unless told otherwise
    table: {shape: osdi}              # how `collect` lays the table out (docs/measures.md)
    published: published/osdi.yaml    # what a document printed, shown beside ours: file or list
    pins: {new: {...}}                # versions of the matrix's own, named by `pin` (pins_key.py)
    tune: {knobs: {...}}              # in place of axes: `trainbench tune` finds the fastest cell

docs/matrix.md explains each. A key of `defaults`, `axes`, `exclude` and `include` is a cell key
(keys.py) or a parameter of the system (`python -m runner systems` lists them).
"""

import glob
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.base.errors import Faults, UserError
from runner.base.paths import PROJECT
from runner.base.suggest import nearest
from runner.matrix.cells import DevicesOf, bounded, cells_of
from runner.matrix.dialect import read_file, read_yaml
from runner.matrix.keys import CELL_KEYS, NUMBERS, TOP_KEYS
from runner.matrix.pins_key import pin_sets_of
from runner.matrix.published import check_published
from runner.matrix.table_shape import check_table
from runner.matrix.tune_key import tuned_cells, tuning_of
from runner.matrix.until import until_of
from runner.systems.common.registry import load_system, system_names
from runner.terms.cell import MOST_REPEATS, MOST_RUNS, MOST_SEED, SEED, Cell, Matrix
from runner.terms.engines.engine_table import PLACEMENT

MOST_TITLE, MOST_DESCRIPTION = 120, 2_000  # letters


def load_matrix(path: Path, devices_of: DevicesOf) -> Matrix:
    """Read a matrix file. Raises UserError that names the key and the cure.

    `devices_of` says how many devices each of the first so many nodes has.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a matrix file, such as matrix.yaml")
    if not path.exists():
        raise UserError(f"there is no matrix file {path}; {_elsewhere(path)}")
    text = read_file(path, "a matrix")
    return parse_matrix(text, str(path), path.stem, devices_of, path.parent)


def _elsewhere(path: Path) -> str:
    """Say where a shipped matrix of that name lies, else which one to begin with."""
    there = next(iter((PROJECT / "matrices").glob(f"*/{glob.escape(path.name)}")), None)
    if there is None:
        return "the quickstart uses matrix.yaml"
    return f"did you mean {there.relative_to(PROJECT)}?"


def campaign_word(name: object, where: str) -> str:
    """Return a matrix's name, which a campaign is named by. Raises UserError for another word."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UserError(
            f"{where} is {name!r}; it names a folder, so use letters, digits, '.', '_', '-'"
        )
    return name


def parse_matrix(
    text: str, where: str, stem: str, devices_of: DevicesOf, folder: Path | None = None
) -> Matrix:
    """Build a matrix from a file's text; `where` names it in messages, `stem` is its default name.

    `folder` is where files that it names lie; without it, it can name none.
    """
    content = read_yaml(text, where)
    if not isinstance(content, dict) or not content:
        raise UserError(f"{where} holds no matrix; it needs at least `defaults: {{system: ...}}`")
    faults = Faults()
    for key in content:
        if key not in TOP_KEYS:
            hint = _place_of(str(key)) or nearest(str(key), TOP_KEYS)
            problem = f"{where}: unknown key {key!r}{hint}; keys are {', '.join(TOP_KEYS)}"
            with faults.gathered():
                raise UserError(problem)
    name = campaign_word(content.get("name", stem), f"{where}: name")
    until, content = until_of(content, where)
    numbers = {item.name: item.read(content.get(item.name), where) for item in NUMBERS}
    cells: tuple[Cell, ...] = ()
    pins: dict[str, dict[str, Any]] = {}
    with faults.gathered():
        pins = pin_sets_of(content, where)
    tuning = tuning_of(content, where) if "tune" in content else None
    if "defaults" not in content and "include" not in content:
        faults.check()  # one of these was meant: what cells lack would follow from it
    with faults.gathered():
        source = tuned_cells(content, tuning, where, devices_of) if tuning else None
        cells = bounded(source or cells_of(content, where, devices_of), where)
    faults.check()
    if not cells:
        raise UserError(f"{where}: every cell is excluded; drop an entry of `exclude`")
    seeds = _seeds(content, cells, where)
    numbers["repeats"] = len(seeds) or numbers["repeats"]
    if len(cells) * numbers["repeats"] > MOST_RUNS:
        raise UserError(
            f"{where}: {len(cells)} cells x {numbers['repeats']} repeats are more than {MOST_RUNS}"
            " runs, the most of a campaign; lower repeats, or make several matrices"
        )
    by_id: dict[str, Cell] = {}
    for cell in cells:
        twin = by_id.setdefault(cell.digest, cell)
        if twin is not cell:
            raise UserError(f"{where}: {cell.name!r} and {twin.name!r} are the same cell; drop one")
    baseline = content.get("baseline")
    if baseline is not None and (not isinstance(baseline, str) or "=" not in baseline):
        raise UserError(f"{where}: baseline is {baseline!r}; write it as AXIS=VALUE")
    if baseline is not None:
        _check_baseline(baseline, cells, where)
    return Matrix(
        name=name,
        cells=cells,
        seeds=seeds,
        baseline=baseline,
        title=_prose(content, "title", where, MOST_TITLE),
        description=_prose(content, "description", where, MOST_DESCRIPTION),
        text=text,
        layout=check_table(content.get("table"), where),
        published=_published(content.get("published"), cells, where, folder),
        until_percent=until,
        tune=tuning,
        pins=pins,
        **numbers,
    )


def _prose(content: Mapping[str, Any], key: str, where: str, most: int) -> str:
    """Read words for people: on one line, of at most `most` letters."""
    text = content.get(key)
    if text is None:
        return ""
    if not isinstance(text, str) or not 0 < len(text) <= most:
        raise UserError(f"{where}: {key} is {str(text)[:80]!r}; write 1 to {most} characters")
    return " ".join(text.split())


def _seeds(content: Mapping[str, Any], cells: Sequence[Cell], where: str) -> tuple[int, ...]:
    """Read `seeds`, which every system of the matrix must take, and nothing else may set."""
    seeds = content.get("seeds")
    if seeds is None:
        return ()
    valid = isinstance(seeds, list) and all(
        type(seed) is int and 0 <= seed <= MOST_SEED for seed in seeds
    )
    if not valid or not 0 < len(seeds) <= MOST_REPEATS or len(set(seeds)) < len(seeds):
        raise UserError(
            f"{where}: seeds is {str(seeds)[:200]}; list 1 to {MOST_REPEATS} whole numbers of 0 to"
            f" {MOST_SEED}, each once, such as [1, 2, 3]"
        )
    if content.get("repeats") is not None:
        raise UserError(f"{where}: each of `seeds` is one repeat; drop repeats")
    for name in dict.fromkeys(cell.system for cell in cells):
        if load_system(name).parameter(SEED) is None:
            raise UserError(
                f"{where}: {name} has no seed parameter, so `seeds` cannot apply to it; use"
                " `repeats`, or remove its cells"
            )
    parts = (content.get("defaults"), content.get("axes"), *(content.get("include") or ()))
    if any(SEED in (section or {}) for section in parts):
        raise UserError(f"{where}: seeds sets the seed of each run; drop `{SEED}` of the cells")
    return tuple(seeds)


def _published(
    value: Any, cells: Sequence[Cell], where: str, folder: Path | None
) -> Sequence[Mapping[str, Any]]:
    """Read the documents under `published`, from the file itself or the one it names."""
    if isinstance(value, str) and folder is not None:
        path = folder / value
        where = f"{where}: published: {path}"
        try:
            text = read_file(path, "published figures")
        except UserError as error:
            raise UserError(f"{where}: {error}; `published` names a file beside it") from None
        value = read_yaml(text, where)
    return check_published(value, where, [_facts(cell) for cell in cells])


def _facts(cell: Cell) -> dict[str, Any]:
    """Return what a published row may name of a cell."""
    keys = {key: getattr(cell, key) for key in CELL_KEYS if key not in PLACEMENT}
    return {**cell.parameters, **keys, **cell.placement, **cell.axes}


def _place_of(key: str) -> str:
    """Say where a cell key belongs that someone wrote at the top."""
    if key in CELL_KEYS or any(load_system(name).parameter(key) for name in system_names()):
        return " (a value of the cells: put it under `defaults` or `axes`)"
    return ""


def _check_baseline(baseline: str, cells: Sequence[Cell], where: str) -> None:
    """Refuse now what `collect` would refuse after hours of training."""
    axis, _, value = (word.strip() for word in baseline.partition("="))
    axes = list(dict.fromkeys(["system", *(key for cell in cells for key in cell.axes)]))
    if axis not in axes:
        raise UserError(
            f"{where}: baseline {baseline!r}: {axis!r} is not an axis{nearest(axis, axes)}; axes"
            f" are {', '.join(axes)}"
        )
    values = [{"system": cell.system, **cell.axes}.get(axis) for cell in cells]
    plain = [str(item).lower() for item in values if isinstance(item, str | int | float)]
    if len(plain) == len(values) and not any(_alike(value, item) for item in plain):
        there = list(dict.fromkeys(plain))
        raise UserError(
            f"{where}: baseline {baseline!r}: no cell has it{nearest(value, there)}; values are"
            f" {', '.join(there)}"
        )


def _alike(word: str, value: str) -> bool:
    """Return whether they are the same word or the same number, as `collect` compares them."""
    try:
        return word.casefold() == value.casefold() or float(word) == float(value)
    except ValueError:
        return False
