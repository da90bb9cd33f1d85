"""How long a silent node is waited for, and how long it goes on by itself: by what polls take.

A control machine that is slow, or has many nodes, asks each of them seldom. That does not make
a node silent, and is not a reason for it to end its run.
"""

from __future__ import annotations

import statistics

from runner.terms.orders import lease_s

NODE_S = 0.1  # of a round of polls, for each node, on a control machine that has other work
ROUNDS = 3.0  # that a node may miss


class Patience:
    """The patience of one run, whose nodes' threads say how long each round of polls took."""

    def __init__(self, lost_contact_s: float, nodes: int) -> None:
        self.least_s = max(lost_contact_s, NODE_S * nodes)
        self.rounds = [0.0] * nodes  # by node rank: seconds between the last two answers

    def took(self, node_rank: int, seconds: float) -> None:
        """Say how long a node's last round took."""
        self.rounds[node_rank] = seconds

    @property
    def silence_s(self) -> float:
        """How long a node may be silent before bench gives it up.

        Half of the nodes say what a round takes: one slow link is not a slow control machine.
        """
        return max(self.least_s, ROUNDS * statistics.median_low(self.rounds))

    @property
    def lease_s(self) -> float:
        """How long a node goes on that bench does not reach."""
        return lease_s(self.silence_s)
