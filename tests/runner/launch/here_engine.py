"""A third engine, for tests: the nodes are processes of this machine, each `here_nice`."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from node.causes import Cause, EndedBy
from node.facts.record import read
from node.files import read_json
from node.fingerprint import fingerprints
from node.schema import Whole
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.checkup import Checkup
from runner.folder.lock import HeldFolder
from runner.folder.stored import SCHEMA, write_json
from runner.launch.engine import NO_QUEUE, Stopped, Surveyed, Wanted
from runner.plan import script
from runner.terms import run as runs
from runner.terms.cluster import Cluster
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.inspected import Inspected, Sought
from runner.terms.orders import NodeRun, Orders
from runner.terms.run import Run

PIDS = "pids.json"  # of a run: its processes' groups


@dataclass(frozen=True)
class Here(EngineSettings):
    """What an inventory says of it: one key."""

    name: ClassVar[str] = "here"
    title: ClassVar[str] = "this machine"
    launcher: ClassVar[str] = f"{__name__}:HereEngine"
    prefix: ClassVar[str] = "here_"
    nice: Annotated[int, Whole(0, 19)] = field(
        default=0, metadata={"key": "here_nice", "help": "niceness of processes", "same": True}
    )


class HereEngine:
    """Does what runner.launch.engine's protocols ask, with subprocess alone."""

    at_once = 1

    def __init__(self, cluster: Cluster, runs: Path) -> None:
        assert isinstance(cluster.engine, Here)
        self.cluster, self.runs, self.nice = cluster, runs, cluster.engine.nice

    def claimed(self, wanted: Wanted, campaign: Path, cancelled: Callable[[], bool]) -> Any:
        return nullcontext()

    def gathered(self, folder: Path, cancelled: Callable[[], bool]) -> AbstractContextManager[None]:
        return nullcontext()

    def inspect(
        self, hosts: Sequence[str], asked: Sought, campaign: Campaign, cancelled: object
    ) -> Mapping[str, Inspected]:
        files = {name: read_json(path) for name, path in asked.paths.items()}
        relied = fingerprints(asked.folders, asked.pythons)
        return {host: Inspected(files=files, relied=relied) for host in hosts}

    def argv(self, node: Any) -> list[str]:
        return ["nice", "-n", str(self.nice), *node.argv]

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        with ExitStack() as stack:
            started = [stack.enter_context(self.started(run, node)) for node in orders.nodes]
            write_json(run.path / PIDS, {"pids": [each.pid for each in started]})
            while any(each.poll() is None for each in started):
                if run.halt or cancelled():
                    end(run)
                time.sleep(0.02)
        for node, each in zip(orders.nodes, started, strict=True):
            code, signalled = max(each.returncode, 0), max(-each.returncode, 0)
            done = {"ended_by": EndedBy.EXIT, "rc": code, "signal": signalled or None}
            write_json(run.node(node.node_rank) / names.DONE, done)
        return ""

    def started(self, run: RunFolder, node: NodeRun) -> subprocess.Popen[bytes]:
        home = run.node(node.node_rank)
        home.mkdir(parents=True)
        with run.log(node.node_rank).open("wb") as log:
            where: dict[str, Any] = {"cwd": node.cwd, "env": node.env, "start_new_session": True}
            return subprocess.Popen(self.argv(node), stdout=log, stderr=log, **where)

    def by_hand(self, run: runs.Run) -> tuple[str, str]:
        return names.SCRIPT, script.launch_script(run)

    def hand_over(self, folder: HeldFolder, run: RunFolder, orders: Orders) -> bool:
        raise UserError(NO_QUEUE)

    @staticmethod
    def look_in(campaign: Campaign) -> None:
        pass

    def goes_on(self, run: RunFolder) -> bool:
        return False

    def waiting(self, run: RunFolder) -> str:
        return ""

    def survey(self, checkup: Checkup, roles: bool, cancelled: Callable[[], bool]) -> Surveyed:
        hosts = [node.host for node in self.cluster.nodes]
        env = read({"root": "/tmp", "interfaces": [], "addresses": []})  # reads
        for host in hosts:
            write_json(checkup.path / names.ENVS / names.of_host(host), {"env": env})
        asked = {host: {"lost": False, "failures": []} for host in hosts}
        content = {"schema": SCHEMA, "at": time.time(), "roles": [], "nodes": asked}
        write_json(checkup.path / names.ASKED, content)
        return Surveyed(hosts)

    def preview(
        self, campaign: Campaign, runs: Sequence[Run], repeats: int
    ) -> Iterator[Mapping[str, Any]]:
        for run in runs:
            yield {"script": "\n".join(shlex.join(self.argv(node)) for node in run.nodes)}

    def stop(self, cancelled: Callable[[], bool]) -> Stopped:
        found = self.runs.glob(f"*/{names.CAMPAIGN}")
        return self.stop_campaigns([Campaign(path.parent) for path in found], cancelled)

    @staticmethod
    def stop_campaigns(campaigns: Sequence[Campaign], cancelled: Callable[[], bool]) -> Stopped:
        had = [each for each in campaigns if any(each.path.glob(f"{names.ATTEMPTS}/{PIDS}"))]
        live = [run for campaign in had for run in campaign.running()]
        for run in live:
            run.ask_to_halt(Cause.STOPPED, "ended by stop")
            end(run)
        return [f"{run.path.name} was ended" for run in live], had


def end(run: RunFolder) -> None:
    for pid in (read_json(str(run.path / PIDS)) or {}).get("pids", ()):
        if os.path.exists(f"/proc/{pid}"):
            os.killpg(pid, signal.SIGTERM)
