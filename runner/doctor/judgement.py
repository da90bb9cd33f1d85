"""What the probe measured: which device, node or pair is slow, and what is only noise. Pure.

A figure is the median of its samples; of several tries the best one, since other work on a machine
only ever slows it. It is slow if it is below the reference (the upper quartile of its like) by
more than its tolerance: FLOORS, or what noise explains (runner/figures/outliers.py). Noise is the
standard error of the median, by the samples' MAD, of the figure itself or of its like, and how far
two tries are apart. Where all devices take their samples at the same time (AT_ONCE), each sample is
compared with those of the same moment, so that noise of the whole cluster does not count.
node/probe.py and node/probe_deep.py have the units and formulas. What `accept` measures beside
doctor is judged here, too.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from node.kinds import having
from node.parsing import parse
from node.probe import reference
from node.schema import List, Number, OneOf, UnfitError, Whole, Words
from runner.base.text import counted
from runner.figures.outliers import (
    best_of_tries,
    error,
    is_low,
    jitter,
    relative_to_median,
    slowed,
    spread,
)
from runner.terms.product import Product, Products

PROBE_MARK = "TRAINBENCH_DOCTOR "
# Devices of one healthy node differ by up to 5 %. Two links of one kind differ by more, for their
# paths do; and a CPU shares its cores, caches and memory with everything else on the machine.
# A disk's speed depends on what it holds, and a message's time on what else the kernel does.
FLOORS: Mapping[str, float] = {
    **{"devices": 0.05, "cpu": 0.20, "network": 0.10},
    **{"small": 0.50, "storage": 0.50, "copies": 0.10, "delivered": 0.01},
}
NOISY = "too noisy to tell"
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
    "pair_small": ("small messages of pairs", "1/s"),
    "pair_delivered": ("packets of pairs that need not be sent again", "%"),
    "sustained": ("matrix product, sustained", "TFLOP/s"),
    "to_device": ("copy from host to device", "GB/s"),
    "from_device": ("copy from device to host", "GB/s"),
    "all_gather": ("all-gather between all nodes", "GB/s bus"),
    "all_to_all": ("all-to-all between all nodes", "GB/s bus"),
    "send_receive": ("send and receive around all nodes", "GB/s"),
    "storage_write": ("write and sync", "MB/s"),
    "storage_read": ("read", "MB/s"),
    "storage_sync": ("sync of 4 KiB", "1/s"),
    "storage_files": ("small files made and removed", "1/s"),
    "train_alone": ("training on one node", "samples/s"),
    "train_groups": ("training on a group of nodes", "samples/s"),
}
CORRECT = "correct"
MATMUL = "matmul_"  # and an arithmetic
# What the kinds of devices multiply in: a CPU has no units for halves but bf16's, if any.
DEVICE_TESTS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("matmul_fp32", "matmul_bf16", "memory"),
    "npu": ("matmul_fp32", "matmul_bf16", "matmul_fp16", "memory"),
    "cuda": ("matmul_fp32", "matmul_tf32", "matmul_bf16", "matmul_fp16", "memory"),
}
COLLECTIVES = ("all_gather", "all_to_all", "send_receive")
NETWORK_TESTS = ("node", "all", "pair", *COLLECTIVES)
PAIRS = ("pair", "pair_small", "pair_delivered")
# What a check of node/probe_deep.py gives; each of these is judged like one of doctor's.
DEEP_TESTS: Mapping[str, tuple[str, ...]] = {
    "products": ("sustained",),
    "copies": ("to_device", "from_device"),
    "collectives": COLLECTIVES,
    "storage": ("storage_write", "storage_read", "storage_sync", "storage_files"),
}


# Tests of which what seems slow is measured again only by a second probe (`with_tries`).
ONE_TRY = (*DEEP_TESTS["products"], *DEEP_TESTS["copies"], *DEEP_TESTS["storage"])
AT_ONCE = DEEP_TESTS["products"]  # tests of which all devices take their samples at the same time


def check_of(test: str) -> str:
    """Return the check of the probe that measures a test."""
    deep = (check for check, tests in DEEP_TESTS.items() if test in tests)
    check = "devices" if any(test in tests for tests in DEVICE_TESTS.values()) else "network"
    return next(deep, check)


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
        """Relative: the larger standard error of the two best tries' medians, and how far these are
        apart.
        """
        best = sorted(self.tries, key=statistics.median)[-2:]
        middles = [statistics.median(samples) for samples in best]
        widest = max(error(samples) for samples in best)
        return (widest + max(middles) - min(middles)) / max(middles)

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
    def noisy(self) -> bool:
        """Whether noise hid what was to be seen: another try may show it."""
        return self.reason.startswith(NOISY)

    @property
    def name(self) -> str:
        """For people."""
        return TESTS[self.test][0]

    def value(self, figure: Figure) -> float:
        """Return what is shown of a figure: of a pair, as it was beside all others."""
        return statistics.median(figure.tries[0]) if self.test in PAIRS else figure.value


@dataclass(frozen=True)
class SlowPart:
    """What is slow, in one line, and the nodes that it is on."""

    test: str
    nodes: tuple[str, ...]
    words: str


@dataclass(frozen=True)
class Judgement:
    """All tests; `torch` is where it came from, `reason` why nothing was measured at all.

    `failed` is why the probe did not end well, `held_up` names the nodes that ended it for all,
    `cause` is the code of what did.
    """

    rows: tuple[ProbeResult, ...] = ()
    slow: tuple[SlowPart, ...] = ()
    notes: tuple[str, ...] = ()
    torch: str = ""
    reason: str = ""
    took_s: float = 0.0
    failed: str = ""
    held_up: tuple[str, ...] = ()
    cause: str = ""

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
            for figure in row.figures:
                by_host.setdefault(figure.nodes[0], {})[figure.device] = figure.value
            for host, rates in by_host.items():
                if set(rates) == set(range(len(rates))):
                    in_order = tuple(rates[number] for number in range(len(rates)))
                    product = Product(row.test.removeprefix(MATMUL), at, in_order)
                    nodes[host] = (*nodes.get(host, ()), product)
        return Products(nodes)

    def with_rows(self, more: "Judgement") -> "Judgement":
        """Return this with another's rows in place of its own of these tests."""
        tests = {row.test: row for row in more.rows}
        rows = tuple(tests.get(row.test, row) for row in self.rows)
        slow = (*(part for part in self.slow if part.test not in tests), *more.slow)
        return replace(self, rows=rows, slow=slow).ended_as(more)

    def ended_as(self, more: "Judgement") -> "Judgement":
        """Return this with how another ended."""
        return replace(self, failed=more.failed, held_up=more.held_up, cause=more.cause)

    def as_json(self) -> dict[str, Any]:
        """Return the object as docs/doctor.md describes it."""
        return {
            "torch": self.torch,
            "reason": self.reason,
            "took_s": round(self.took_s, 1),
            "tests": [result_json(row) for row in self.rows],
            "slow": [
                {"test": part.test, "nodes": list(part.nodes), "words": part.words}
                for part in self.slow
            ],
            "notes": list(self.notes),
        }


