"""What training on groups of nodes says: who is slow, who computes something else, drift. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.accept.acceptance import NodeFault
from runner.accept.remedies import remedy
from runner.doctor.judgement import (
    TESTS,
    Figure,
    floor_of,
    judge_figures,
    named,
    result_json,
    rounded,
)
from runner.figures.outliers import slowed

STAGE = "training"
APART = 1e-3  # relative: what losses of the same steps may differ by where sums are not ordered


@dataclass(frozen=True)
class GroupTraining:
    """A group's samples/s of each counted step, and its losses of all steps."""

    hosts: tuple[str, ...]
    rates: tuple[float, ...]
    losses: tuple[float, ...]


def judge_round(
    tries: Sequence[Sequence[GroupTraining]], device: str
) -> tuple[dict[str, Any], list[NodeFault]]:
    """Find the slow groups of one size, by the best of their tries; of single nodes, the nodes."""
    groups = tries[0]
    alone = all(len(one.hosts) == 1 for one in groups)
    test = "train_alone" if alone else "train_groups"
    rates = {one.hosts: tuple(o.rates for t in tries for o in t if o.hosts == one.hosts)
             for one in groups}  # fmt: skip
    figures = [Figure(hosts, None, every) for hosts, every in rates.items()]
    row = judge_figures(test, figures, device)
    hosts = [host for one in groups for host in one.hosts]
    slow = [
        NodeFault(STAGE, test, one.nodes if alone else (), one.words, remedy(test))
        for one in named(row, hosts)
    ]
    return {**result_json(row), "nodes": len(groups[0].hosts)}, slow


def judge_losses(groups: Sequence[GroupTraining]) -> list[NodeFault]:
    """Find groups that learn something else than the others from the same data."""
    length = min(len(one.losses) for one in groups)
    if len(groups) < 2 or not length:
        return []
    middles = [statistics.median(one.losses[step] for one in groups) for step in range(length)]
    curves = [one.losses[:length] for one in groups]
    usual = max(curves, key=curves.count)
    agreed = curves.count(usual) * 2 > len(curves)
    far = {
        one: step
        for one, curve in zip(groups, curves, strict=True)
        if (step := _first_apart(curve, usual if agreed else middles)) is not None
    }
    if not far:
        return []
    if not agreed and len(far) * 2 >= len(groups):
        hosts = ", ".join(host for one in far for host in one.hosts)
        words = f"{hosts} log different losses, and it cannot be said which is right"
        return [NodeFault(STAGE, "loss", (), words, remedy("loss"))]
    return [
        NodeFault(
            STAGE,
            "loss",
            one.hosts if len(one.hosts) == 1 else (),
            f"{', '.join(one.hosts)}: loss {one.losses[step]:.6g} at step {step + 1}, the others"
            f" {(usual if agreed else middles)[step]:.6g}",
            remedy("loss"),
        )
        for one, step in far.items()
    ]


def same_losses(groups: Sequence[GroupTraining]) -> tuple[str, ...]:
    """Say which groups log the same losses to the last digit, where most of several do."""
    curves = [one.losses for one in groups]
    usual = max(curves, key=curves.count)
    others = [host for one in groups if one.losses != usual for host in one.hosts]
    if len(groups) < 2 or curves.count(usual) * 2 <= len(curves):
        return ()
    words = f"{curves.count(usual)} x {len(groups[0].hosts)} nodes: the same losses to the last"
    return (f"{words} digit{', not on ' + ', '.join(others) if others else ''}",)


def _first_apart(curve: Sequence[float], usual: Sequence[float]) -> int | None:
    for step, (loss, other) in enumerate(zip(curve, usual, strict=True)):
        if not abs(loss - other) <= APART * abs(other):  # NaN is apart from all
            return step
    return None


def judge_soak(one: GroupTraining, device: str) -> list[NodeFault]:
    """Find training that becomes slower while it goes on."""
    rates = slowed(one.rates, floor_of("train_groups", device), 1)
    if rates is None:
        return []
    words = f"training slowed down from {rounded(rates[0])} to {rounded(rates[1])} samples/s"
    return [NodeFault("soak", "train_groups", (), f"{words} on all nodes", remedy("sustained"))]


def scaling(tests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Say what share of a single node's speed each node has in larger groups."""
    found = {one["nodes"]: one for one in tests if "nodes" in one and one["reference"]}
    alone = found.get(1)
    if alone is None:
        return []
    unit = TESTS["train_groups"][1]
    return [
        f"{nodes} nodes: {rounded(one['reference'])} {unit},"
        f" {one['reference'] / nodes / alone['reference']:.0%} of {nodes} times one node"
        for nodes, one in found.items()
        if nodes > 1
    ]
