"""All nodes' items against the inventory and against each other: the findings. Pure.

The odd node is the one that differs from the majority. Without a majority (two nodes, or a tie)
nobody can say who is odd, so all are named. An item that no node has is left out.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.base.text import listing
from runner.doctor.items import NOTE, SPOILS, Item, ItemRule, items_of

ABSENT = "–"
PARTS_SHOWN = 3
STARVED = "usable CPUs for devices"
MIXED = "not the same on all its devices"
# Seconds. The logs of a run are laid side by side by their times: a second is about a step.
TIME_SPOILS_S, TIME_NOTE_S = 1.0, 0.1
# MiB. A run keeps 256 MiB of log a node and its scratch files; below 2 GiB the next one may fail.
DISK_SPOILS_MIB, DISK_NOTE_MIB = 2 * 1024, 20 * 1024


@dataclass(frozen=True)
class Finding:
    """Nodes with a value that is not the one it should be (`others`), and what that means."""

    item: str
    severity: str
    nodes: tuple[str, ...]
    value: str
    others: str
    why: str

    @property
    def words(self) -> str:
        """One line without the nodes' names."""
        if not self.others:
            return f"{self.item}: {self.value}"
        return f"{self.item} is {self.value}, {self.others}"


@dataclass(frozen=True)
class ItemDifference:
    """An item that is not the same everywhere: a row of the table.

    `values` has every node's text; `odd` are those that stand out; `usual` is what the majority
    has, or what the inventory asks for, None in a tie.
    """

    item: str
    severity: str
    values: Mapping[str, str]
    odd: tuple[str, ...]
    usual: str | None


@dataclass(frozen=True)
class NodeComparison:
    """What was found: rows for the table, findings for everything else."""

    differences: tuple[ItemDifference, ...] = ()
    findings: tuple[Finding, ...] = field(default=())


def compare_nodes(
    envs: Mapping[str, Mapping[str, Any]], expected: Mapping[str, Mapping[str, Any]] | None = None
) -> NodeComparison:
    """Compare the nodes (name to env.json) with what the inventory says of each, and together."""
    differences: list[ItemDifference] = []
    findings: list[Finding] = []
    table = {host: {item.name: item for item in items_of(env)} for host, env in envs.items()}
    names = list(dict.fromkeys(name for row in table.values() for name in row))
    for name in names:
        there = {host: row.get(name) for host, row in table.items()}
        for observed in (
            _inventory(name, there, expected or {}),
            _never(name, there),
            _alike(name, there),
        ):
            if observed is not None:
                differences.append(observed[0])
                findings += observed[1]
                break
    for threshold in (_swapped(envs), _time(envs), _disk(envs), _starved(envs, expected or {})):
        if threshold is not None:
            differences.append(threshold[0])
            findings += threshold[1]
    order = [SPOILS, NOTE]
    differences.sort(key=lambda row: order.index(row.severity))
    findings.sort(key=lambda finding: order.index(finding.severity))
    return NodeComparison(tuple(differences), tuple(findings))


ItemFindings = tuple[ItemDifference, list[Finding]] | None


def _alike(name: str, there: Mapping[str, Item | None]) -> ItemFindings:
    """Compare the item among the nodes."""
    rule = next(item.rule for item in there.values() if item is not None)
    keys = _keys(there, rule)
    texts = _texts(there)
    groups: dict[Any, list[str]] = {}
    for host, key in keys.items():
        groups.setdefault(key, []).append(host)
    mixed = [host for host, item in there.items() if item is not None and item.mixed]
    if len(groups) == 1 and not mixed:
        return None
    usual = majority(groups)
    if usual is None:
        odd = [host for hosts in groups.values() for host in hosts]
    else:
        odd = [host for key, hosts in groups.items() if key != usual for host in hosts]
    findings = []
    for key, hosts in groups.items():
        if key == usual:
            continue
        usual_elsewhere = f"the others' {texts[groups[usual][0]]}" if usual is not None else ""
        if usual is None:
            other_groups = {
                texts[group[0]]: group for group_key, group in groups.items() if group_key != key
            }
            usual_elsewhere = "; ".join(
                f"{short(hosts)} {text}" for text, hosts in other_groups.items()
            )
        findings.append(
            Finding(name, rule.severity, tuple(hosts), texts[hosts[0]], usual_elsewhere, rule.why)
        )
    for host in mixed:
        if host not in odd:
            odd.append(host)
            findings.append(Finding(name, rule.severity, (host,), texts[host], MIXED, rule.why))
    usual_text = None if usual is None else texts[groups[usual][0]]
    return ItemDifference(name, rule.severity, texts, tuple(odd), usual_text), findings


