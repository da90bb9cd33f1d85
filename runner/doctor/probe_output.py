"""Read what the probe printed into a node's log. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from node.kinds import having
from node.parsing import parse
from node.schema import List, Number, OneOf, UnfitError, Whole, Words
from runner.doctor.probe_tests import CORRECT, NETWORK_TESTS, PAIRS, TESTS

PROBE_MARK = "TRAINBENCH_DOCTOR "
# A line of node/probe.py's.
_LINE = having(
    {},
    {
        **dict.fromkeys(("step", "error"), Words(500)),
        "test": OneOf(*TESTS, "all_reduce", CORRECT),
        "scope": OneOf(*NETWORK_TESTS, *PAIRS),
        "node": Whole(),
        "nodes": List(Whole()),
        "local": Whole(),
        "try": Whole(1, 9),
        **dict.fromkeys(("checked", "wrong", "bytes"), Whole()),
        "digest": Words(64),
        "busy": Number(0, 1),
        "samples": List(Number(0, 1e12), most=1_000),
    },
)
_LINE_BYTES = 1 << 16


def lines(log: bytes) -> list[dict[str, Any]]:
    """Read the probe's lines in a node's log; other lines are skipped."""
    objects = []
    for line in log.decode("utf-8", "replace").splitlines():
        _, mark, text = line.partition(PROBE_MARK)
        if mark:
            with suppress(UnfitError):  # or the end of it is not there yet
                objects.append(parse(text, _LINE, most=_LINE_BYTES))
    return objects


def of_node(objects: Iterable[Mapping[str, Any]], rank: int) -> list[Mapping[str, Any]]:
    """Return the lines in which a node speaks of itself, alone or with others, with its rank."""
    return [
        {**record, "node": rank}
        for record in objects
        if rank in record.get("nodes", [record.get("node", rank)])
    ]


def step(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return what was being measured last, or nothing."""
    return next((str(record["step"]) for record in reversed(objects) if "step" in record), "")
