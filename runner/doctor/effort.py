"""How long and how often the probe measures: what doctor and accept ask of it. Pure."""

from dataclasses import dataclass

START_S = 120.0  # torch's import from a cold disk on every process, and the rendezvous


@dataclass(frozen=True)
class Effort:
    """How long and how often the probe measures: doctor's, unless `accept` asks for more.

    `seconds` are of one measurement, `product_s` of correct products; `rounds` of pairs, 0 for
    every pair once; `small`: small messages, too. `patience_s` is how long a process waits for the
    others: with less than `stall_s` it gives up first, with more the supervisors say which process
    holds up the others.
    `left_out` are tests.
    """

    seconds: float = 1.0
    tries: int = 2
    rounds: int = 0
    small: bool = False
    patience_s: float = 90.0
    stall_s: float = START_S
    product_s: float = 60.0
    storage_mib: int = 1024
    left_out: tuple[str, ...] = ()

    def limit_s(self, nodes: int) -> float:
        """Return how long a probe may take."""
        rounds = self.rounds or 2 * nodes
        fixed_s = START_S + self.product_s + self.storage_mib / 2
        return fixed_s + 10 * self.seconds * (12 + rounds)


DOCTORS = Effort()