def with_tries(judged: Judgement, more: Judgement, tests: Sequence[str], device: str) -> Judgement:
    """Return a judgement in which the figures of some tests have the tries of another, too."""
    more_rows = {row.test: row for row in more.rows}
    rows, slow = [], [part for part in judged.slow if part.test not in tests]
    for row in judged.rows:
        if row.test in tests and row.test in more_rows:
            tries = {
                (figure.nodes, figure.device): figure.tries
                for figure in more_rows[row.test].figures
            }
            figures = [
                replace(
                    figure, tries=(*figure.tries, *tries.get((figure.nodes, figure.device), ()))
                )
                for figure in row.figures
            ]
            row = judge_figures(row.test, figures, device)
            slow += slow_parts(
                row, list(dict.fromkeys(h for figure in figures for h in figure.nodes))
            )
            slow += slowing(row, device) if row.test == "sustained" else []
        rows.append(row)
    return replace(judged, rows=tuple(rows), slow=tuple(slow))


def result_json(row: ProbeResult) -> dict[str, Any]:
    """Return a test as docs/doctor.md describes it."""
    return {
        "test": row.test,
        "name": row.name,
        "unit": TESTS[row.test][1],
        "reference": row.reference,
        "reason": row.reason,
        "figures": [
            {
                "nodes": list(figure.nodes),
                "device": figure.device,
                "value": row.value(figure),
                "noise": round(figure.noise, 4),
                "tries": [list(samples) for samples in figure.tries],
                "slow": figure in row.slow,
            }
            for figure in row.figures
        ],
    }


