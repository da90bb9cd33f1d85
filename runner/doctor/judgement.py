"""What the probe measured: which device, node or pair is slow, and what is only noise. Pure.

A figure is the median of its samples; of two tries the better one, since other work on a machine
only ever slows it. It is slow if it is below the reference (the upper quartile of its like) by
more than its tolerance: FLOORS, or three times its noise where that is more. Noise is the samples'
MAD as a standard deviation (x 1.4826), of the figure itself or of its like, and how far two tries
are apart. node/probe.py has the units and formulas.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from node.kinds import having
from node.parsing import parse
from node.probe import reference
from node.schema import List, Number, OneOf, UnfitError, Whole, Words
from runner.terms.product import Product, Products

PROBE_MARK = "TRAINBENCH_DOCTOR "
# Devices of one healthy node differ by up to 5 %. Two links of one kind differ by more, for their
# paths do; and a CPU shares its cores, caches and memory with everything else on the machine.
FLOORS: Mapping[str, float] = {"devices": 0.05, "cpu": 0.20, "network": 0.10}
NOISES = 3.0
TOO_NOISY = 2.0  # floors of noise, beyond which nothing slow could be told from it
TESTS: Mapping[str, tuple[str, str]] = {
    "matmul_fp32": ("matrix product fp32", "TFLOP/s"),
    "matmul_tf32": ("matrix product tf32", "TFLOP/s"),
    "matmul_bf16": ("matrix product bf16", "TFLOP/s"),
    "matmul_fp16": ("matrix product fp16", "TFLOP/s"),
    "memory": ("memory bandwidth", "GB/s"),
    "node": ("all-reduce within a node", "GB/s bus"),
    "all": ("all-reduce between all nodes", "GB/s bus"),
    "pair": ("all-reduce of pairs of nodes", "GB/s bus"),
}
MATMUL = "matmul_"  # and an arithmetic
# What the kinds of devices multiply in: a CPU has no units for halves but bf16's, if any.
DEVICE_TESTS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("matmul_fp32", "matmul_bf16", "memory"),
    "npu": ("matmul_fp32", "matmul_bf16", "matmul_fp16", "memory"),
    "cuda": ("matmul_fp32", "matmul_tf32", "matmul_bf16", "matmul_fp16", "memory"),
}
NETWORK_TESTS = ("node", "all", "pair")


@dataclass(frozen=True)
class Figure:
    """One measured thing: its nodes, its device on the node (None: all of them), its samples.

    `tries` has one list of samples for each try; of a pair, the second is while no other talks.
    """

    nodes: tuple[str, ...]
    device: int | None
    tries: tuple[tuple[float, ...], ...]

    @property
    def value(self) -> float:
        """The better try's median."""
        return max(statistics.median(samples) for samples in self.tries)

    @property
    def noise(self) -> float:
        """Relative: the widest try's MAD as a standard deviation, and the tries' distance."""
        middles = [statistics.median(samples) for samples in self.tries]
        spread = max(_sigma(samples) for samples in self.tries)
        return (spread + max(middles) - min(middles)) / max(middles)

    @property
    def label(self) -> str:
        """`node3 device 4`, or `node1 with node2`."""
        where = " with ".join(self.nodes)
        return where if self.device is None else f"{where} device {self.device}"


