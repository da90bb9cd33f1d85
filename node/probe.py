"""Measure devices and the network between them, in torch. One process a device, on every node.

    python3 probe.py '{"hosts": ["node1", "node2"], "node": 0, "processes": 8,
                       "address": "10.0.0.1", "port": 20000, "device": "cuda", "seconds": 1.0,
                       "checks": ["devices", "network"], "tests": ["matmul_bf16", "memory"]}'

`python -m runner doctor` starts this on all nodes at once, through roles/launch. It starts one
process for each device and ends with exit code 0 if all of them did. Each measurement is printed
when it is there, as one line `TRAINBENCH_DOCTOR {json}`:

    {"step": "matrix product bf16"}                               what is measured now (rank 0)
    {"test": "matmul_fp32", "rank": 3, "node": 0, "try": 1, "samples": [..]}         TFLOP/s
    {"test": "matmul_bf16", ...} {"test": "memory", ...}                              GB/s
    {"test": "all_reduce", "scope": "node", "nodes": [0], "samples": [..], "bytes": n}   GB/s
    {"test": "all_reduce", "scope": "all", "nodes": [0, 1, ...], ...}
    {"test": "all_reduce", "scope": "pair", "nodes": [0, 1], "try": 1, ...}  others talk, too
    {"test": "all_reduce", "scope": "pair", "nodes": [0, 1], "try": 2, ...}  nobody else talks
    {"test": "all_reduce", "scope": "pair_small", ...}   1 KiB between two nodes, a second
    {"test": "all_reduce", "scope": "pair_delivered", ...}   % of TCP's segments not sent again
    {"test": "memory", "node": 0, "local": 3, "try": 1, "busy": 0.4}     other work had its cores
    {"error": "..."}

`checks` may also name functions of probe_deep.py, beside this file on a node: what
`accept` asks for. `tries` is how often what seems slow is measured (2), `rounds` how many rounds of
pairs there are (0: every pair once).

Bus bandwidth is that of nccl-tests (doc/PERFORMANCE.md there): bytes / time x 2 (n - 1) / n for n
processes, which does not depend on n where links are alike. Memory bandwidth is that of a copy,
read and written bytes together (STREAM). fp32 products are without TF32, tf32 ones with it.

Each figure is a list of samples over about `seconds`. A device or pair that seems slow is measured
again: devices all together, a pair alone and beside it one that is not slow. Runs with torch 1.10
and newer; the pure functions need no torch.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SAMPLES = 8  # a measurement
SUSPECT = 0.05  # this much below the reference is measured once more
LOST = 0.005  # the same of packets
ALONE = 3  # pairs that are measured alone, at most, and as many to compare with
TIMEOUT_S = 90.0
MIB = 1 << 20
BUSY, IDLE = 0.1, 0.05  # shares: of its time that a thread waits for a core; of the cores' time
OTHERS = 0.5  # cores that other work has
SMALL, MESSAGES = 1024, 25  # bytes of a small message, and how many make a sample


# --- pure -------------------------------------------------------------------------------------


def rounds(nodes: int) -> list[list[tuple[int, int]]]:
    """Every pair once, in rounds of disjoint pairs (a round-robin tournament, circle method).

    n - 1 rounds for an even n; n for an odd one, where one node rests in each.
    """
    players = list(range(nodes + nodes % 2))  # of an odd number, the last one is nobody
    half = len(players) // 2
    every = []
    for _ in range(len(players) - 1):
        pairs = [(players[index], players[-1 - index]) for index in range(half)]
        every.append(sorted((min(pair), max(pair)) for pair in pairs if max(pair) < nodes))
        players = [players[0], players[-1], *players[1:-1]]
    return [pairs_of_round for pairs_of_round in every if pairs_of_round]


def median(values: Sequence[float]) -> float:
    """The middle of the values."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def reference(values: Sequence[float]) -> float:
    """What a healthy one reaches: the upper quartile.

    Something slow makes others slow and never fast, and one slow node is in half of the pairs of
    four and in two thirds of those of three: the median would be one of its own.
    """
    ordered = sorted(values)
    return ordered[math.ceil(0.75 * (len(ordered) - 1))]


