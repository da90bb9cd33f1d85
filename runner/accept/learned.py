"""What training on groups of nodes says: who is slow, who computes something else, drift. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.accept.acceptance import NodeFault
from runner.accept.remedies import remedy
from runner.doctor.judgement import result_json
from runner.doctor.outliers import slowed
from runner.doctor.probe_tests import TESTS, floor_of
from runner.doctor.slow_figures import Figure, judge_figures, rounded, slow_parts

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
    alone = all(len(group.hosts) == 1 for group in groups)
    test = "train_alone" if alone else "train_groups"
    rates = {group.hosts: tuple(o.rates for t in tries for o in t if o.hosts == group.hosts)
             for group in groups}  # fmt: skip
    figures = [Figure(hosts, None, every) for hosts, every in rates.items()]
    row = judge_figures(test, figures, device)
    hosts = [host for group in groups for host in group.hosts]
    slow = [
        NodeFault(STAGE, test, slow_part.nodes if alone else (), slow_part.words, remedy(test))
        for slow_part in slow_parts(row, hosts)
    ]
    return {**result_json(row), "nodes": len(groups[0].hosts)}, slow


def judge_losses(groups: Sequence[GroupTraining]) -> list[NodeFault]:
    """Find groups that learn something else than the others from the same data."""
    length = min(len(group.losses) for group in groups)
    if len(groups) < 2 or not length:
        return []
    middles = [statistics.median(group.losses[step] for group in groups) for step in range(length)]
    curves = [group.losses[:length] for group in groups]
    usual = max(curves, key=curves.count)
    agreed = curves.count(usual) * 2 > len(curves)
    far = {
        group: step
        for group, curve in zip(groups, curves, strict=True)
        if (step := _first_apart(curve, usual if agreed else middles)) is not None
    }
    if not far:
        return []
    if not agreed and len(far) * 2 >= len(groups):
        hosts = ", ".join(host for group in far for host in group.hosts)
        description = f"{hosts} log different losses, and it cannot be said which is right"
        return [NodeFault(STAGE, "loss", (), description, remedy("loss"))]
    return [
        NodeFault(
            STAGE,
            "loss",
            group.hosts if len(group.hosts) == 1 else (),
            f"{', '.join(group.hosts)}: loss {group.losses[step]:.6g} at step {step + 1}, the"
            f" others {(usual if agreed else middles)[step]:.6g}",
            remedy("loss"),
        )
        for group, step in far.items()
    ]


def same_losses(groups: Sequence[GroupTraining]) -> tuple[str, ...]:
    """Say which groups log the same losses to the last digit, where most of several do."""
    curves = [group.losses for group in groups]
    usual = max(curves, key=curves.count)
    deviating = [host for group in groups if group.losses != usual for host in group.hosts]
    if len(groups) < 2 or curves.count(usual) * 2 <= len(curves):
        return ()
    description = (
        f"{curves.count(usual)} x {len(groups[0].hosts)} nodes: the same losses to the last"
    )
    return (f"{description} digit{', not on ' + ', '.join(deviating) if deviating else ''}",)


def _first_apart(curve: Sequence[float], usual: Sequence[float]) -> int | None:
    for step, (loss, usual_loss) in enumerate(zip(curve, usual, strict=True)):
        if not abs(loss - usual_loss) <= APART * abs(usual_loss):  # NaN is apart from all
            return step
    return None


def judge_soak(training: GroupTraining, device: str) -> list[NodeFault]:
    """Find training that becomes slower while it goes on."""
    rates = slowed([training.rates], floor_of("train_groups", device), 1)
    if rates is None:
        return []
    description = f"training slowed down from {rounded(rates[0])} to {rounded(rates[1])} samples/s"
    return [
        NodeFault(
            *("soak", "train_groups", (), f"{description} on all nodes"),
            remedy("sustained", device),
        )
    ]


def scaling(tests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Say what share of a single node's speed each node has in larger groups."""
    by_nodes = {row["nodes"]: row for row in tests if "nodes" in row and row["reference"]}
    alone = by_nodes.get(1)
    if alone is None:
        return []
    unit = TESTS["train_groups"][1]
    return [
        f"{nodes} nodes: {rounded(row['reference'])} {unit},"
        f" {row['reference'] / nodes / alone['reference']:.0%} of {nodes} times one node"
        for nodes, row in by_nodes.items()
        if nodes > 1
    ]