@dataclass(frozen=True)
class ProbeResult:
    """One test over all its figures."""

    test: str
    figures: tuple[Figure, ...]
    reference: float | None = None
    slow: tuple[Figure, ...] = ()
    contended: tuple[Figure, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return TESTS[self.test][0]

    def value(self, one: Figure) -> float:
        """Return what is shown of a figure: of a pair, as it was beside all others."""
        return statistics.median(one.tries[0]) if self.test == "pair" else one.value


@dataclass(frozen=True)
class SlowPart:
    """What is slow, in one line, and the nodes that it is on."""

    test: str
    nodes: tuple[str, ...]
    words: str


@dataclass(frozen=True)
class Judgement:
    """All tests; `torch` is where it came from, `reason` why nothing was measured at all."""

    rows: tuple[ProbeResult, ...] = ()
    slow: tuple[SlowPart, ...] = ()
    notes: tuple[str, ...] = ()
    torch: str = ""
    reason: str = ""
    took_s: float = 0.0

    @property
    def unanswered(self) -> bool:
        """Whether something that was asked for has no result."""
        return bool(self.reason) or any(row.reason for row in self.rows)

    def products(self, at: float) -> Products:
        """Return what the matrix product reached on nodes of which all devices have a figure.

        A test without a result, also one of too much noise, has none.
        """
        nodes: dict[str, tuple[Product, ...]] = {}
        for row in self.rows:
            if not row.test.startswith(MATMUL) or row.reason:
                continue
            by_host: dict[str, dict[int | None, float]] = {}
            for one in row.figures:
                by_host.setdefault(one.nodes[0], {})[one.device] = one.value
            for host, rates in by_host.items():
                if set(rates) == set(range(len(rates))):
                    in_order = tuple(rates[number] for number in range(len(rates)))
                    product = Product(row.test.removeprefix(MATMUL), at, in_order)
                    nodes[host] = (*nodes.get(host, ()), product)
        return Products(nodes)

    def as_json(self) -> dict[str, Any]:
        """Return the object as docs/doctor.md describes it."""
        return {
            "torch": self.torch,
            "reason": self.reason,
            "took_s": round(self.took_s, 1),
            "tests": [
                {
                    "test": row.test,
                    "name": row.name,
                    "unit": TESTS[row.test][1],
                    "reference": row.reference,
                    "reason": row.reason,
                    "figures": [
                        {
                            "nodes": list(one.nodes),
                            "device": one.device,
                            "value": row.value(one),
                            "noise": round(one.noise, 4),
                            "tries": [list(samples) for samples in one.tries],
                            "slow": one in row.slow,
                        }
                        for one in row.figures
                    ],
                }
                for row in self.rows
            ],
            "slow": [
                {"test": one.test, "nodes": list(one.nodes), "words": one.words}
                for one in self.slow
            ],
            "notes": list(self.notes),
        }


def rounded(value: float) -> str:
    """Write a figure with the digits that it is good for."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _sigma(samples: Sequence[float]) -> float:
    middle = statistics.median(samples)
    return 1.4826 * statistics.median(abs(sample - middle) for sample in samples)


# --- from the logs ----------------------------------------------------------------------------


# A line of node/probe.py's.
_LINE = having(
    {},
    {
        **dict.fromkeys(("step", "error"), Words(500)),
        "test": OneOf(*DEVICE_TESTS["cuda"], "all_reduce"),
        "scope": OneOf(*NETWORK_TESTS),
        "node": Whole(),
        "nodes": List(Whole()),
        "local": Whole(),
        "try": Whole(1, 2),
        "samples": List(Number(0, 1e12), most=1_000),
    },
)
_LINE_BYTES = 1 << 16


def lines(log: bytes) -> list[dict[str, Any]]:
    """Read the probe's lines in a node's log; what is no such line is left out."""
    objects = []
    for line in log.decode("utf-8", "replace").splitlines():
        _, mark, text = line.partition(PROBE_MARK)
        if mark:
            with suppress(UnfitError):  # or the end of it is not there yet
                objects.append(parse(text, _LINE, most=_LINE_BYTES))
    return objects


def of_node(objects: Iterable[Mapping[str, Any]], rank: int) -> list[Mapping[str, Any]]:
    """Return the lines in which a node speaks of itself, alone or with others."""
    return [one for one in objects if rank in one.get("nodes", [one.get("node", rank)])]


def step(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return what was being measured last, or nothing."""
    return next((str(one["step"]) for one in reversed(objects) if "step" in one), "")


def judge_probe(
    objects: Iterable[Mapping[str, Any]],
    hosts: Sequence[str],
    *,
    device: str,
    devices_per_node: int,
    checks: Sequence[str],
    torch: str = "",
    took_s: float = 0.0,
    failed: str = "",
) -> Judgement:
    """Judge the lines of all nodes; `hosts` are the nodes by rank.

    `failed` is why the probe did not end well: a test without figures then has it as its reason.
    """
    tests: list[str] = []
    if "devices" in checks:
        tests += DEVICE_TESTS[device]
    if "network" in checks:
        tests += ["node"] * (devices_per_node > 1) + ["all"] * (len(hosts) > 1)
        tests += ["pair"] * (len(hosts) > 2)
    collected, errors = _collect(objects, hosts)
    rows, verdicts, notes = [], [], []
    for test in tests:
        figures = collected.get(test, ())
        silent = "" if figures else failed or "the probe printed no result"
        reason = errors.get(test) or silent
        row = _row(test, figures, device, reason)
        rows.append(row)
        verdicts += _named(row, hosts, devices_per_node)
        notes += [
            f"{one.label}: {row.name} is slow while other pairs talk, and alone it is not: they"
            " share a switch or a link"
            for one in row.contended
        ]
    if "network" in checks and len(hosts) == 2:
        notes.append("two nodes are one pair: there is no other to compare it with")
    if failed and rows and all(row.figures for row in rows):
        notes.append(f"the probe did not end well: {failed}")
    return Judgement(tuple(rows), tuple(verdicts), tuple(notes), torch, "", took_s)


def _collect(
    objects: Iterable[Mapping[str, Any]], hosts: Sequence[str]
) -> tuple[dict[str, tuple[Figure, ...]], dict[str, str]]:
    """Test to its figures, and to what went wrong in it."""
    samples: dict[str, dict[tuple[tuple[str, ...], int | None], dict[int, tuple[float, ...]]]] = {}
    errors: dict[str, str] = {}
    for one in objects:
        test = str(one.get("scope") or one.get("test") or "")
        ranks = one.get("nodes") or [one.get("node", len(hosts))]
        if test not in TESTS or max(ranks) >= len(hosts):
            continue
        where, taken = tuple(hosts[rank] for rank in ranks), tuple(one.get("samples", ()))
        if "error" in one:
            errors[test] = f"{where[0]}: {one['error']}"
        elif taken and statistics.median(taken) > 0:
            tries = samples.setdefault(test, {}).setdefault((where, one.get("local")), {})
            tries[one.get("try", 1)] = taken
    return {
        test: tuple(
            Figure(nodes, local, tuple(tries[number] for number in sorted(tries)))
            for (nodes, local), tries in by_place.items()
        )
        for test, by_place in samples.items()
    }, errors


def _row(test: str, figures: Sequence[Figure], device: str, reason: str) -> ProbeResult:
    if not figures:
        return ProbeResult(test, (), reason=reason)
    floor = FLOORS["cpu" if device == "cpu" else "network" if test in NETWORK_TESTS else "devices"]
    usual = reference([one.value for one in figures])
    common = statistics.median(one.noise for one in figures)
    slow: list[Figure] = []
    contended: list[Figure] = []
    if test == "pair":
        slow, contended = _slow_pairs(figures, floor)
        usual = reference([statistics.median(one.tries[0]) for one in figures])
    elif len(figures) > 1:
        slow = [one for one in figures if _is_slow(one.value, usual, one.noise, common, floor)]
    if not slow and not reason and common > TOO_NOISY * floor:
        reason = (
            f"too noisy to tell ({common:.0%} of noise): see what else uses the nodes, end it, and"
            " ask again"
        )
    return ProbeResult(test, tuple(figures), usual, tuple(slow), tuple(contended), reason)


def _is_slow(value: float, usual: float, noise: float, common: float, floor: float) -> bool:
    return value < usual * (1 - max(floor, NOISES * max(noise, common)))


def _slow_pairs(figures: Sequence[Figure], floor: float) -> tuple[list[Figure], list[Figure]]:
    """Find the pairs slow in their round and alone; and those that are slow only while others talk.

    What was measured alone is compared with what else was measured alone.
    """
    first = {one: statistics.median(one.tries[0]) for one in figures}
    alone = {one: statistics.median(one.tries[1]) for one in figures if len(one.tries) > 1}
    noises = {
        one: max(_sigma(samples) / statistics.median(samples) for samples in one.tries)
        for one in figures
    }
    common = statistics.median(noises.values())
    usual = reference(list(first.values()))
    suspected = [
        one for one, value in first.items() if _is_slow(value, usual, noises[one], common, floor)
    ]
    best = max(alone.values(), default=0.0)
    slow: list[Figure] = []
    contended: list[Figure] = []
    for one in suspected:
        if one in alone:
            still = _is_slow(alone[one], best, noises[one], common, floor)
            (slow if still else contended).append(one)
    for one in suspected:
        if one not in alone:  # more were slow than are measured again: as those that were
            (contended if contended and not slow else slow).append(one)
    return slow, contended


def _named(row: ProbeResult, hosts: Sequence[str], devices_per_node: int) -> list[SlowPart]:
    """Name the slow ones: a node instead of its devices or pairs where all of them are slow."""
    if not row.slow or row.reference is None:
        return []
    verdicts = []
    left = list(row.slow)
    for host in hosts:
        mine = [one for one in row.slow if host in one.nodes]
        everything = [one for one in row.figures if host in one.nodes]
        if len(mine) < 2 or len(mine) < len(everything):
            continue
        if row.test == "pair" and len(mine) == len(row.figures):
            continue
        share = f"{len(mine)} of its {len(everything)} "
        share += "pairs" if row.test == "pair" else "devices"
        lowest = min(mine, key=row.value)
        verdicts.append(SlowPart(row.test, (host,), f"{host}: {_below(row, lowest)}, {share}"))
        left = [one for one in left if one not in mine]
    for one in left:
        verdicts.append(SlowPart(row.test, one.nodes, f"{one.label}: {_below(row, one)}"))
    return verdicts


def _below(row: ProbeResult, one: Figure) -> str:
    assert row.reference is not None
    name, unit = TESTS[row.test]
    value = row.value(one)
    return (
        f"{name} {rounded(value)} {unit}, {1 - value / row.reference:.0%} below"
        f" {rounded(row.reference)}"
    )