def rounded(value: float) -> str:
    """Write a figure with the digits that it is good for."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# --- from the logs ----------------------------------------------------------------------------


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
    """Return the lines in which a node speaks of itself, alone or with others."""
    return [record for record in objects if rank in record.get("nodes", [record.get("node", rank)])]


def step(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return what was being measured last, or nothing."""
    return next((str(record["step"]) for record in reversed(objects) if "step" in record), "")


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
    held_up: tuple[str, ...] = (),
    small: bool = False,
    left_out: Sequence[str] = (),
) -> Judgement:
    """Judge the lines of all nodes; `hosts` are the nodes by rank.

    `small`: small messages of pairs were asked for; tests that are `left_out` are not judged.

    `failed` is why the probe did not end well: a test without figures then has it as its reason.
    """
    tests: list[str] = []
    if "devices" in checks:
        tests += DEVICE_TESTS[device]
    if "network" in checks:
        tests += ["node"] * (devices_per_node > 1) + ["all"] * (len(hosts) > 1)
        tests += ["pair"] * (len(hosts) > 2)
        tests += ["pair_small", "pair_delivered"] * (len(hosts) > 2 and small)
    for check in checks:
        if check != "copies" or device != "cpu":
            tests += DEEP_TESTS.get(check, ()) if check != "collectives" or len(hosts) > 1 else ()
    objects = list(objects)
    collected, errors = _collect(objects, hosts)
    rows: list[ProbeResult] = []
    verdicts, notes = wrong_products(objects, hosts) if "products" in checks else ([], [])
    for test in (test for test in tests if test not in left_out):
        figures = collected.get(test, ())
        silent = "" if figures else failed or "the probe printed no result"
        reason = errors.get(test) or silent
        row = judge_figures(test, figures, device, reason)
        rows.append(row)
        verdicts += slow_parts(row, hosts)
        verdicts += slowing(row, device) if test == "sustained" else []
        notes += [
            f"{figure.label}: {row.name} is slow while other pairs talk, and alone it is not: they"
            " share a switch or a link"
            for figure in row.contended
        ]
    if "network" in checks and len(hosts) == 2:
        notes.append("two nodes are one pair: there is no other to compare it with")
    if failed and rows and all(row.figures for row in rows):
        notes.append(f"the probe did not end well: {failed}")
    return Judgement(tuple(rows), tuple(verdicts), tuple(notes), torch, "", took_s, failed, held_up)


def _collect(
    objects: Iterable[Mapping[str, Any]], hosts: Sequence[str]
) -> tuple[dict[str, tuple[Figure, ...]], dict[str, str]]:
    """Test to its figures, and to what went wrong in it."""
    samples: dict[str, dict[tuple[tuple[str, ...], int | None], dict[int, tuple[float, ...]]]] = {}
    errors: dict[str, str] = {}
    for record in objects:
        test = str(record.get("scope") or record.get("test") or "")
        ranks = record.get("nodes") or [record.get("node", len(hosts))]
        if test not in TESTS or max(ranks) >= len(hosts):
            continue
        where, samples_taken = (
            tuple(hosts[rank] for rank in ranks),
            tuple(record.get("samples", ())),
        )
        if "error" in record:
            errors[test] = f"{where[0]}: {record['error']}"
        elif samples_taken and statistics.median(samples_taken) > 0:
            tries = samples.setdefault(test, {}).setdefault((where, record.get("local")), {})
            tries[record.get("try", 1)] = samples_taken
    return {
        test: tuple(
            Figure(nodes, local, tuple(tries[number] for number in sorted(tries)))
            for (nodes, local), tries in by_place.items()
        )
        for test, by_place in samples.items()
    }, errors


