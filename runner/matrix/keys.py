"""The keys of a matrix file and of its cells, each with what it is and may be."""

from collections.abc import Mapping

from runner.terms.cell import MOST_REPEATS, MOST_SEED, Parameter
from runner.terms.engines.engine_table import ENGINES
from runner.terms.faults import POLICIES

# Keys that every system's cells have.
CELL_KEYS: Mapping[str, Parameter] = {
    item.name: item
    for item in (
        Parameter("system", str, None, "which trainer runs (see `trainbench systems`)"),
        Parameter("pin", str, None, "which pin set of the system; default: its first"),
        Parameter("dataset", str, "default", "a dataset of setup (command: none unless named)"),
        Parameter("nodes", int, 1, "nodes of the cell: the inventory's first ones", minimum=1),
        Parameter(
            "devices_per_node",
            int,
            None,
            "processes per node, one per device; default: as device_ids, else all of a node",
            minimum=1,
        ),
        Parameter("device_ids", list, None, "which devices of each node, such as [4, 5]"),
        Parameter("env", dict, None, "variables for every process"),
        Parameter(
            "profile",
            object,
            None,
            "a profiler's trace: torch, nsys, or {tool: torch, steps: 10-12, ranks: [0]}; such a"
            " run is never publishable (docs/how-to/other-tools.md)",
        ),
        Parameter(
            "faults",
            object,
            None,
            "faults caused on purpose: kill_rank@25, or a list (docs/how-to/goodput.md)",
        ),
        Parameter(
            "recovery",
            str,
            None,
            "how the run goes on after a failure; default with faults: restart",
            choices=(*POLICIES, "none"),
        ),
        *(
            Parameter(
                key,
                str if key == name else object,
                None,
                f"on {on.title}, in place of {on.prefix}{name} of the inventory",
            )
            for on in ENGINES.values()
            for key, name in on.cell_keys.items()
        ),
    )
}
TOP_KEYS: Mapping[str, str] = {
    "name": "name of the campaign",
    "title": "heading of pages, in place of the name; one line",
    "description": "purpose of the comparison, shown below the title",
    "defaults": "values of every cell",
    "axes": "key to list of values; every combination is one cell",
    "exclude": "list of mappings; a cell that matches all keys of one is dropped",
    "include": "list of mappings; each adds a cell on top of the defaults",
    "repeats": "runs of each cell, or {until: 5 %, most: 10}: until samples/s is known to 5 %",
    "seeds": "list of seeds: one repeat of each cell for each, instead of `repeats`",
    "target_loss": "loss for which collect shows iterations and time",
    "shuffle_seed": "seed that shuffles the order of cells in each round of repeats",
    "warmup_iters": "first iterations that no figure counts",
    "time_limit_s": "seconds after which a run is ended",
    "stall_limit_s": "seconds without output of any node after which a run is ended",
    "baseline": "AXIS=VALUE that collect compares with",
    "table": "layout of collect's table: shape, split, rows, columns, values, labels",
    "pins": "pin sets of the matrix, for cells' `pin`: versions to compare",
    "tune": "knobs in place of axes, for `trainbench tune`",
    "published": "published figures: a list, or the file that has it",
}
# Those of them that are numbers, with defaults and limits.
NUMBERS = tuple(
    Parameter(name, kind, default, TOP_KEYS[name], minimum=minimum, maximum=maximum)
    for name, kind, default, minimum, maximum in (
        ("repeats", int, 1, 1, MOST_REPEATS),
        ("target_loss", float, None, 0, None),
        ("shuffle_seed", int, None, 0, MOST_SEED),
        ("warmup_iters", int, None, 0, None),
        ("time_limit_s", float, 3600.0, 1, None),
        ("stall_limit_s", float, 1800.0, 1, None),
    )
)
