"""An acceptance of four real nodes that is killed in each of its stages, and goes on each time.

On Slurm an ordinary user sets torch_gpt up on the folder that the nodes share: minutes.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.accept.scope import STAGES
from tests.acceptance.bed import NODES, SHARE, VARIABLES, bed
from tests.acceptance.processors import Processors
from tests.cluster.system import ClusterError
from tests.on_slurm.campaign import user_folder, with_torch_gpt

WITHIN_S = 3.0  # of a stage, it is killed
MOST_S = 900.0
# Of the nodes over ssh, on Slurm too: two processes would share what a node has of a processor.
LIKE_SSH = ("cluster_env", "cluster_devices_per_node")


@dataclass
class Place:
    """Where `accept` runs: its words without the command, how it starts and how it is killed."""

    words: list[str]
    runs: Path
    popen: Callable[..., "subprocess.Popen[Any]"]
    kill: Callable[["subprocess.Popen[Any]"], None]

    def start(self, words: Sequence[str], log: Path) -> "subprocess.Popen[Any]":
        """Start it; what it prints goes to the log's name with .json, what it says to the log."""
        with log.open("w") as err, log.with_suffix(".json").open("w") as out:
            return self.popen(words, stdout=out, stderr=err)


@contextmanager
def over_ssh() -> Iterator[Place]:
    """Four nodes by ssh, this machine as the control node."""
    popen = partial(subprocess.Popen, start_new_session=True)
    with bed() as made:
        yield Place(["-i", str(made.inventory)], made.runs, popen, subprocess.Popen.kill)


@contextmanager
def on_slurm() -> Iterator[Place]:
    """Four compute nodes, an ordinary user on the login node."""
    with (
        ExitStack() as shares,
        with_torch_gpt(NODES, **{key: VARIABLES[key] for key in LIKE_SSH}) as cluster,
    ):
        for node in cluster.compute:
            processors = Processors(node)
            processors.limit(SHARE)
            shares.callback(processors.remove)
        runs = user_folder(cluster, "accept")

        def kill(process: "subprocess.Popen[Any]") -> None:
            for pid, argv in cluster.login.processes():
                if "accept" in argv and str(runs) in argv:
                    with suppress(ClusterError):  # it has ended meanwhile
                        cluster.login.signal(pid, signal.SIGKILL)

        yield Place(["-i", str(cluster.inventory)], runs, cluster.popen, kill)


def command(place: Place, *more: str) -> list[str]:
    """The one command that is killed and run again."""
    argv = [sys.executable, "-m", "runner", "accept", *place.words, "--runs", str(place.runs)]
    return [*argv, "--quick", *more]


def killed_in(place: Place, stage: str, log: Path) -> list[str]:
    """Kill it a few seconds into a stage; return the stages that it said were done before."""
    process = place.start(command(place), log)
    end = time.monotonic() + MOST_S
    while f"{stage}: " not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > end:
            place.kill(process)
            pytest.fail(f"accept did not reach stage {stage}: {log.read_text()[-2000:]}")
        time.sleep(0.1)
    time.sleep(WITHIN_S)
    place.kill(process)
    process.wait(MOST_S)
    lines = [
        line for line in log.read_text(errors="replace").splitlines() if "going on with" in line
    ]
    kept = lines[0].rpartition(": ")[2].removesuffix(" done") if lines else ""
    return [stage for stage in kept.split(", ") if stage]


@pytest.mark.cluster
@pytest.mark.network
@pytest.mark.nightly("acceptance", by_day="minutes")
@pytest.mark.timeout(2400)
@pytest.mark.usefixtures("lender")
@pytest.mark.parametrize("engine", [over_ssh, on_slurm])
def test_it_goes_on_and_passes(
    engine: Callable[[], AbstractContextManager[Place]],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    with engine() as place:
        for number, stage in enumerate(STAGES):
            kept = killed_in(place, stage, tmp_path / f"{stage}.log")
            # The command before had finished all but the stage in which it was killed, at least.
            assert kept == list(STAGES[: len(kept)])
            assert len(kept) >= number - 1
        last = tmp_path / "last.log"
        code = place.start(command(place, "--format", "json"), last).wait(MOST_S)
    assert code == 0, last.read_text()
    took = {
        one["stage"]: one["took_s"]
        for one in json.loads(last.with_suffix(".json").read_text())["detail"]["stages"]
    }
    for stage in STAGES:
        record_property(f"{stage}, s", f"{took[stage]:.1f}")
