"""Ask the nodes of an inventory: verify.yml, then the probe. The effects of `runner doctor`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from runner import cluster as clusters
from runner import rundir
from runner.bench import Interrupts
from runner.cluster import Cluster
from runner.doctor import measured, probing
from runner.doctor.answer import Answer, gather
from runner.errors import UserError
from runner.lines import tail
from runner.play import play
from runner.rundir import Attempt, Checkup

LIVE_S = 0.5  # between two looks, in a terminal
PLAIN_S = 10.0  # between two plain lines elsewhere


def ask(inventory: Path, runs: Path, only: Sequence[str]) -> Answer:
    """Everything that was asked for. Raises UserError where no node could be asked."""
    cluster = clusters.load(inventory)
    checkup = rundir.checkup(runs, cluster.name)
    interrupts = Interrupts()
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with checkup.locked(), interrupts.handled():
        found = _survey(checkup, cluster, runs, "env" in only, interrupts, console)
        if checks := [one for one in only if one != "env"]:
            found = replace(
                found,
                judgement=_measure(checkup, cluster, found, checks, runs, interrupts, console),
            )
    if interrupts.count:
        raise KeyboardInterrupt
    return found


def _survey(
    checkup: Checkup,
    cluster: Cluster,
    runs: Path,
    roles: bool,
    interrupts: Interrupts,
    console: Console,
) -> Answer:
    """What the nodes are, and with `roles` what each role's verify entry says."""
    checkup.forget()
    hosts = [node.host for node in cluster.nodes]
    title = f"asking {len(hosts)} node{'s' if len(hosts) > 1 else ''} what they are"
    with _progress(console, title, lambda: ""):
        played = play(
            "verify.yml",
            cluster.path,
            hosts=hosts,
            variables={
                "verify_out_dir": str(checkup.path.resolve()),
                "verify_compare": False,
                **({} if roles else {"verify_only": ["env"]}),
            },
            private=runs / ".ansible",
            cancelled=interrupts.once,
        )
    if interrupts.count:
        raise KeyboardInterrupt
    if checkup.asked is None:
        raise UserError(f"the nodes could not be asked: {played.words}")
    return replace(gather(checkup, hosts), compared=roles)


def _measure(
    checkup: Checkup,
    cluster: Cluster,
    found: Answer,
    checks: Sequence[str],
    runs: Path,
    interrupts: Interrupts,
    console: Console,
) -> measured.Judgement:
    """The probe on the nodes that could be asked."""
    pin, reason = probing.torch_of(found.envs)
    if reason:
        return measured.Judgement(reason=reason)
    running: list[Attempt] = []

    def started(attempt: Attempt) -> None:
        running.append(attempt)
        interrupts.running = attempt
        if interrupts.count:
            attempt.ask_to_halt("interrupted", "stopped by Ctrl-C")

    def words() -> str:
        logs = running[-1].logs() if running else {}
        return measured.step(measured.lines(tail(logs[0]))) if logs else ""

    nodes = [node for node in cluster.nodes if node.host in found.envs]
    with _progress(console, "measuring", words):
        return probing.launch(
            checkup,
            cluster,
            nodes,
            pin,
            checks,
            runs,
            started=started,
            cancelled=interrupts.twice,
        )


@contextmanager
def _progress(console: Console, title: str, words: Callable[[], str]) -> Iterator[None]:
    """What goes on, until the block ends: a live line in a terminal, plain lines elsewhere."""
    began = time.monotonic()
    over = threading.Event()

    def line() -> Text:
        now = words()
        return Text(f"{title}{': ' + now if now else ''}, {time.monotonic() - began:.0f} s")

    def watch() -> None:
        if console.is_terminal:
            with console.status(line()) as status:
                while not over.wait(LIVE_S):
                    status.update(line())
            return
        while not over.wait(PLAIN_S):
            console.print(line())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
