"""Plant faults, accept clean nodes, simulate clusters: the tables of docs/reliability.md (root)."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat as always
from typing import Any

from tabulate import tabulate

from node.time_words import lasts
from runner.accept.scope import STAGES
from tests.acceptance import ledger
from tests.acceptance.bed import SHARE, Accepted, Accepting, bed
from tests.acceptance.ledger import CLEAN, Result
from tests.acceptance.plants import NOT_PROVED, PLANTS, Plant
from tests.conftest import ROOT


def main() -> int:
    """Exit code 0: every fault was found and rightly named, and no healthy cluster failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance", description=__doc__)
    parser.add_argument(
        "--repeats",
        type=int,
        default=5,
        help="of each of fifteen faults; further ones are planted once (default: 5)",
    )
    parser.add_argument("--clean", type=int, default=20, help="acceptances without (default: 20)")
    parser.add_argument("--clusters", type=int, default=10_000, help="simulated of each size")
    parser.add_argument("--only", default="", help="only faults with these words in their name")
    parser.add_argument("--new", action="store_true", help="forget earlier results")
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    if chosen.new:
        ledger.PATH.unlink(missing_ok=True)
    plants = [plant for plant in PLANTS if chosen.only in plant.name and not plant.lacking]
    for repeat in range(1, chosen.repeats + 1):  # each kind once, then each again
        results = ledger.load()
        again = [plant for plant in plants if repeat == 1 or chosen.only or not plant.once]
        missing = [plant for plant in again if (plant.name, repeat) not in results]
        light = [plant for plant in missing if plant.light]
        with ProcessPoolExecutor(2) as processes:
            for ended in processes.map(planted, light, always(repeat)):
                told(ended)
        for plant in missing:
            if not plant.light:
                told(planted(plant, repeat))
    for repeat in range(1, 1 + chosen.clean * (not chosen.only)):
        if (CLEAN, repeat) not in ledger.load():
            told(clean(repeat))
    return show(plants, chosen.clusters if not chosen.only else 0)


def planted(plant: Plant, repeat: int) -> Result:
    """Accept nodes of which one has the fault."""
    share = SHARE if plant.measured else None
    with bed(share=share, disk_mib=plant.disk_mib) as made:
        plant.before(made)
        accepting = Accepting(made, plant.stages, *plant.options)
        plant.during(accepting)
        ended = accepting.end()
    faults = ended.answer.get("faults", [])
    named = set(ended.answer.get("failing", {})) == set(plant.nodes) and any(
        fault["test"].startswith(plant.tests) and set(fault["nodes"]) <= set(plant.nodes)
        for fault in faults
        if fault["nodes"]
    )
    return result(plant.name, repeat, ended, found=bool(faults), named=named)


def clean(repeat: int) -> Result:
    """Accept nodes without a fault, all stages."""
    with bed() as made:
        ended = Accepting(made, STAGES).end()
    faults = ended.answer.get("faults", [])
    unnamed = not ended.answer  # it gave no answer at all
    return result(CLEAN, repeat, ended, found=bool(faults) or unnamed, named=False)


def result(kind: str, repeat: int, ended: Accepted, *, found: bool, named: bool) -> Result:
    """Return what is kept of an acceptance."""
    stages: Sequence[Any] = ended.answer.get("stages", [])
    words = [f"{'+'.join(f['nodes'])} {f['words']}" for f in ended.answer.get("faults", [])]
    return Result(
        kind,
        repeat,
        found,
        named,
        ended.code,
        round(ended.took_s, 1),
        tuple(words or ([] if ended.answer else ended.words.splitlines()[-3:])),
        {one["stage"]: round(one["took_s"], 1) for one in stages},
        tuple(test for one in stages for test in one["tests"]),
    )


def told(result: Result) -> None:
    """Keep a result and say it."""
    ledger.add(result)
    found = "named" if result.named else "found" if result.found else "nothing found"
    words = "; ".join(result.words)[:300]
    line = f"{result.kind} {result.repeat}: {found}, exit {result.code}, {result.took_s:.0f} s"
    print(f"{line}: {words}" if words else line, file=sys.stderr, flush=True)


def show(plants: Sequence[Plant], clusters: int) -> int:
    """Print the tables; the exit code."""
    results = ledger.load()
    rows, fine = [], True
    for plant in PLANTS:
        mine = [one for (kind, _), one in results.items() if kind == plant.name]
        if plant not in plants and not mine:
            rows.append([plant.name, plant.severity, plant.made_by, plant.way, "not made", "", ""])
            continue
        found, named = (sum(getattr(one, what) for one in mine) for what in ("found", "named"))
        took = sorted(one.took_s for one in mine)
        fine = fine and named == len(mine)
        counts = [f"{count} of {len(mine)}" for count in (found, named)]
        middle = f"{took[len(took) // 2]:.0f}" if took else ""
        rows.append([plant.name, plant.severity, plant.made_by, plant.way, *counts, middle])
    heads = ["fault of one node", "severity", "made by", "way", "found", "rightly named", "s"]
    print(tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True))
    print(f"\nnot proved: {'; '.join(NOT_PROVED)}\n")
    cleans = [one for (kind, _), one in results.items() if kind == CLEAN]
    if cleans:
        failed = sum(one.found for one in cleans)
        unanswered = sum(one.code == 2 and not one.found for one in cleans)
        took_s = sum(one.took_s for one in cleans) / len(cleans)
        print(
            f"clean acceptances: {failed} of {len(cleans)} failed, {unanswered} could not tell"
            f" something; {lasts(took_s)} each\n"
        )
        fine = fine and not failed
    if clusters:
        from tests.acceptance.simulated import simulated

        began = time.monotonic()
        rows, healthy = simulated([one.tests for one in cleans], clusters)
        heads = ["healthy clusters", "nodes", "tests", "failed", "share"]
        print(tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True))
        print(f"\nsimulated in {lasts(time.monotonic() - began)}")
        fine = fine and healthy
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
