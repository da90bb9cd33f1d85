"""Runs of the trainer, side by side, each on devices of its own; what has ended well is kept."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from benchmarks.same_learning.paths import Machine
from runner.base.dataclass_schema import read

PROJECT = Path(__file__).resolve().parents[2]
MODULES = PROJECT / "node/dataset"
TRAINER = PROJECT / "roles/torch_gpt/files/torch_gpt/train.py"
FAULTY = PROJECT / "benchmarks/learning_runs.py"
LIMIT_S = 900
DONE = b"torch_gpt done "
ERROR = b"torch_gpt error: "
# What the interpreter with torch is asked: the fields of Machine, as JSON.
PROBE = """
import importlib.util as find, json, os, shutil, sys, sysconfig, torch
cuda = sys.argv[1] == "cuda"
count = torch.cuda.device_count() if cuda else 2
header = os.path.join(sysconfig.get_path("include"), "Python.h")
compilers = [os.environ.get("CXX", ""), "g++", "clang++"]
print(json.dumps({
    "device": sys.argv[1],
    "devices": count,
    "name": torch.cuda.get_device_name() if cuda and count else "CPU",
    "torch": torch.__version__,
    "capability": min([a + b / 10 for a, b in map(torch.cuda.get_device_capability, range(count))])
    if cuda and count else 0.0,
    "torchao": find.find_spec("torchao") is not None,
    "compiler": any(map(shutil.which, compilers)) and os.path.exists(header),
}))
"""


@dataclass(frozen=True)
class Job:
    """One run: the trainer's options, and the fault that is planted in it, if any."""

    name: str
    argv: tuple[str, ...]
    ranks: int = 1
    fault: str | None = None
    environ: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Store:
    """The folder that keeps logs: NAME.log of a run that ended well, beside what it was in
    NAME.json; NAME.failed of one that did not.
    """

    folder: Path

    def log(self, job: Job) -> bytes | None:
        """Return the log of this very job, if it has ended well."""
        try:
            was = json.loads(self._path(job, ".json").read_text(encoding="utf-8"))
            return self._path(job, ".log").read_bytes() if was == _recorded(job) else None
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def why_not(self, job: Job) -> str:
        """Return why the last try of a job failed; empty without one."""
        try:
            said = self._path(job, ".failed").read_bytes().splitlines()
        except FileNotFoundError:
            return ""
        errors = [line.removeprefix(ERROR) for line in said if line.startswith(ERROR)]
        last = (errors or [line for line in said if line.strip()] or [b"it said nothing"])[-1]
        return last.decode("utf-8", "replace").strip()[:200]

    def begin(self, job: Job) -> IO[bytes]:
        """Open what takes a run's output."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for suffix in (".log", ".json"):
            self._path(job, suffix).unlink(missing_ok=True)
        return self._path(job, ".failed").open("wb")

    def end(self, job: Job, status: int) -> bool:
        """Keep a run that ended well under its name; whether it did."""
        output = self._path(job, ".failed")
        if status or DONE not in output.read_bytes():
            return False
        self._path(job, ".json").write_text(json.dumps(_recorded(job), indent=1), encoding="utf-8")
        output.rename(self._path(job, ".log"))
        return True

    def forget(self, job: Job) -> None:
        """Drop what an interrupted run printed."""
        self._path(job, ".failed").unlink(missing_ok=True)

    def _path(self, job: Job, suffix: str) -> Path:
        return self.folder / f"{job.name}{suffix}"


def _recorded(job: Job) -> object:
    return json.loads(json.dumps(asdict(job)))


def look(python: str, device: str) -> Machine:
    """Ask the interpreter what there is."""
    asked = subprocess.run(
        [python, "-c", PROBE, device], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        last = asked.stderr.strip().splitlines()[-1:] or [f"exit status {asked.returncode}"]
        raise SystemExit(f"{python} cannot use torch ({last[0]}); name one that can with --python")
    machine = read(Machine, json.loads(asked.stdout.splitlines()[-1]), "the machine")
    if not machine.devices:
        raise SystemExit("torch sees no CUDA device; take --device cpu")
    return machine


def train_all(
    jobs: Sequence[Job], store: Store, python: str, machine: Machine
) -> Generator[tuple[Job, bool, float]]:
    """Run all, side by side as places become free; yield each that ends, whether it ended well,
    and its seconds.

    Who stops in between, by an interrupt say, ends what runs; nothing of that is kept.
    """
    waiting = list(jobs)
    free = list(range(machine.devices))
    running: dict[_Running, None] = {}
    try:
        while waiting or running:
            for job in [*waiting]:
                if job.ranks <= len(free):
                    places = [free.pop() for _ in range(job.ranks)]
                    running[_Running(job, places, store, python, machine)] = None
                    waiting.remove(job)
            time.sleep(0.1)
            for each in [each for each in running if each.has_ended()]:
                del running[each]
                free += each.places
                yield each.job, store.end(each.job, each.status), each.seconds
    finally:
        for each in running:
            each.kill()
            store.forget(each.job)


class _Running:
    """A run that has been started, in a session of its own."""

    def __init__(
        self, job: Job, places: list[int], store: Store, python: str, machine: Machine
    ) -> None:
        self.job, self.places, self.began = job, places, time.monotonic()
        with store.begin(job) as output:
            self.process = subprocess.Popen(
                command(python, job),
                stdin=subprocess.PIPE if job.fault else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | variables(job, places, machine, store.folder),
                start_new_session=True,
            )
        if self.process.stdin:
            run = {"argv": job.argv, "log": None, "fault": job.fault}
            self.process.stdin.write(json.dumps([run]).encode())
            self.process.stdin.close()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def status(self) -> int:
        """Exit status of one that has ended."""
        return self.process.wait()

    def has_ended(self) -> bool:
        """Whether it has, by itself or at its time limit."""
        if self.seconds > LIMIT_S:
            self.kill()
        return self.process.poll() is not None

    def kill(self) -> None:
        """End it and all its ranks."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def command(python: str, job: Job) -> list[str]:
    """Return what starts a run."""
    if job.fault:
        return [python, str(FAULTY)]
    if job.ranks == 1:
        return [python, str(TRAINER), *job.argv]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(job.ranks)]
    return [python, *torchrun, str(TRAINER), *job.argv]


def variables(job: Job, places: list[int], machine: Machine, folder: Path) -> dict[str, str]:
    """Return what a run's environment has besides: its devices, its threads, its caches."""
    own = dict(job.environ)
    paths = [str(MODULES), os.environ.get("PYTHONPATH", "")]
    own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    threads = max(1, (os.cpu_count() or 1) // machine.devices)
    own["OMP_NUM_THREADS"] = str(threads)
    for name in ("TORCHINDUCTOR", "TRITON"):
        own[f"{name}_CACHE_DIR"] = str(folder.absolute() / "compile_cache" / name.lower())
    if machine.device == "cuda":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = visible.split(",") if visible else [*map(str, range(machine.devices))]
        own["CUDA_VISIBLE_DEVICES"] = ",".join(names[place] for place in places)
    return own
