"""Ask the nodes of an inventory: verify.yml, then the probe. The effects of `runner doctor`."""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
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
from runner.launch.engine import Engine, Surveyor
from runner.launch.engines import engine_of
from runner.launch.interrupts import Interrupts
from runner.launch.screen import live
from runner.terms.cluster import Cluster


def ask(inventory: Path, runs: Path, only: Sequence[str]) -> Answer:
    """Ask the nodes what was asked for. Raises UserError where no node could be asked."""
    cluster = load_inventory(inventory)
    refuse_unedited(cluster)
    checkup = checkup_of(runs, cluster.label)
    engine, interrupts = engine_of(cluster, runs), Interrupts()
    console = Screen(stderr=True, soft_wrap=True)
    with (
        checkup.locked(cluster.group),
        interrupts.handled(),
        engine.gathered(checkup.path, interrupts.once),
    ):
        answer = survey(checkup, cluster, engine, "env" in only, interrupts, console)
        if checks := [check for check in only if check != "env"]:
            answer = replace(
                answer,
                judgement=measure(checkup, cluster, answer, checks, engine, interrupts, console),
            )
    if interrupts.count:
        raise KeyboardInterrupt
    return answer


def survey(
    checkup: Checkup,
    cluster: Cluster,
    engine: Surveyor,
    roles: bool,
    interrupts: Interrupts,
    console: Screen,
) -> Answer:
    """Ask the nodes what they are, and with `roles` what each role's verify entry says."""
    checkup.forget()
    title = f"asking {counted(len(cluster.nodes), 'node')} what they are"
    with live(console, lambda elapsed_s: f"{title}, {elapsed_s:.0f} s"):
        surveyed = engine.survey(checkup, roles, interrupts.once)
    if interrupts.count:
        raise KeyboardInterrupt
    if checkup.asked is None:
        # Ansible leaves a play in which no host is left, and with it what asked.json is written by.
        silent = {host: why for host in surveyed.hosts if (why := checkup.node(host).unreachable)}
        if silent:
            raise UserError(unusable(silent, cluster.path, cluster.addresses))
        raise UserError(f"the nodes could not be asked: {surveyed.words}")
    answer = replace(gather(checkup, surveyed.hosts, str(cluster.path)), compared=roles)
    return replace(answer, engine=cluster.engine)


def measure(
    checkup: Checkup,
    cluster: Cluster,
    answer: Answer,
    checks: Sequence[str],
    engine: Engine,
    interrupts: Interrupts,
    console: Screen,
    *,
    effort: Effort = DOCTORS,
    without: Collection[str] = (),
    title: str = "measuring",
) -> Judgement:
    """Run the probe on the nodes that could be asked, `without` some; `title` is its line."""
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
    with live(console, line):
        judged = probing.launch(checkup, cluster, nodes, pin, checks, engine, interrupts, effort)
    now = time.time()
    keep_products(checkup.path, judged.products(now), now)
    return judged
