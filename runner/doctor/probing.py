"""The probe as a run on all nodes: which torch, what each node starts. Pure but for two functions.

It goes the way of any run of bench: run.json, the engine, the supervisor's lease and time limit.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from node.causes import Cause
from node.supervisor.placeholders import MASTER_PORT, NODE_SWITCH
from runner import __version__
from runner.base.paths import BASE_PATH, PROJECT, system_home
from runner.base.suggested_commands import played
from runner.base.text import tail
from runner.doctor import probe_output
from runner.doctor.effort import DOCTORS, Effort
from runner.doctor.judgement import Judgement, judge_probe
from runner.doctor.probe_tests import DEVICE_TESTS
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.checkup import Checkup
from runner.folder.endings import first_bad, incomplete
from runner.folder.stored import write_json
from runner.launch.engine import Engine
from runner.launch.interrupts import Interrupts
from runner.launch.launcher import carry_out, on_a_free_port
from runner.plan.make import port_of, run_folders
from runner.results import stall
from runner.results.decide import last_words
from runner.results.judge import stood
from runner.terms.cluster import Cluster, Node
from runner.terms.orders import Limits, NodeRun, Orders

PROGRAMS = tuple(PROJECT / "node" / name for name in ("probe.py", "probe_deep.py", "nccl_tests.py"))
LOG_BYTES = 1 << 24  # of a probe's log that are read


def torch_of(envs: Mapping[str, Mapping[str, Any]], inventory: object) -> tuple[str, str]:
    """Find the pin (`torch_gpt/torch-2.13`) with torch on every node, or say why none has it.

    torch_gpt's come first, its newest torch before its others; of other systems any will do.
    """
    if not envs:
        return "", "no node could be asked"
    have = {
        host: {
            name: pin["torch"] for name, pin in (env.get("systems") or {}).items() if pin["torch"]
        }
        for host, env in envs.items()
    }
    cure = played("software", inventory)
    lacking = [host for host, pins in have.items() if not pins]
    if lacking:
        return "", (
            f"torch is in no environment of {', '.join(lacking[:4])};"
            f" {cure} installs the inventory's cluster_systems"
        )
    shared = set.intersection(*(set(pins) for pins in have.values()))
    if not shared:
        return "", f"no system with torch is on every node; run {cure}"
    versions = next(iter(have.values()))

    def rank(name: str) -> tuple[bool, list[int], str]:
        numbers_text = versions[name].split("+")[0].split(".")
        numbers = [int(word[:9]) for word in numbers_text if word.isdecimal()]
        return name.startswith("torch_gpt/"), numbers, name

    return max(shared, key=rank), ""


def plan(
    cluster: Cluster,
    nodes: Sequence[Node],
    pin: str,
    checks: Sequence[str],
    *,
    number: int,
    port_try: int = 0,
    folder: PurePosixPath | None = None,
    effort: Effort = DOCTORS,
) -> Orders:
    """Order one process of the probe's a node, which starts one for each device.

    `folder`: see `make_run`.
    """
    run_id = f"doctor-{cluster.name}/{number}"
    port = port_of(run_id, port_try)
    # A cluster whose nodes have other numbers of devices is measured with the fewest.
    processes = min(node.devices for node in nodes)
    system, pin_name = pin.split("/", 1)
    sources = {path.name: path.read_text(encoding="utf-8") for path in PROGRAMS}
    runs = []
    folders = run_folders(cluster, nodes, run_id, folder)
    for rank, (node, run_dir) in enumerate(zip(nodes, folders, strict=True)):
        home = system_home(node.root, system, pin_name)
        spec = {
            "hosts": [node.host for node in nodes],
            "node": rank,
            "processes": processes,
            "switch": NODE_SWITCH if cluster.engine.in_jobs else node.switch,
            "address": nodes[0].address,
            "port": MASTER_PORT if cluster.engine.in_jobs else port,
            "device": cluster.device,
            "seconds": effort.seconds,
            "tries": effort.tries,
            "rounds": effort.rounds,
            "small": effort.small,
            "patience": effort.patience_s,
            "product_seconds": effort.product_s,
            "storage_mib": effort.storage_mib,
            "checks": list(checks),
            "tests": [test for test in DEVICE_TESTS[cluster.device] if test not in effort.left_out],
        }
        env = {"PATH": f"{home}/env/bin:{BASE_PATH}", "PYTHONUNBUFFERED": "1"}
        env |= {"PYTHONFAULTHANDLER": "1", **cluster.env}
        runs.append(
            NodeRun(
                host=node.host,
                node_rank=rank,
                argv=(f"{home}/env/bin/python3", f"{run_dir}/probe.py", json.dumps(spec)),
                env=env,
                cwd=str(home),
                files=sources,
                requires={},
                ports=(port,) if rank == 0 else (),
                device=cluster.device,
                device_ids=tuple(range(processes)),
                runs=str(node.root / "runs"),
                dir=str(run_dir),
            )
        )
    limits = Limits(
        time_limit_s=effort.limit_s(len(nodes)),
        stall_limit_s=effort.stall_s,
        lost_contact_s=cluster.lost_contact_s,
    )
    return Orders(run_id, limits, tuple(runs))


@dataclass(frozen=True)
class Probed:
    """A probe that has ended: its folder, the engine's words, and the first cause."""

    attempt: RunFolder
    words: str
    cause: str