def majority(groups: Mapping[Any, Sequence[str]]) -> Any | None:
    """Return the key that more nodes share than any other does, None in a tie."""
    sizes = sorted((len(hosts) for hosts in groups.values()), reverse=True)
    if len(sizes) > 1 and sizes[0] == sizes[1]:
        return None
    return max(groups, key=lambda key: len(groups[key]))


def _keys(there: Mapping[str, Item | None], rule: ItemRule) -> dict[str, Any]:
    """Return what is equal for equal nodes. A number near the nodes' median is the median."""
    numbers = [item.number for item in there.values() if item and item.number is not None]
    middle = statistics.median(numbers) if numbers else 0.0
    keys: dict[str, Any] = {}
    for host, item in there.items():
        if item is None or item.value is None:
            keys[host] = ABSENT
        elif item.parts is not None:
            keys[host] = tuple(sorted(item.parts.items()))
        elif rule.near and item.number is not None:
            close = abs(item.number - middle) <= rule.near * middle
            keys[host] = "near the median" if close else item.value
        else:
            keys[host] = item.value
    return keys


def _texts(there: Mapping[str, Item | None]) -> dict[str, str]:
    """Return what each node's cell says; of an item with parts, those that differ."""
    parts = {host: item.parts for host, item in there.items() if item and item.parts is not None}
    if not parts:
        return {host: item.value or ABSENT if item else ABSENT for host, item in there.items()}
    names = sorted({name for node_parts in parts.values() for name in node_parts})
    differ = [
        name for name in names if len({node_parts.get(name) for node_parts in parts.values()}) > 1
    ]
    texts = {}
    for host in there:
        if host not in parts:
            texts[host] = ABSENT
            continue
        part_texts = [f"{name} {_brief(parts[host].get(name))}" for name in differ]
        texts[host] = listing(part_texts, PARTS_SHOWN) or "there"
    return texts


def _brief(value: str | None) -> str:
    """Return a part's value; of a checksum or commit its first 12 digits."""
    if value is None:
        return ABSENT
    return value[:12] if re.fullmatch(r"[0-9a-f]{40,}", value) else value


def _inventory(
    name: str,
    there: Mapping[str, Item | None],
    expected: Mapping[str, Mapping[str, Any]],
) -> ItemFindings:
    """Compare the count of devices with the inventory's: fewer cannot run its cells."""
    kinds = {"GPU count": "cuda", "NPU count": "npu"}
    if name not in kinds:
        return None
    rule = next(item.rule for item in there.values() if item is not None)
    texts = _texts(there)
    short_of: dict[str, int] = {}
    for host, item in there.items():
        expectation = expected.get(host, {})
        if expectation.get("device") == kinds[name] and expectation.get("devices") is not None:
            count = int(item.value) if item is not None and item.value else 0
            if count < int(expectation["devices"]):
                short_of[host] = int(expectation["devices"])
    if not short_of:
        return None
    findings = [
        Finding(
            name,
            rule.severity,
            (host,),
            "0" if texts[host] == ABSENT else texts[host],
            f"the inventory's cluster_devices_per_node {count}",
            rule.why,
        )
        for host, count in short_of.items()
    ]
    usual = f"{next(iter(short_of.values()))} (inventory)"
    return ItemDifference(name, rule.severity, texts, tuple(short_of), usual), findings


def _never(name: str, there: Mapping[str, Item | None]) -> ItemFindings:
    """Find a value that is wrong wherever it stands, on one node or on all."""
    rule = next(item.rule for item in there.values() if item is not None)
    if not rule.never:
        return None
    texts = _texts(there)
    groups: dict[str, list[str]] = {}
    for host, item in there.items():
        if item is not None and item.value and re.search(rule.never, item.value):
            groups.setdefault(item.value, []).append(host)
    if not groups:
        return None
    findings = [
        Finding(name, rule.severity, tuple(hosts), value, "", rule.why)
        for value, hosts in groups.items()
    ]
    odd = tuple(host for hosts in groups.values() for host in hosts)
    healthy = {text for host, text in texts.items() if host not in odd}
    usual = healthy.pop() if len(healthy) == 1 else None
    return ItemDifference(name, rule.severity, texts, odd, usual), findings


def _swapped(envs: Mapping[str, Mapping[str, Any]]) -> ItemFindings:
    """Find nodes that call themselves by the name of another node of the inventory."""
    texts = {host: str(env.get("hostname") or ABSENT) for host, env in envs.items()}
    odd = tuple(host for host, hostname in texts.items() if hostname != host and hostname in envs)
    if not odd:
        return None
    why = "results of one node are shown under another's name: its address belongs to another host"
    findings = [
        Finding("host name", SPOILS, (h,), texts[h], f"in the inventory {h}", why) for h in odd
    ]
    return ItemDifference("host name", SPOILS, texts, odd, "the inventory's"), findings


