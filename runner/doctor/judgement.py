"""Judge a whole probe: a row for each test, the slow nodes and devices, wrong products. Pure.

What `accept` measures beside doctor is judged here, too.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.base.text import counted
from runner.doctor.probe_tests import (
    CORRECT,
    DEEP_TESTS,
    DEVICE_TESTS,
    MATMUL,
    NCCL_TESTS,
    TESTS,
    WHERE_POSSIBLE,
    WRONG_SUMS,
)
from runner.doctor.slow_figures import (
    Figure,
    ProbeResult,
    SlowPart,
    judge_figures,
    slow_parts,
    slowing,
)
from runner.terms.product import Product, Products


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
        return replace(self, rows=rows, slow=tuple(dict.fromkeys(slow))).ended_as(more)

    def ended_as(self, more: "Judgement") -> "Judgement":
        """Return this with how another ended."""
        return replace(self, failed=more.failed, held_up=more.held_up, cause=more.cause)

    def as_json(self) -> dict[str, Any]:
        """Return the object as docs/how-to/accept.md describes it."""
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
    more_rows = {row.test: row for row in more.rows if row.test in tests}
    rows, slow = [], [fault for fault in judged.slow if fault.test not in more_rows]
    places = {(fault.test, fault.nodes) for fault in slow}
    slow += [
        fault
        for fault in more.slow
        if fault.test not in TESTS and (fault.test, fault.nodes) not in places
    ]
    for row in judged.rows:
        if row.test in more_rows:
            tries = {
                (figure.nodes, figure.device): figure for figure in more_rows[row.test].figures
            }
            figures = [
                replace(one, tries=(*one.tries, *two.tries), busy=min(one.busy, two.busy))
                if (two := tries.get((one.nodes, one.device)))
                else one
                for one in row.figures
            ]
            row = judge_figures(row.test, figures, device, "" if row.noisy else row.reason)
            slow += slow_parts(
                row, list(dict.fromkeys(h for figure in figures for h in figure.nodes))
            )
            slow += slowing(row, device) if row.test == "sustained" else []
        rows.append(row)
    return replace(judged, rows=tuple(rows), slow=tuple(slow))


def result_json(row: ProbeResult) -> dict[str, Any]:
    """Return a test as docs/how-to/accept.md describes it."""
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
                "busy": round(figure.busy, 3),
                "slow": figure in row.slow,
            }
            for figure in row.figures
        ],
    }


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
    impossible = {"copies"} if device == "cpu" else set()
    impossible |= {"collectives"} if len(hosts) * devices_per_node == 1 else set()
    for check in checks:
        tests += DEEP_TESTS.get(check, ()) if check not in impossible else ()
    objects = list(objects)
    collected, errors = _collect(objects, hosts)
    rows: list[ProbeResult] = []
    verdicts, notes = wrong_products(objects, hosts) if "products" in checks else ([], [])
    verdicts += wrong_sums(objects, hosts)
    absent = {*WHERE_POSSIBLE} - set(collected) - set(errors)
    for test in (test for test in tests if test not in {*left_out, *absent}):
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
        notes.append(f"the probe failed at its end: {failed}")
    return Judgement(tuple(rows), tuple(verdicts), tuple(notes), torch, "", took_s, failed, held_up)


def _collect(
    objects: Iterable[Mapping[str, Any]], hosts: Sequence[str]
) -> tuple[dict[str, tuple[Figure, ...]], dict[str, str]]:
    """Test to its figures, and to what went wrong in it."""
    samples: dict[str, dict[tuple[tuple[str, ...], int | None], dict[int, tuple[float, ...]]]] = {}
    errors: dict[str, str] = {}
    waited: dict[tuple[Any, ...], float] = {}  # test, place, try
    for record in objects:
        test = str(record.get("scope") or record.get("test") or "")
        ranks = record.get("nodes") or [record.get("node", len(hosts))]
        if test not in TESTS or max(ranks) >= len(hosts):
            continue
        where, samples_taken = (
            tuple(hosts[rank] for rank in ranks),
            tuple(record.get("samples", ())),
        )
        if "busy" in record:
            place = (test, where, record.get("local"), record.get("try", 1))
            waited[place] = max(waited.get(place, 0.0), record["busy"])
        elif "error" in record:
            errors[test] = f"{where[0]}: {record['error']}"
        elif samples_taken and statistics.median(samples_taken) > 0:
            tries = samples.setdefault(test, {}).setdefault((where, record.get("local")), {})
            tries[record.get("try", 1)] = samples_taken
    return {
        test: tuple(
            Figure(
                nodes,
                local,
                tuple(tries[number] for number in sorted(tries)),
                min(waited.get((test, nodes, local, number), 0.0) for number in tries),
            )
            for (nodes, local), tries in by_place.items()
        )
        for test, by_place in samples.items()
    }, errors


def wrong_products(
    objects: Sequence[Mapping[str, Any]], hosts: Sequence[str]
) -> tuple[list[SlowPart], list[str]]:
    """Find devices whose products are wrong, or are not the others'; and say what was checked."""
    needed = {"digest", "wrong", "checked"}
    products = [
        product for product in objects if product.get("test") == CORRECT and needed <= set(product)
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


def wrong_sums(objects: Sequence[Mapping[str, Any]], hosts: Sequence[str]) -> list[SlowPart]:
    """Find nodes on which nccl-tests found wrong elements."""
    wrong = {
        hosts[record["node"]]: record["wrong"]
        for record in objects
        if record.get("test") == NCCL_TESTS and record.get("wrong")
    }
    return [
        SlowPart(WRONG_SUMS, (host,), f"{host}: nccl-tests found {counted(count, 'wrong element')}")
        for host, count in wrong.items()
    ]