def wrong_products(
    objects: Sequence[Mapping[str, Any]], hosts: Sequence[str]
) -> tuple[list[SlowPart], list[str]]:
    """Find devices whose products are wrong, or are not the others'; and say what was checked."""
    products = [
        product for product in objects if product.get("test") == CORRECT and "digest" in product
    ]
    digests = [product["digest"] for product in products]
    usual = max(digests, key=digests.count, default="")
    agreed = digests.count(usual) * 2 > len(digests)
    wrong = []
    for product in products:
        where = f"{hosts[product['node']]} device {product.get('local', 0)}"
        if product["wrong"]:
            description = (
                f"{where}: {product['wrong']:,} of {product['checked']:,} products are wrong"
            )
        elif agreed and product["digest"] != usual:
            description = (
                f"{where}: its product has other bits than those of {digests.count(usual)} more"
            )
        else:
            continue
        wrong.append(SlowPart(CORRECT, (hosts[product["node"]],), description))
    checked = sum(product["checked"] for product in products)
    notes = (
        [f"{checked:,} products checked on {counted(len(products), 'device')}"] if products else []
    )
    return wrong, notes


def slowing(row: ProbeResult, device: str) -> list[SlowPart]:
    """Find devices that slow down while they compute: heat, or a power limit.

    By their own samples; or beside the median of all devices, without noise that all have, where
    their own samples fall, too. One that is fast again in a later try did not slow down.
    """
    floor, count = 2 * floor_of(row.test, device), len(row.figures)
    relative = relative_to_median([figure.tries for figure in row.figures])
    common = statistics.median(map(jitter, relative)) if relative else 0.0
    slow = []
    for number, figure in enumerate(row.figures):
        if rates := slowed(figure.tries, floor, count):
            change = f"from {rounded(rates[0])} to {rounded(rates[1])} {TESTS[row.test][1]}"
        elif relative and slowed(figure.tries, floor, count, 0.0):
            tries = relative[number]
            # By one try alone it is only measured again.
            noise = common if len(tries) == 1 else max(common, jitter(tries))
            shares = slowed(tries, floor, count, noise)
            if not shares:
                continue
            change = f"from {shares[0]:.0%} to {shares[1]:.0%} of the median of all devices"
        else:
            continue
        description = f"{figure.label}: it slows down {change} while it computes"
        slow.append(SlowPart(row.test, figure.nodes, description))
    return slow


def floor_of(test: str, device: str) -> float:
    """Return by how much healthy figures of a test may differ."""
    if test in ("pair_small", "pair_delivered"):
        return FLOORS[test.removeprefix("pair_")]
    if test.startswith("storage_"):
        return FLOORS["storage"]
    if device == "cpu":
        return FLOORS["cpu"]
    if test in DEEP_TESTS["copies"]:
        return FLOORS["copies"]
    return FLOORS["network" if test in NETWORK_TESTS else "devices"]


def judge_figures(
    test: str, figures: Sequence[Figure], device: str, reason: str = ""
) -> ProbeResult:
    """Find the slow ones among all figures of a test."""
    if not figures:
        return ProbeResult(test, (), reason=reason)
    floor = floor_of(test, device)
    usual = reference([figure.value for figure in figures])
    values, noises = compared(test, figures)
    common = statistics.median(noises)
    slow: list[Figure] = []
    contended: list[Figure] = []
    if test in PAIRS:
        slow, contended = _slow_pairs(figures, floor)
        usual = reference([statistics.median(figure.tries[0]) for figure in figures])
    elif len(figures) > 1:
        between, best = spread(values), reference(values)
        slow = [
            figure
            for figure, value, noise in zip(figures, values, noises, strict=True)
            if is_low(value, best, noise, common, floor, len(figures), between)
        ]
    if not slow and not reason and common > TOO_NOISY * floor:
        reason = (
            f"{NOISY} ({common:.0%} of noise): stop what else runs on the nodes and measure again"
        )
    return ProbeResult(test, tuple(figures), usual, tuple(slow), tuple(contended), reason)