def suspects(
    values: dict[Any, float], most: int, below: float = SUSPECT
) -> tuple[list[Any], list[Any]]:
    """The slowest that are below the reference, and as many that are not, the middle ones first."""
    if len(values) < 2:
        return [], []
    usual = reference(list(values.values()))
    slow = sorted((k for k in values if values[k] < usual * (1 - below)), key=lambda k: values[k])
    healthy = sorted((k for k in values if k not in slow), key=lambda k: abs(values[k] - usual))
    return slow[:most], healthy[: min(most, len(slow))]


def segments(text: str) -> tuple[int, int]:
    """TCP segments that a node sent, and how many of them again: /proc/net/snmp."""
    lines = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    names, values = lines if len(lines) == 2 else ([], [])
    counts = {name: values[at] for at, name in enumerate(names) if at < len(values)}
    return int(counts.get("OutSegs", 0)), int(counts.get("RetransSegs", 0))


def bus_bandwidth(size: int, seconds: float, processes: int) -> float:
    """GB/s of an all-reduce of `size` bytes: nccl-tests' busbw, algbw x 2 (n - 1) / n."""
    return size / seconds * 2 * (processes - 1) / processes / 1e9


def say(**facts: Any) -> None:
    """One line; one write, so that the lines of several processes do not mix."""
    line = "TRAINBENCH_DOCTOR " + json.dumps(facts) + "\n"
    os.write(1, line.encode())


def tcp_segments() -> tuple[int, int]:
    """`segments` of this node now."""
    try:
        with open("/proc/net/snmp", encoding="utf-8") as stream:
            return segments(stream.read())
    except OSError:
        return 0, 0


def load() -> tuple[dict[str, tuple[int, int]], list[int]]:
    """Ns that each thread of this process ran and waited for a core, and what its cores did: ticks
    of work and of idleness. Empty where the kernel does not say.
    """
    threads, cores = {}, [0, 0]
    with contextlib.suppress(OSError, ValueError):
        usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        with open("/proc/stat", encoding="ascii") as stream:
            for name, user, nice, system, idle, iowait, *_ in map(str.split, stream):
                if name in usable:
                    cores[0] += int(user) + int(nice) + int(system)
                    cores[1] += int(idle) + int(iowait)
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as stream:
                ran, waited, _ = map(int, stream.read().split())
            threads[thread] = (ran, waited)
    return threads, cores


def busy(before: Any, after: Any, seconds: float, processes: int, ticks: float = 100) -> float:
    """The share of its time that a thread waited for a core which other work than these processes
    had; 0 where cores were idle (a quota made it wait) or no others' work was there.
    """
    (began, cores), (ended, cores_then) = before, after
    worked, idle = ((cores_then[at] - cores[at]) / ticks for at in (0, 1))
    spent = [
        (ran - began.get(name, (0, 0))[0], waited - began.get(name, (0, 0))[1])
        for name, (ran, waited) in ended.items()
    ]
    others = worked - processes * sum(ran for ran, _ in spent) / 1e9
    if idle > IDLE * (worked + idle) or others < OTHERS * seconds:
        return 0.0
    shares: list[float] = [
        waited / (ran + waited) for ran, waited in spent if ran + waited > 0.2e9 * seconds
    ]
    return max(shares, default=0.0)


# --- one process a device ---------------------------------------------------------------------