def _time(envs: Mapping[str, Mapping[str, Any]]) -> ItemFindings:
    """Compare clocks with the control node's or, of three and more nodes, with their median."""
    clocks = {
        host: (float(env["time"]["offset_s"]), float(env["time"].get("error_s") or 0.0))
        for host, env in envs.items()
        if (env.get("time") or {}).get("offset_s") is not None
    }
    if not clocks:
        return None
    offsets = [offset for offset, _ in clocks.values()]
    middle = statistics.median(offsets) if len(offsets) > 2 else 0.0
    against = "the nodes' median" if len(offsets) > 2 else "the control node's clock"
    texts = dict.fromkeys(envs, ABSENT)
    findings = []
    worst = NOTE
    for host, (offset, error) in clocks.items():
        texts[host] = f"{offset - middle:+.2f} s ±{error:.2f}"
        apart = abs(offset - middle) - error  # what it is off at the least
        if apart > TIME_NOTE_S:
            severity = SPOILS if apart > TIME_SPOILS_S else NOTE
            worst = SPOILS if severity == SPOILS else worst
            why = "logs of several nodes are laid side by side by their times"
            findings.append(
                Finding("time offset", severity, (host,), texts[host], f"against {against}", why)
            )
    if not findings:
        return None
    odd = tuple(host for finding in findings for host in finding.nodes)
    return ItemDifference("time offset", worst, texts, odd, "±0.1 s"), findings


def _disk(envs: Mapping[str, Mapping[str, Any]]) -> ItemFindings:
    """Judge the free space at cluster_root."""
    texts = dict.fromkeys(envs, ABSENT)
    findings = []
    worst = NOTE
    for host, env in envs.items():
        free = (env.get("disk") or {}).get("free_mib")
        if free is None:
            continue
        texts[host] = f"{free / 1024:.1f} GiB"
        if free < DISK_NOTE_MIB:
            severity = SPOILS if free < DISK_SPOILS_MIB else NOTE
            worst = SPOILS if severity == SPOILS else worst
            least = DISK_SPOILS_MIB if severity == SPOILS else DISK_NOTE_MIB
            findings.append(
                Finding(
                    "free disk",
                    severity,
                    (host,),
                    texts[host],
                    f"less than {least // 1024} GiB at {env['disk'].get('path')}",
                    "a run whose disk fills up fails",
                )
            )
    if not findings:
        return None
    odd = tuple(host for finding in findings for host in finding.nodes)
    return ItemDifference(
        "free disk", worst, texts, odd, f"≥ {DISK_NOTE_MIB // 1024} GiB"
    ), findings


def _starved(
    envs: Mapping[str, Mapping[str, Any]], expected: Mapping[str, Mapping[str, Any]]
) -> ItemFindings:
    """Compare the CPUs that a job may use with the node's devices: each one's process needs one.

    Two H100 whose job had one CPU trained 35 to 50 % slower (docs/results/accept-on-h200.md).
    """
    texts = dict.fromkeys(envs, ABSENT)
    findings = []
    for host, env in envs.items():
        cpu, inventory = env.get("cpu") or {}, expected.get(host, {})
        devices = inventory.get("devices")
        if cpu.get("usable") is None or not devices or inventory.get("device") in (None, "cpu"):
            continue
        limits = [cpu["usable"]]
        if cpu.get("quota_percent") is not None:
            limits.append(cpu["quota_percent"] / 100)
        texts[host] = f"{min(limits):g} for {devices} devices"
        if min(limits) < int(devices):
            why = "a device waits for the process that feeds it"
            findings.append(
                Finding(STARVED, SPOILS, (host,), texts[host], "at least one per device", why)
            )
    if not findings:
        return None
    odd = tuple(host for finding in findings for host in finding.nodes)
    return ItemDifference(STARVED, SPOILS, texts, odd, "≥ 1 per device"), findings


def short(hosts: Sequence[str], most: int = 6) -> str:
    """Write node names in few words: runs of numbers as a range, and no more than `most` words.

    >>> short(["node1", "node2", "node3", "node7"])
    'node1-3, node7'
    """
    names: list[str] = []
    run: list[str] = []

    def end() -> None:
        if len(run) > 2:
            suffix = re.search(r"\d+$", run[-1])
            names.append(f"{run[0]}-{suffix[0] if suffix else ''}")
        else:
            names.extend(run)
        run.clear()

    for host in hosts:
        if run and not _follows(run[-1], host):
            end()
        run.append(host)
    end()
    return listing(names, most)


def _follows(before: str, host: str) -> bool:
    """Return whether two names differ in a number at their end alone, and the second's is
    the next.
    """
    earlier, later = (re.fullmatch(r"(.*?)(\d+)", name) for name in (before, host))
    return bool(
        earlier
        and later
        and earlier[1] == later[1]
        and len(earlier[2]) <= len(later[2])
        and int(later[2]) == int(earlier[2]) + 1
    )