def compared(test: str, figures: Sequence[Figure]) -> tuple[list[float], list[float]]:
    """Return what figures of a test are compared by, and the noise of each, relative to it.

    Of samples that all take at once, what is slow in its best try is slow in each, so that it does
    not matter how far tries are apart.
    """
    at_once = test in AT_ONCE
    relative = relative_to_median([figure.tries for figure in figures]) if at_once else []
    if relative:
        return best_of_tries(relative)
    return [figure.value for figure in figures], [figure.noise for figure in figures]


def _slow_pairs(figures: Sequence[Figure], floor: float) -> tuple[list[Figure], list[Figure]]:
    """Find the pairs slow in their round and alone; and those that are slow only while others talk.

    What was measured alone is compared with what else was measured alone.
    """
    concurrent = {figure: statistics.median(figure.tries[0]) for figure in figures}
    alone = {
        figure: statistics.median(figure.tries[1]) for figure in figures if len(figure.tries) > 1
    }
    noises = {
        figure: max(error(samples) / statistics.median(samples) for samples in figure.tries)
        for figure in figures
    }
    common = statistics.median(noises.values())
    usual = reference(list(concurrent.values()))
    count = len(concurrent)

    def is_slow(figure: Figure, value: float, usual: float) -> bool:
        return is_low(value, usual, noises[figure], common, floor, count)

    suspected = [figure for figure, value in concurrent.items() if is_slow(figure, value, usual)]
    best = max(alone.values(), default=0.0)
    slow: list[Figure] = []
    contended: list[Figure] = []
    for figure in suspected:
        if figure in alone:
            still = is_slow(figure, alone[figure], best)
            (slow if still else contended).append(figure)
    for figure in suspected:
        if figure not in alone:  # more were slow than are measured again: as those that were
            (contended if contended and not slow else slow).append(figure)
    return slow, contended


def slow_parts(row: ProbeResult, hosts: Sequence[str]) -> list[SlowPart]:
    """Name the slow ones: a node instead of its devices or pairs.

    That is a node of which all are slow; and of pairs, one that is in more slow ones than any other
    node and in most of its own.
    """
    if not row.slow or row.reference is None:
        return []
    pairs = row.test in PAIRS
    shares = Counter(host for figure in row.figures for host in figure.nodes)
    remaining, verdicts = list(row.slow), []
    while True:
        counts = Counter(host for figure in remaining for host in figure.nodes)
        every = [host for host in hosts if 2 <= counts[host] == shares[host]]
        worst, runner_up = ([*counts.most_common(2), ("", 0), ("", 0)])[:2]
        if pairs and not every and worst[1] > max(runner_up[1], shares[worst[0]] / 2, 1):
            every = [worst[0]]
        every = [host for host in every if not pairs or counts[host] < len(row.figures)]
        if not every:
            break
        host = every[0]
        mine = [figure for figure in remaining if host in figure.nodes]
        share = f"{len(mine)} of its {shares[host]} {'pairs' if pairs else 'devices'}"
        lowest = min(mine, key=row.value)
        verdicts.append(SlowPart(row.test, (host,), f"{host}: {_below(row, lowest)}, {share}"))
        # A pair of two nodes that are both slow is slow for each of them.
        remaining = [figure for figure in remaining if figure not in mine]
        shares.subtract(
            host_of_figure
            for figure in mine
            for host_of_figure in figure.nodes
            if host_of_figure != host
        )
    for figure in remaining:
        verdicts.append(SlowPart(row.test, figure.nodes, f"{figure.label}: {_below(row, figure)}"))
    return verdicts


def _below(row: ProbeResult, figure: Figure) -> str:
    assert row.reference is not None
    name, unit = TESTS[row.test]
    value = row.value(figure)
    return (
        f"{name} {rounded(value)} {unit}, {1 - value / row.reference:.0%} below"
        f" {rounded(row.reference)}"
    )
