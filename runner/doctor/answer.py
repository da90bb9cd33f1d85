"""What doctor answers: one object for people and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table
from rich.text import Text

from runner.base.console import one_line
from runner.base.errors import UserError
from runner.base.grid import plain_text
from runner.base.suggested_commands import doctor, played, spelled_out
from runner.base.text import counted
from runner.doctor import table
from runner.doctor.differences import NodeComparison, compare_nodes, short
from runner.doctor.items import SPOILS
from runner.doctor.judgement import Judgement
from runner.folder import names
from runner.folder.checkup import AskedNode, Checkup
from runner.folder.stored import SCHEMA
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.ssh import Ssh

HEALTHY, SPOILED, UNANSWERED = 0, 1, 2


@dataclass(frozen=True)
class Answer:
    """Everything that was found of an inventory's nodes.

    `unreachable`: node to why it could not be asked. `failures`: node to what its roles' verify
    entries said (`role`, `message`). `judgement` is None where nothing was to be measured.
    `mended_by`: the inventory's path, which cures name.
    `engine` has a key for nodes to leave out, or none.
    """

    inventory: str
    at: float
    nodes: tuple[str, ...]
    roles: tuple[str, ...] = ()
    envs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unreachable: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    comparison: NodeComparison = field(default_factory=NodeComparison)
    judgement: Judgement | None = None
    compared: bool = True
    engine: EngineSettings = field(default_factory=Ssh)
    mended_by: str = ""

    @property
    def exit_code(self) -> int:
        """1 where something spoils a comparison, else 2 where something could not be asked."""
        if any(self.faults(lost=False).values()):
            return SPOILED
        unanswered = self.judgement is not None and self.judgement.unanswered
        return UNANSWERED if self.unreachable or unanswered else HEALTHY

    def faults(self, *, lost: bool = True) -> dict[str, list[str]]:
        """Return each node's faults, one line each: what would spoil a comparison."""
        faults: dict[str, list[str]] = {}
        if lost:
            for host, why in self.unreachable.items():
                faults.setdefault(host, []).append(f"{host} cannot be asked: {why}")
        for host, entries in self.failures.items():
            for entry in entries:
                faults.setdefault(host, []).append(f"{host}: {entry['role']}: {entry['message']}")
        for finding in self.comparison.findings if self.compared else ():
            if finding.severity == SPOILS:
                for host in finding.nodes:
                    faults.setdefault(host, []).append(f"{host}: {finding.words}")
        if self.judgement is not None:
            for verdict in self.judgement.slow:
                for host in verdict.nodes:
                    faults.setdefault(host, []).append(verdict.words)
        return faults

    @property
    def exclusion(self) -> Mapping[str, str]:
        """The key that leaves out the nodes with faults, and its value; empty without such nodes.

        Where every node has a fault it is of what they have in common.
        """
        odd = [host for host in self.nodes if self.faults().get(host)]
        return self.engine.without(odd) if 0 < len(odd) < len(self.nodes) else {}

    def as_json(self, width: int) -> dict[str, Any]:
        """Return the object that docs/how-to/accept.md describes."""
        return {
            "schema": SCHEMA,
            "inventory": self.inventory,
            "at": self.at,
            "exit_code": self.exit_code,
            "nodes": list(self.nodes),
            "unreachable": dict(self.unreachable),
            "checks": [
                {"node": host, **entry}
                for host, entries in self.failures.items()
                for entry in entries
            ],
            "findings": [
                {
                    "item": finding.item,
                    "severity": finding.severity,
                    "nodes": list(finding.nodes),
                    "value": finding.value,
                    "others": finding.others,
                    "why": finding.why,
                }
                for finding in self.comparison.findings
                if self.compared
            ],
            "faults": self.faults(),
            **self.exclusion,
            "environment": dict(self.envs),
            "measured": None if self.judgement is None else self.judgement.as_json(),
            "text": plain_text(self.parts(width), width),
        }

    def parts(self, width: int) -> list[Table | Text | str]:
        """Return what a person reads, top to bottom."""
        parts: list[Table | Text | str] = []
        if self.compared:
            for host, why in self.unreachable.items():
                parts.append(one_line(f"{host} cannot be asked: {why}", table.STYLES[SPOILS]))
            if self.comparison.differences:
                parts.append(
                    table.differences_table(self.comparison.differences, list(self.envs), width)
                )
            parts += table.failure_lines(self.failures)
            if self.failures:
                fix, look = played("setup", self.mended_by), doctor(self.mended_by)
                parts.append(one_line(f"To fix what setup installs: {fix}; then {look}"))
            parts.append(self._summary())
        if self.judgement is not None:
            parts += table.measured_parts(self.judgement, width)
        for key, value in self.exclusion.items():
            parts.append(one_line(f"to leave out what is odd or slow: {key}: {value}"))
        return parts

    def _summary(self) -> Text:
        """Sum up in one line what was compared."""
        differences = self.comparison.differences
        spoiling = sum(row.severity == SPOILS for row in differences)
        scope = counted(len(self.nodes), "node")
        if self.unreachable:
            scope = f"{len(self.envs)} of {scope}"
        scope += " compared"
        if self.roles:
            scope += f", {counted(len(self.roles), 'role')} asked"
        results = []
        if spoiling:
            verb = "spoils" if spoiling == 1 else "spoil"
            results.append(f"{counted(spoiling, 'difference')} that {verb} comparisons")
        if len(differences) > spoiling:
            results.append(f"{len(differences) - spoiling} to note")
        if self.failures:
            entries = sum(len(entries) for entries in self.failures.values())
            results.append(counted(entries, "failed check"))
        if self.unreachable:
            results.append(f"{short(list(self.unreachable))} not asked")
        if results:
            return one_line(f"{scope}: {', '.join(results)}")
        alike = "nothing is missing" if len(self.nodes) == 1 else "no difference"
        return one_line(f"{scope}: {alike}", "green")


def gather(checkup: Checkup, hosts: Sequence[str] = (), inventory: str = "") -> Answer:
    """Read what verify.yml left in the folder. Raises UserError where it left nothing.

    `inventory` is the path that cures name; without it, the one that verify.yml was given.
    """
    questions = checkup.asked
    if questions is None:
        raise UserError(f"{checkup.path} holds no {names.ASKED}; {played('verify', '')} writes it")
    inventory = inventory or questions.inventory
    nodes = list(hosts) or list(questions.nodes)
    envs, expected, unreachable = {}, {}, {}
    for host in nodes:
        reply = checkup.node(host)
        entry = questions.nodes.get(host, AskedNode())
        if reply.env is not None and not entry.lost:
            envs[host] = reply.env
            expected[host] = reply.expected or {}
        else:
            unreachable[host] = reply.unreachable or "it stopped answering"
    failures = {
        host: [
            {"role": failure.role, "message": spelled_out(failure.message, inventory)}
            for failure in entry.failures
        ]
        for host, entry in questions.nodes.items()
        if host in nodes and entry.failures
    }
    return Answer(
        inventory=checkup.path.name,
        at=questions.at,
        nodes=tuple(nodes),
        roles=questions.roles or (),
        envs=envs,
        unreachable=unreachable,
        failures=failures,
        comparison=compare_nodes(envs, expected),
        mended_by=inventory,
    )
