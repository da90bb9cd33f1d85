"""The engine whose nodes are reached by Ansible's connections: one play carries out many runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.checkup import Checkup
from runner.folder.lock import HeldFolder
from runner.launch.engine import NO_QUEUE, Stopped, Surveyed, Wanted
from runner.launch.node_lock import claimed
from runner.launch.play import Played, play
from runner.launch.ssh.persistent_play import Plays
from runner.launch.ssh.play_pipe import Order
from runner.plan.script import launch_script
from runner.terms.cluster import Cluster, Node
from runner.terms.inspected import Inspected, Sought
from runner.terms.orders import Orders
from runner.terms.run import Run


def in_use(nodes: Sequence[Node]) -> dict[str, str]:
    """Return what is a node's alone, its address and root folder, to its name."""
    return {f"{node.address} {node.root}": node.host for node in nodes}


class SshEngine:
    """Plays on the nodes of an inventory; `runs` is the folder of all campaigns."""

    at_once = 1  # all cells have the same nodes

    def __init__(self, cluster: Cluster, runs: Path) -> None:
        self.inventory = cluster.path
        self.hosts = [node.host for node in cluster.nodes]
        self.nodes = cluster.nodes
        self.lost_contact_s = cluster.lost_contact_s
        self.private = runs / names.ANSIBLE
        self.plays = Plays(self.begin, self.private)

    @contextmanager
    def claimed(
        self, wanted: Wanted, campaign: Path, cancelled: Callable[[], bool]
    ) -> Iterator[None]:
        """Do as Engine's; the play that carries out the runs ends with the block."""
        with claimed(in_use(self.nodes[: wanted.nodes]), campaign), closing(self.plays):
            yield

    def inspect(
        self,
        hosts: Sequence[str],
        asked: Sought,
        campaign: Campaign,
        cancelled: Callable[[], bool],
    ) -> Mapping[str, Inspected]:
        """Do as Engine's."""
        order = Order(str(campaign.inspected.resolve()), tuple(hosts), sought=asked)
        error_text = self.plays.carry_out(order, cancelled)
        if cancelled():
            raise KeyboardInterrupt
        if error_text:
            raise UserError(f"the nodes could not be asked: {error_text}")
        return {host: campaign.inspection(host) or Inspected(unreachable="") for host in hosts}

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        """Do as Engine's."""
        lock = str(folder.lock.resolve())
        order = Order(str(run.path.resolve()), lock=lock, holder=folder.holder)
        return self.plays.carry_out(order, cancelled)

    def goes_on(self, run: RunFolder) -> bool:
        """Do as Engine's: its lease ends a run that nobody follows."""
        return False

    def by_hand(self, run: Run) -> tuple[str, str]:
        """Do as Engine's."""
        return names.SCRIPT, launch_script(run)

    def hand_over(self, folder: HeldFolder, run: RunFolder, orders: Orders) -> bool:
        """Do as Engine's: nodes end a run that no bench asks for."""
        raise UserError(NO_QUEUE)

    @staticmethod
    def look_in(campaign: Campaign) -> None:
        """Do as EngineMaker's: there is no queue."""

    def waiting(self, run: RunFolder) -> str:
        """Do as Engine's: a node that is busy refuses the run."""
        return ""

    def preview(
        self, campaign: Campaign, runs: Sequence[Run], repeats: int
    ) -> Iterator[Mapping[str, Any]]:
        """Do as Engine's: there is no scheduler."""
        return iter(())

    @staticmethod
    def stop_campaigns(campaigns: Sequence[Campaign], cancelled: Callable[[], bool]) -> Stopped:
        """Do as EngineMaker's: they have no jobs."""
        return (), ()

    def stop(self, cancelled: Callable[[], bool]) -> Stopped:
        """Do as Engine's: every run on the nodes."""
        played = self.play("stop.yml", self.hosts, {}, cancelled)
        ended = [f"{host}: a run was ended" for host in played.changed]
        if not played.ok:
            raise UserError("; ".join([*ended, f"not every node could be asked: {played.words}"]))
        return ended, ()

    def gathered(self, folder: Path, cancelled: Callable[[], bool]) -> AbstractContextManager[Any]:
        """Do as Surveyor's: they are there."""
        return closing(self.plays)

    def survey(self, checkup: Checkup, roles: bool, cancelled: Callable[[], bool]) -> Surveyed:
        """Do as Surveyor's."""
        hosts = self.hosts
        variables = {
            "verify_out_dir": str(checkup.path.resolve()),
            "verify_compare": False,
            **({} if roles else {"verify_only": ["env"]}),
        }
        return Surveyed(hosts, self.play("verify.yml", hosts, variables, cancelled).words)

    def begin(self, gate: Path, cancelled: Callable[[], bool]) -> Played:
        """Run the play that carries out orders, until its gate is closed."""
        return self.play("bench.yml", self.hosts, {"launch_gate": str(gate.resolve())}, cancelled)

    def play(
        self,
        playbook: str,
        hosts: Sequence[str],
        variables: Mapping[str, Any],
        cancelled: Callable[[], bool],
    ) -> Played:
        """Run a playbook on hosts of the inventory."""
        return play(
            playbook,
            self.inventory,
            hosts=hosts,
            variables=variables,
            private=self.private,
            cancelled=cancelled,
            lost_contact_s=self.lost_contact_s,
        )