def carried_out(
    checkup: Checkup, engine: Engine, interrupts: Interrupts, orders: Callable[..., Orders]
) -> Probed:
    """Carry out a measurement, on another port where one is in use.

    `orders` takes its number, folder and try of a port.
    """

    def probe(port_try: int) -> Probed:
        attempt = checkup.new_probe()
        folder = PurePosixPath(attempt.path.resolve())
        ordered = orders(number=attempt.number, port_try=port_try, folder=folder)
        write_json(attempt.path / names.RUN, {"trainbench": __version__, **ordered.to_json()})
        message = carry_out(engine, checkup, attempt, ordered, interrupts)
        halt = attempt.halt
        return Probed(attempt, message, halt.cause if halt else "")

    return on_a_free_port(probe, interrupts)


def launch(
    checkup: Checkup,
    cluster: Cluster,
    nodes: Sequence[Node],
    pin: str,
    checks: Sequence[str],
    engine: Engine,
    interrupts: Interrupts,
    effort: Effort = DOCTORS,
) -> Judgement:
    """Run the probe on the nodes, and judge what it said."""
    began = time.monotonic()
    orders = partial(plan, cluster, nodes, pin, checks, effort=effort)
    probed = carried_out(checkup, engine, interrupts, orders)
    attempt = probed.attempt
    hosts = list(attempt.hosts.values())  # those of the job, where one gives them
    objects = [
        line
        for rank, path in attempt.logs().items()
        for line in probe_output.of_node(probe_output.lines(tail(path, LOG_BYTES)), rank)
    ]
    judged = judge_probe(
        objects,
        hosts,
        device=cluster.device,
        devices_per_node=min(node.devices for node in nodes),
        checks=checks,
        torch=pin,
        took_s=time.monotonic() - began,
        failed=failed(attempt, objects, hosts, probed.words),
        held_up=held_up(attempt, probed.cause),
        small=effort.small,
        left_out=effort.left_out,
    )
    return replace(judged, cause=probed.cause)


def held_up(attempt: RunFolder, cause: str) -> tuple[str, ...]:
    """Name the hosts that ended a run for all: lost, refused, or what the others waited for."""
    if not cause:
        return ()
    if cause == Cause.STALLED:
        return tuple(dict.fromkeys(rank.host for rank in stall.holding(stood(attempt))))
    host = attempt.halt.host if attempt.halt else None
    return (host,) if host else ()


def failed(
    attempt: RunFolder, objects: Sequence[Mapping[str, Any]], hosts: Sequence[str], message: str
) -> str:
    """Say why the probe did not end well, or nothing: its own error first, else the launch's."""
    for record in objects:
        if (
            "error" in record
            and "test" not in record
            and record.get("node", len(hosts)) < len(hosts)
        ):
            return f"{hosts[record['node']]}: {record['error']}"
    halt = attempt.halt
    if halt is not None:
        ranks = {host: rank for rank, host in attempt.hosts.items()}
        host = str(halt.host)
        printed = last_words(tail(attempt.log(ranks[host]))) if host in ranks else ""
        return f"{halt.message}{': ' + printed if halt.cause == Cause.EXIT and printed else ''}"
    endings = attempt.endings()
    if (bad := first_bad(endings)) is not None:
        return f"{bad}: {endings[bad].words}"
    if len(endings) < len(hosts):
        return message or "a node gave no answer"
    return incomplete(endings)
