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

STAGE, SOAK = "training", "soak"
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
    again = [{group.hosts: group.rates for group in each} for each in tries]
    hosts = [host for group in groups for host in group.hosts]
    figures = [
        Figure(group.hosts, None, tuple(each[group.hosts] for each in again if group.hosts in each))
        for group in groups
    ]
    row = judge_figures(test, figures, device)
    slow = [
        NodeFault(STAGE, test, part.nodes if alone else (), part.words, remedy(test))
        for part in slow_parts(row, hosts)
    ]
    return {**result_json(row), "nodes": len(groups[0].hosts)}, slow


def judge_losses(groups: Sequence[GroupTraining]) -> list[NodeFault]:
    """Find groups that learn something else than the others from the same data."""
    length = min(len(group.losses) for group in groups)
    curves = [group.losses[:length] for group in groups]
    usual = max(curves, key=curves.count)
    agreed = curves.count(usual) * 2 > len(curves)
    if not agreed:
        usual = tuple(statistics.median(losses) for losses in zip(*curves, strict=True))
    apart = [_first_apart(curve, usual) for curve in curves]
    far = [(group, step) for group, step in zip(groups, apart, strict=True) if step is not None]
    if len(groups) < 2 or not far:
        return []
    if not agreed and len(far) * 2 >= len(groups):
        hosts = ", ".join(host for group, _ in far for host in group.hosts)
        words = f"{hosts} log different losses, and it cannot be said which is right"
        return [NodeFault(STAGE, "loss", (), words, remedy("loss"))]
    faults = []
    for group, step in far:
        loss = f"loss {group.losses[step]:.6g} at step {step + 1}, the others {usual[step]:.6g}"
        words = f"{', '.join(group.hosts)}: {loss}"
        nodes = group.hosts if len(group.hosts) == 1 else ()
        faults.append(NodeFault(STAGE, "loss", nodes, words, remedy("loss")))
    return faults


def same_losses(groups: Sequence[GroupTraining]) -> tuple[str, ...]:
    """Say which groups log the same losses to the last digit, where most of several do."""
    curves = [group.losses for group in groups]
    usual = max(curves, key=curves.count)
    deviating = [host for group in groups if group.losses != usual for host in group.hosts]
    if len(groups) < 2 or curves.count(usual) * 2 <= len(curves):
        return ()
    alike = f"{curves.count(usual)} x {len(groups[0].hosts)} nodes: the same losses to the last"
    return (f"{alike} digit{', not on ' + ', '.join(deviating) if deviating else ''}",)


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
    words = f"training slowed down from {rounded(rates[0])} to {rounded(rates[1])} samples/s"
    cure = remedy("sustained", device)
    return [NodeFault(SOAK, "train_groups", (), f"{words} on all nodes", cure)]


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