class Process:
    """This process among all: its device, its group, and a store to agree through."""

    def __init__(self, spec: dict[str, Any], local: int) -> None:
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        self.spec, self.local = spec, local
        self.node, self.per_node = spec["node"], spec["processes"]
        self.nodes = len(spec["hosts"])
        self.rank, self.size = self.node * self.per_node + local, self.nodes * self.per_node
        self.kind = spec["device"]
        self.seconds = float(spec["seconds"])
        self.device = self.own_device()
        self.patience = datetime.timedelta(seconds=float(spec.get("patience", TIMEOUT_S)))
        patience = self.patience
        self.store = dist.TCPStore(
            spec["address"], int(spec["port"]), self.size, self.rank == 0, timeout=patience
        )
        backend = {"cuda": "nccl", "npu": "hccl"}.get(self.kind, "gloo")
        dist.init_process_group(
            backend,
            store=dist.PrefixStore("group", self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=patience,
        )

    def own_device(self) -> Any:
        """The device of this process; an error where there are fewer than the inventory says."""
        torch = self.torch
        if self.kind == "cpu":
            return torch.device("cpu")
        if self.kind == "npu":
            importlib.import_module("torch_npu")  # it adds torch.npu
        there = getattr(torch, self.kind).device_count()
        if there < self.per_node:
            raise RuntimeError(
                f"torch {torch.__version__} sees {there} {self.kind} devices where the inventory's"
                f" cluster_devices_per_node is {self.per_node}"
            )
        getattr(torch, self.kind).set_device(self.local)
        return torch.device(self.kind, self.local)

    def wait(self) -> None:
        """Until the device has done what it was given."""
        if self.kind != "cpu":
            getattr(self.torch, self.kind).synchronize()

    def meet(self, name: str) -> None:
        """Until all processes are here."""
        if self.store.add(f"{name}/here", 1) == self.size:
            self.store.set(f"{name}/go", "1")
        self.store.wait([f"{name}/go"])

    def finish(self) -> None:
        """Leave when all are done; rank 0 last, for the store ends with it."""
        self.meet("end")
        if self.rank:
            self.store.add("gone", 1)
            return
        until = time.monotonic() + 10
        while self.store.add("gone", 0) < self.size - 1 and time.monotonic() < until:
            time.sleep(0.01)

    def agree(self, name: str, value: Any, decides: bool) -> Any:
        """The value of the process that is `decides`, for those that ask by the same name."""
        if decides:
            self.store.set(name, json.dumps(value))
            return value
        return json.loads(self.store.get(name).decode())

    def begin(self, title: str) -> None:
        """Say what comes now, and start it together."""
        if self.rank == 0:
            say(step=title)
        self.meet(f"begin {title}")

    @contextlib.contextmanager
    def watched(self, **labels: Any) -> Iterator[None]:
        """Say of what is measured now that other work had the cores of this process, if so."""
        before, began = load(), time.perf_counter()
        yield
        seconds, ticks = time.perf_counter() - began, os.sysconf("SC_CLK_TCK")
        share = busy(before, load(), seconds, self.per_node, ticks)
        if share > BUSY:
            say(busy=round(share, 3), node=self.node, **labels)

    def samples(self, work: Callable[[], Any]) -> list[float]:
        """Seconds that one piece of work took, SAMPLES times over about `seconds`."""
        work()
        self.wait()
        times, seconds = 1, self.timed(work, 1)
        while seconds < self.seconds / SAMPLES / 2:  # a pause must not make samples too short
            times *= 2
            seconds = self.timed(work, times)
        times = max(1, round(self.seconds / SAMPLES / seconds * times))
        samples: list[float] = []
        until = time.perf_counter() + 3 * self.seconds
        while len(samples) < SAMPLES and (time.perf_counter() < until or not samples):
            samples.append(self.timed(work, times) / times)
        return samples

    def timed(self, work: Callable[[], Any], times: int) -> float:
        """Seconds that a piece of work takes so many times over."""
        began = time.perf_counter()
        for _ in range(times):
            work()
        self.wait()
        return time.perf_counter() - began

    # -- devices -------------------------------------------------------------------------------

    def devices(self) -> None:
        """Matrix products and copies, on all devices at once, as in training."""
        for test in self.spec["tests"]:
            arithmetic = test.replace("matmul_", "")
            product = arithmetic != test
            title = f"matrix product {arithmetic}" if product else "memory bandwidth"
            best = 0.0
            for number in range(1, self.spec.get("tries", 2) + 1):
                if number > 1 and not self.again(test, number - 1):
                    break
                self.begin(title + (" again" if number == 2 else f", try {number}" * (number > 2)))
                try:
                    with self.watched(test=test, local=self.local, **{"try": number}):
                        samples = self.matmul(arithmetic) if product else self.memory()
                except RuntimeError as error:  # such as a type that the device does not have
                    lines = str(error).strip().splitlines()
                    say(test=test, rank=self.rank, node=self.node, error=lines[0] if lines else "")
                    samples = []
                if samples:
                    labels = {"rank": self.rank, "node": self.node, "local": self.local}
                    say(test=test, **labels, **{"try": number}, samples=samples)
                best = max(best, median(samples) if samples else 0.0)
                self.store.set(f"{test}/{number}/{self.rank}", json.dumps(best))

    def again(self, test: str, number: int) -> bool:
        """Whether any device seems slow after so many tries: rank 0 looks, and tells the others."""
        name = f"{test}/again/{number}"
        if self.rank == 0:
            keys = [f"{test}/{number}/{rank}" for rank in range(self.size)]
            self.store.wait(keys)
            values = {key: json.loads(self.store.get(key).decode()) for key in keys}
            self.store.set(name, json.dumps(bool(suspects(values, 1)[0])))
        return bool(json.loads(self.store.get(name).decode()))

    def matmul(self, arithmetic: str) -> list[float]:
        """TFLOP/s of a square product."""
        half = {"bf16": self.torch.bfloat16, "fp16": self.torch.float16}
        dtype = half.get(arithmetic, self.torch.float32)
        self.torch.backends.cuda.matmul.allow_tf32 = arithmetic == "tf32"
        n = 8192
        if self.kind == "cpu":
            n = 1024 if dtype == self.torch.float32 else 512
        work = self.product(n, dtype)
        if n == 512 and self.timed(work, 1) > self.seconds / SAMPLES:  # without units for halves
            n = 256
            work = self.product(n, dtype)
        times = self.samples(work)
        return [round(2 * n**3 / seconds / 1e12, 4) for seconds in times]

    def product(self, n: int, dtype: Any) -> Callable[[], Any]:
        """What multiplies two n x n matrices of that type."""
        factor, other_factor = (
            self.torch.randn(n, n, device=self.device).to(dtype) for _ in range(2)
        )
        out = self.torch.empty(n, n, device=self.device, dtype=dtype)
        return lambda: self.torch.mm(factor, other_factor, out=out)

    def memory(self) -> list[float]:
        """GB/s of a copy that no cache holds: bytes read and written."""
        size = (128 if self.kind == "cpu" else 2048) * MIB
        source = self.torch.zeros(size // 4, device=self.device)
        target = self.torch.ones_like(source)
        times = self.samples(lambda: target.copy_(source))
        return [round(2 * size / seconds / 1e9, 3) for seconds in times]

    # -- network -------------------------------------------------------------------------------

    def network(self) -> None:
        """All-reduces within each node, between all nodes, and of every pair of nodes."""
        ranks = {
            node: list(range(node * self.per_node, (node + 1) * self.per_node))
            for node in range(self.nodes)
        }
        if self.per_node > 1:
            self.begin("all-reduce within each node")
            groups = {node: self.group(ranks[node]) for node in range(self.nodes)}
            size = self.fitting(groups[self.node], "within")
            self.all_reduce(groups[self.node], [self.node], "node", size, "within")
            for group in groups.values():
                self.leave(group)
        if self.nodes == 1:
            return
        self.begin("all-reduce between all nodes")
        everyone = list(range(self.nodes))
        size = self.fitting(None, "all")
        self.all_reduce(None, everyone, "all", size, "all")
        if self.nodes == 2:  # all nodes are one pair
            return
        tournament = rounds(self.nodes)
        tournament = tournament[: self.spec.get("rounds") or len(tournament)]
        for number, pairs in enumerate(tournament, start=1):
            title = f"all-reduce of pairs, round {number} of {len(tournament)}"
            self.pairs(title, pairs, ranks, size, 1)
        for a, b in self.chosen([pair for pairs in tournament for pair in pairs]):
            title = f"all-reduce of {self.spec['hosts'][a]} and {self.spec['hosts'][b]} alone"
            self.pairs(title, [(a, b)], ranks, size, 2)

    def pairs(
        self,
        title: str,
        pairs: list[tuple[int, int]],
        ranks: dict[int, list[int]],
        size: int,
        number: int,
    ) -> None:
        """All-reduces of pairs of nodes at once, each between all devices of its two nodes."""
        # All groups first: making one takes every process, also those that would measure by then.
        groups = {pair: self.group(ranks[pair[0]] + ranks[pair[1]]) for pair in pairs}
        self.begin(title)
        for pair, group in groups.items():
            if self.node in pair:
                label = f"pair/{pair[0]}/{pair[1]}/{number}"
                before = tcp_segments()
                self.all_reduce(group, list(pair), "pair", size, label, number)
                if self.spec.get("small"):
                    self.small(group, list(pair), number, f"{label}/small")
                    self.delivered(list(pair), number, label, before)
        self.meet(f"end {title}")
        for group in groups.values():
            self.leave(group)

    def small(self, group: Any, pair: list[int], number: int, key: str) -> None:
        """Samples of how many small messages a pair exchanges a second: latency, and loss."""
        data = self.torch.ones(SMALL // 4, device=self.device)
        rates = []
        with self.watched(test="all_reduce", scope="pair_small", nodes=pair, **{"try": number}):
            for _ in range(SAMPLES):
                began = time.perf_counter()
                for _ in range(MESSAGES):
                    self.dist.all_reduce(data, group=group)
                self.wait()
                rates.append(round(MESSAGES / (time.perf_counter() - began), 2))
                data.fill_(1)
        if self.dist.get_rank(group) == 0:
            say(test="all_reduce", scope="pair_small", nodes=pair, samples=rates, **{"try": number})
            self.store.set(key, json.dumps(median(rates)))

    def delivered(self, pair: list[int], number: int, label: str, before: tuple[int, int]) -> None:
        """The percentage of a pair's TCP segments that did not have to be sent again.

        A node that loses packets is in each pair that has such segments, from any sender. What
        goes past TCP (InfiniBand) is not counted, and nothing of it is lost here.
        """
        if self.local:
            return
        now = tcp_segments()
        out, again = now[0] - before[0], now[1] - before[1]
        if self.node == pair[1]:
            self.store.set(f"{label}/segments", json.dumps([out, again]))
            return
        theirs = json.loads(self.store.get(f"{label}/segments").decode())
        percent = 100 * (1 - (again + theirs[1]) / max(out + theirs[0], 1))
        labels = {"scope": "pair_delivered", "nodes": pair, "try": number}
        say(test="all_reduce", samples=[round(max(percent, 0.01), 3)], **labels)
        self.store.set(f"{label}/delivered", json.dumps(percent))

    def chosen(self, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The pairs that seem slow, and healthy ones to compare with: rank 0 looks."""
        if self.rank == 0:
            picked: dict[tuple[int, int], None] = {}
            every = ["median", "small", "delivered"]
            for quantity in every if self.spec.get("small") else ["median"]:
                keys = {pair: f"pair/{pair[0]}/{pair[1]}/1/{quantity}" for pair in pairs}
                self.store.wait(list(keys.values()))
                values = {p: json.loads(self.store.get(key).decode()) for p, key in keys.items()}
                slow, healthy = suspects(
                    values, ALONE, LOST if quantity == "delivered" else SUSPECT
                )
                picked.update(dict.fromkeys([*slow, *healthy]))
            self.store.set("alone", json.dumps(list(picked)))
        return [(a, b) for a, b in json.loads(self.store.get("alone").decode())]

    def group(self, members: list[int]) -> Any:
        """A process group; every process calls this for every group, in the same order."""
        if len(members) == self.size:
            return None
        return self.dist.new_group(members, timeout=self.patience)

    def leave(self, group: Any) -> None:
        """Give back a group's connections and memory."""
        if group is not None and group != self.dist.GroupMember.NON_GROUP_MEMBER:
            self.dist.destroy_process_group(group)

    def fitting(self, group: Any, name: str) -> int:
        """Bytes whose all-reduce takes about an eighth of `seconds`.

        Rank 0 decides, also for groups that it is not in: all nodes use one size.
        """
        largest = (64 if self.kind == "cpu" else 512) * MIB
        size = MIB
        while True:
            data = self.torch.ones(size // 4, device=self.device)
            self.dist.all_reduce(data, group=group)
            self.wait()
            began = time.perf_counter()
            self.dist.all_reduce(data, group=group)
            self.wait()
            seconds = time.perf_counter() - began
            enough = seconds > self.seconds / SAMPLES / 2 or 2 * size > largest
            if self.agree(f"size/{name}/{size}", enough, self.rank == 0):
                return size
            size *= 2

    def all_reduce(
        self,
        group: Any,
        nodes: list[int],
        scope: str,
        size: int,
        name: str,
        number: int = 1,
    ) -> None:
        """Samples of the bus bandwidth of a group; its first process prints them."""
        processes = self.dist.get_world_size(group)
        prints = self.dist.get_rank(group) == 0
        data = self.torch.ones(size // 4, device=self.device)

        def work() -> None:
            self.dist.all_reduce(data, group=group)

        work()
        self.wait()
        once = max(min(self.timed(work, 1) for _ in range(3)), 1e-6)
        label = name if scope != "node" else f"{name}/{self.node}"
        times = max(1, round(self.seconds / SAMPLES / once))
        times = self.agree(f"times/{label}", times, prints)
        bandwidths = []
        with self.watched(test="all_reduce", scope=scope, nodes=nodes, **{"try": number}):
            for _ in range(SAMPLES):
                seconds = self.timed(work, times) / times
                bandwidths.append(round(bus_bandwidth(size, seconds, processes), 4))
                data.fill_(1)
        if prints:
            labels = {"scope": scope, "nodes": nodes, "bytes": size, "processes": processes}
            say(test="all_reduce", **labels, **{"try": number}, samples=bandwidths)
            self.store.set(f"{label}/median", json.dumps(median(bandwidths)))


def work(spec: dict[str, Any], local: int) -> int:
    """One process: join, measure, leave. The exit code."""
    try:
        process = Process(spec, local)
        checks = spec["checks"]
        if "devices" in checks:
            process.devices()
        if "network" in checks:
            process.network()
        for name in checks:
            if name not in ("devices", "network"):
                getattr(importlib.import_module("probe_deep"), name)(process, say)
        process.finish()
    except Exception as error:  # it is the runner that tells it
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        first_line = lines[0][:500] if lines else ""
        say(error=f"{type(error).__name__}: {first_line}", node=spec["node"], local=local)
        return 1
    return 0


def main() -> int:
    """Start a process for each device, and end all when one fails."""
    spec = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        code = work(spec, int(sys.argv[2]))
        sys.stdout.flush()
        os._exit(code)  # gloo's threads may abort a process that ends in Python's own way
    cores = len(os.sched_getaffinity(0))
    env = dict(os.environ)
    env.setdefault("OMP_NUM_THREADS", str(max(1, cores // spec["processes"])))
    children = [
        subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), sys.argv[1], str(local)],
            env={**env, "RANK": str(spec["node"] * spec["processes"] + local)},
        )
        for local in range(spec["processes"])
    ]

    def end(*_: Any) -> None:
        for child in children:
            child.kill()

    signal.signal(signal.SIGTERM, end)
    running = list(children)
    code = 0
    while running and not code:
        time.sleep(0.02)
        for child in [
            child_process for child_process in running if child_process.poll() is not None
        ]:
            running.remove(child)
            code = code or child.returncode
    for child in running:
        child.kill()
        child.wait()
    return 0 if code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
