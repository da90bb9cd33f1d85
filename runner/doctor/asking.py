"""Ask the nodes of an inventory: verify.yml, then the probe. The effects of `runner doctor`."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.base.console import Screen
from runner.base.errors import UserError
from runner.base.ssh_words import unusable
from runner.base.text import counted, tail
from runner.doctor import probe_output, probing
from runner.doctor.answer import Answer, gather
from runner.doctor.effort import DOCTORS, Effort
from runner.doctor.judgement import Judgement
from runner.folder.checkup import Checkup, checkup_of
from runner.folder.products import keep_products
from runner.inventory.inventory import load_inventory, refuse_unedited
from runner.launch.engine import Surveyor
from runner.launch.engines import engine_of
from runner.launch.interrupts import Interrupts
from runner.launch.screen import live
from runner.terms.cluster import Cluster


@dataclass
class Asking:
    """Nodes that are asked and measured, and the folder that keeps what they say; all effects.

    What is begun ends with KeyboardInterrupt after Ctrl-C.
    """

    checkup: Checkup
    cluster: Cluster
    engine: Surveyor
    interrupts: Interrupts = field(default_factory=Interrupts)
    console: Screen = field(default_factory=lambda: Screen(stderr=True, soft_wrap=True))
    answer: Answer = field(default_factory=lambda: Answer("", 0.0, ()))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder and the nodes while the block lasts."""
        with (
            self.checkup.locked(self.cluster.group),
            self.interrupts.handled(),
            self.engine.gathered(self.checkup.path, self.interrupts.once),
        ):
            yield

    def survey(self, *, roles: bool = True) -> Answer:
        """Ask the nodes what they are, and with `roles` what each role's verify entry says.

        Raises UserError where no node could be asked.
        """
        checkup, cluster = self.checkup, self.cluster
        checkup.forget()
        title = f"asking {counted(len(cluster.nodes), 'node')} what they are"
        with live(self.console, lambda elapsed_s: f"{title}, {elapsed_s:.0f} s"):
            surveyed = self.engine.survey(checkup, roles, self.interrupts.once)
        self.stop_if_asked()
        if checkup.asked is None:
            # Ansible leaves a play in which no host is left, and with it what writes asked.json.
            silent = {
                host: why for host in surveyed.hosts if (why := checkup.node(host).unreachable)
            }
            if silent:
                raise UserError(unusable(silent, cluster.path, cluster.addresses))
            raise UserError(f"the nodes could not be asked: {surveyed.words}")
        answer = gather(checkup, surveyed.hosts, str(cluster.path))
        self.answer = replace(answer, compared=roles, engine=cluster.engine)
        return self.answer

    def measure(
        self,
        checks: Sequence[str],
        *,
        effort: Effort = DOCTORS,
        without: Collection[str] = (),
        title: str = "measuring",
    ) -> Judgement:
        """Run the probe on the nodes that could be asked, `without` some; `title` is its line."""
        checkup, cluster, answer, interrupts = (
            self.checkup,
            self.cluster,
            self.answer,
            self.interrupts,
        )
        pin, reason = probing.torch_of(answer.envs, cluster.path)
        if reason:
            return Judgement(reason=reason)

        def line(elapsed_s: float) -> str:
            logs = next((run.logs() for run in interrupts.running), {})
            now = probe_output.step(probe_output.lines(tail(logs[0]))) if logs else ""
            return f"{title}{': ' + now if now else ''}, {elapsed_s:.0f} s"

        answering = answer.envs.keys() - set(without)
        nodes = [node for node in cluster.nodes if node.host in answering]
        if cluster.engine.in_jobs:  # whose step takes all of them, in an order of its own
            nodes = list(cluster.nodes[: len(answer.nodes)])
        launch = (checkup, cluster, nodes, pin, checks, self.engine, interrupts, effort)
        with live(self.console, line):
            judged = probing.launch(*launch)
        now = time.time()
        keep_products(checkup.path, judged.products(now), now)
        self.stop_if_asked()
        return judged

    def stop_if_asked(self) -> None:
        """Raise KeyboardInterrupt after Ctrl-C."""
        if self.interrupts.count:
            raise KeyboardInterrupt


def ask(inventory: Path, runs: Path, only: Sequence[str]) -> Answer:
    """Ask the nodes what was asked for. Raises UserError where no node could be asked."""
    cluster = load_inventory(inventory)
    refuse_unedited(cluster)
    asking = Asking(checkup_of(runs, cluster.label), cluster, engine_of(cluster, runs))
    with asking.held():
        answer = asking.survey(roles="env" in only)
        if checks := [check for check in only if check != "env"]:
            answer = replace(answer, judgement=asking.measure(checks))
    return answer
