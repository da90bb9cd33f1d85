"""What this machine does per second, measured once by doctor's probe, and its earlier searches."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any

from runner.base.dataclass_schema import shape
from runner.base.errors import UserError
from runner.doctor.asking import ask
from runner.doctor.judgement import Judgement
from runner.doctor.probe_tests import MATMUL
from runner.doctor.slow_figures import ProbeResult
from runner.folder import names
from runner.folder.stored import OfThisVersion, UnreadableError, load, write_json
from runner.terms.cluster import Cluster
from runner.terms.layout import Layout
from runner.terms.record import MIXED_FP8
from runner.tune.beliefs import Earlier
from runner.tune.candidates import MachineRates

# Rates of arithmetics relative to bf16 where nobody measured them: those of an H200's data sheet.
_TYPICAL = {"bf16": 1.0, "fp16": 1.0, MIXED_FP8: 1.5, "tf32": 0.5, "fp32": 0.07}


@dataclass(frozen=True)
class MachineConstants:
    """The medians over devices, and over links; empty or None: not measured."""

    fingerprint: str  # Cluster.digest
    at: float = 0.0  # epoch seconds
    matmul: Mapping[str, float] = field(default_factory=dict)  # arithmetic to FLOP/s of one device
    memory: float | None = None  # bytes/s of a copy on one device, read and written
    inside: float | None = None  # bytes/s of an all-reduce (bus) within a node
    between: float | None = None  # and between all nodes

    def rates(self, arithmetic: str | None, device: str) -> MachineRates:
        """Return the rates of a training that multiplies in that arithmetic."""
        found = {name: getattr(self, name) for name in ("memory", "inside", "between")}
        known = {name: rate for name, rate in found.items() if rate}
        if not self.matmul:
            return MachineRates(**known)
        return MachineRates(matmul=self.matmul_of(arithmetic, device), measured=True, **known)

    def matmul_of(self, arithmetic: str | None, device: str) -> float:
        """Return FLOP/s in an arithmetic; what was not measured by what is typical."""
        if device == "cpu" and arithmetic == "tf32":  # a CPU has none, and multiplies in fp32
            arithmetic = "fp32"
        if arithmetic is not None and arithmetic in self.matmul:
            return self.matmul[arithmetic]
        typical = _TYPICAL if device != "cpu" else {}
        known = next(iter(self.matmul), "bf16")
        rate = self.matmul.get(known, MachineRates.matmul)
        return rate * typical.get(arithmetic or "", 1.0) / typical.get(known, 1.0)


MACHINE = OfThisVersion(shape(MachineConstants))


def machine_file(runs: Path, cluster: Cluster) -> Path:
    """Return where an inventory's constants are kept."""
    return runs / names.TUNE / cluster.label / names.MACHINE


def kept_machine(runs: Path, cluster: Cluster) -> MachineConstants | None:
    """Return what was measured of this very machine; None where it has to be measured."""
    try:
        machine: MachineConstants | None = load(machine_file(runs, cluster), MACHINE, names.MACHINE)
    except UnreadableError:
        return None
    return machine if machine and machine.fingerprint == cluster.digest else None


def measure(
    inventory: Path, runs: Path, cluster: Cluster, say: Callable[[str], None]
) -> tuple[MachineConstants, str]:
    """Measure the machine by doctor's probe and keep it; why not, where that cannot be done."""
    say("measuring this machine once, by doctor's probe: matrix products, copies, all-reduces")
    judgement, reason = None, "doctor said nothing"
    try:
        judgement = ask(inventory, runs, ("devices", "network")).judgement
    except UserError as error:
        reason = str(error)
    reason = (judgement.reason or judgement.failed) if judgement else reason
    if judgement is None or reason:
        return MachineConstants(cluster.digest), f"this machine was not measured: {reason}"
    machine = machine_of(judgement, cluster.digest, time.time())
    write_json(machine_file(runs, cluster), asdict(machine))
    return machine, ""


def machine_of(judgement: Judgement, fingerprint: str, at: float) -> MachineConstants:
    """Return the constants that a probe's figures say. TFLOP/s and GB/s become FLOP/s, bytes/s."""
    rows = {row.test: value for row in judgement.rows if (value := _middle(row)) is not None}
    return MachineConstants(
        fingerprint,
        at,
        {
            test.removeprefix(MATMUL): 1e12 * value
            for test, value in rows.items()
            if test.startswith(MATMUL)
        },
        *(1e9 * rows[test] if test in rows else None for test in ("memory", "node", "all")),
    )


def _middle(row: ProbeResult) -> float | None:
    """Return the median of a test's figures, noisy ones too; None of a test without any."""
    values = [row.value(figure) for figure in row.figures]
    return median(values) if values and median(values) > 0 else None


@dataclass(frozen=True)
class _Earlier:
    """What is read of an earlier search's answer.json: the machine, and what it measured there."""

    fingerprint: str = ""
    measured: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class _EarlierAnswer:
    detail: _Earlier = _Earlier()


EARLIER = OfThisVersion(shape(_EarlierAnswer))


def earlier_of(runs: Path, campaign: str, fingerprint: str, systems: set[str]) -> list[Earlier]:
    """Return what earlier searches measured of a system on this machine; nothing of several."""
    measurements: list[Earlier] = []
    for path in sorted(runs.glob(f"*/{names.ANSWER}")):
        if path.parent.name == campaign or len(systems) != 1:
            continue
        try:
            found: _EarlierAnswer | None = load(path, EARLIER, names.ANSWER)
        except UserError:  # what cannot be read says nothing
            continue
        if found is not None and found.detail.fingerprint == fingerprint:
            measurements += _rows(found.detail.measured, next(iter(systems)))
    return measurements


def _rows(measured: tuple[Mapping[str, Any], ...], system: str) -> Iterator[Earlier]:
    keys = {layout_field.name for layout_field in fields(Layout)}
    for row in measured:
        step_s = row.get("step_s")
        if row.get("system") != system or not isinstance(step_s, int | float) or step_s <= 0:
            continue
        try:
            sizes = {key: value for key, value in row.items() if key in keys}
            yield Earlier(Layout(**sizes), float(step_s))
        except TypeError:  # of another version
            continue
