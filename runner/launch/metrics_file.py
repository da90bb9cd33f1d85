"""How far a campaign is, for Prometheus: `bench --metrics FILE`, which node_exporter's textfile
collector reads. docs/how-to/other-tools.md has the metrics.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from runner.base.files import atomic_file
from runner.base.streams import complain
from runner.launch.campaign_status import Status

EVERY_S = 5.0
_OF_RUN = {
    "iteration": ("iteration", "The newest logged iteration."),
    "train_iters": ("iterations_planned", "Iterations that the run is to have."),
    "samples_per_s": ("samples_per_second", "Sequences per second of all devices."),
    "tokens_per_s": ("tokens_per_second", "Tokens per second of all devices."),
    "loss": ("loss", "The newest training loss."),
    "memory_used_mib": ("memory_used_mebibytes", "Memory in use on the fullest device."),
    "power_w": ("power_watts", "Power of all devices."),
    "elapsed_s": ("elapsed_seconds", "Time since the run began."),
}


def to_prometheus(status: Status) -> str:
    """Write Prometheus' text format: gauges, all with the campaign as a label."""
    lines: list[str] = []

    def gauge(name: str, help: str, values: list[tuple[dict[str, str], float]]) -> None:
        if values:
            lines.extend((f"# HELP trainbench_{name} {help}", f"# TYPE trainbench_{name} gauge"))
        for labels, value in values:
            every = {"campaign": status.campaign, **labels}
            inside = ",".join(f'{label}="{_quoted(text)}"' for label, text in every.items())
            lines.append(f"trainbench_{name}{{{inside}}} {float(value)}")

    waiting = status.runs - status.over - len(status.runs_now) - status.others
    ended = {"ok": 0, **status.ended}
    gauge("campaign_live", "1 while bench runs the campaign.", [({}, status.live)])
    gauge("runs", "Runs of the campaign: repeats of its cells.", [({}, status.runs)])
    gauge(
        "runs_ended",
        "Runs that ended, by status.",
        [({"status": word}, count) for word, count in ended.items()],
    )
    gauge("runs_waiting", "Runs that did not begin.", [({}, max(waiting, 0))])
    if status.left_s is not None:
        gauge("left_seconds", "A guess of the time to the end.", [({}, status.left_s)])
    for field, (name, help) in _OF_RUN.items():
        gauge(
            f"run_{name}",
            help,
            [
                ({"cell": run.cell, "repeat": str(run.repeat)}, value)
                for run in status.runs_now
                if (value := getattr(run, field)) is not None
            ],
        )
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    encodable = text.encode("utf-8", "replace").decode()
    return encodable.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@contextlib.contextmanager
def metrics_file(path: Path, status: Callable[[], Status]) -> Iterator[None]:
    """Write the file every EVERY_S seconds of the block, and once more, not live, at its end.

    Nothing is written before the campaign began. A file that cannot be written is a warning.
    """
    over = threading.Event()
    failures: list[Exception] = []

    def write(*, live: bool) -> None:
        try:
            now = replace(status(), live=live)
            if now.campaign:
                with atomic_file(path) as stream:
                    stream.write(to_prometheus(now).encode())
        except Exception as error:  # whatever the folder holds: the campaign itself goes on
            if not failures:
                complain(f"warning: {path} was not written: {error or type(error).__name__}")
            failures.append(error)

    def work() -> None:
        while not over.wait(EVERY_S):
            write(live=True)

    thread = threading.Thread(target=work, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(EVERY_S)
        write(live=False)
