"""The six tools of the server, each a command with `--format json`. Nothing here deletes or stops.

What a command prints is marked (marked.py), and what may be claimed is added (claims.py).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.printable import printable
from runner.agent import budget, claims
from runner.agent.marked import marked
from runner.agent.owner import Owner, allowed, names_of
from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.board.run_checks import run_problems
from runner.compare.side import side
from runner.compare.verdicts import compare_campaigns, thresholds
from runner.document.campaign_document import CampaignDocument
from runner.document.campaign_reading import read_campaign
from runner.folder.campaign import Campaign, campaigns
from runner.plan.make import campaign_name

COMMAND_S = 300.0  # that a command may take; bench goes on without us
MOST_BYTES = 8 << 20
_LEFT_OUT = ("nodes", "curves", "evidence_missing")  # of a run: commands, environments
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class AgentTool:
    """A tool: its name, what it does, its text arguments (name to what it is), how it is called."""

    name: str
    description: str
    arguments: Mapping[str, str]
    call: Callable[[Owner, Arguments], dict[str, Any]]
    read_only: bool = True

    def check(self, arguments: Arguments) -> None:
        """Refuse an unknown argument, or one that is not text. Raises UserError."""
        for name in arguments:
            if name not in self.arguments:
                raise UserError(
                    f"{self.name} has no argument {printable(str(name))[:60]!r}; it has"
                    f" {', '.join(self.arguments)}"
                )
        for name in self.arguments:
            value = arguments.get(name)
            if not isinstance(value, str) or not 0 < len(value) <= 200:
                raise UserError(f"{self.name} needs {name}: {self.arguments[name]}")


def plan(owner: Owner, arguments: Arguments) -> dict[str, Any]:
    """Say what a bench of the matrix would run, for how long, and what is left of the budget."""
    chosen = allowed(owner, arguments["matrix"])
    document = _command(owner, "bench", str(chosen.copy), "-i", str(owner.inventory), "--plan")
    return {"plan": marked(document), "budget": _budget(owner, document, chosen.nodes)}


def bench(owner: Owner, arguments: Arguments) -> dict[str, Any]:
    """Begin or go on with the matrix's campaign, within the budget; return at once."""
    chosen = allowed(owner, arguments["matrix"])
    if busy := budget.running(owner.runs):
        raise UserError(f"campaign {busy.name} runs now; ask for its status, one at a time")
    document = _command(owner, "bench", str(chosen.copy), "-i", str(owner.inventory), "--plan")
    state = _budget(owner, document, chosen.nodes)
    left_s = state["left_node_hours"] * budget.HOUR_S / chosen.nodes
    expected = state["expected_node_hours"]
    if left_s < budget.LEAST_S:
        raise UserError("the owner's budget is spent; only the owner can give more")
    if expected is not None and expected > state["left_node_hours"]:
        raise UserError(
            f"over budget: about {expected:.3g} node-hours are needed, and"
            f" {state['left_node_hours']:.3g} are left; name a smaller matrix"
        )
    begun = _command(
        owner,
        *("bench", str(chosen.copy), "-i", str(owner.inventory)),
        *("--detach", "--stop-after", f"{left_s:.0f}"),
    )
    name = campaign_name(chosen.matrix, owner.cluster)
    return {"campaign": name, "begun": marked(begun), "ends_after_s": left_s, "budget": state}


def status(owner: Owner, arguments: Arguments) -> dict[str, Any]:
    """Say how far a campaign has got."""
    name = _campaign(owner, arguments["campaign"]).name
    return {"status": marked(_command(owner, "status", "--campaign", name))}


def collect(owner: Owner, arguments: Arguments) -> dict[str, Any]:
    """Return a campaign's table, and what may be claimed against its baseline."""
    campaign = _campaign(owner, arguments["campaign"])
    document = _command(owner, "collect", "--campaign", campaign.name)
    for row in document["rows"]:
        for run in row.get("runs", ()):
            for key in _LEFT_OUT:
                run.pop(key, None)
    read, problems = _read(campaign)
    allowed_claims = claims.of_campaign(read.rows, problems)
    return {"table": marked(document), "claims": [marked(c.to_json()) for c in allowed_claims]}


def compare(owner: Owner, arguments: Arguments) -> dict[str, Any]:
    """Compare campaign b with campaign a, by the shipped thresholds; and what may be claimed."""
    a, b = (_campaign(owner, arguments[name]) for name in ("a", "b"))
    document = _command(owner, "compare", a.name, b.name)
    (read_a, problems_a), (read_b, problems_b) = _read(a), _read(b)
    comparison = compare_campaigns(
        side(a.name, read_a), side(b.name, read_b), thresholds([]), allow_missing=True
    )
    problems = {**problems_a, **problems_b}
    allowed_claims = claims.of_two(comparison, read_a.rows, read_b.rows, problems)
    return {
        "comparison": marked(document),
        "claims": [marked(claim.to_json()) for claim in allowed_claims],
    }


def expect(owner: Owner, arguments: Arguments) -> dict[str, Any]:
    """Set a campaign's speeds beside those that others published for the same conditions."""
    name = _campaign(owner, arguments["campaign"]).name
    return {"expect": marked(_command(owner, "expect", name))}


_MATRIX = {"matrix": "a file's name in the owner's folder, such as zero.yaml"}
_CAMPAIGN = {"campaign": "a campaign's name, as bench returned it"}
TOOLS: Sequence[AgentTool] = (
    AgentTool("plan", plan.__doc__ or "", _MATRIX, plan),
    AgentTool("bench", bench.__doc__ or "", _MATRIX, bench, read_only=False),
    AgentTool("status", status.__doc__ or "", _CAMPAIGN, status),
    AgentTool("collect", collect.__doc__ or "", _CAMPAIGN, collect),
    AgentTool("compare", compare.__doc__ or "", {"a": "a campaign", "b": "another"}, compare),
    AgentTool("expect", expect.__doc__ or "", _CAMPAIGN, expect),
)


def _budget(owner: Owner, document: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """Return node-hours: the owner's, spent, left, and what a plan is expected to take."""
    spent = budget.spent_node_s(owner.runs) / budget.HOUR_S
    expected = document.get("expected_s")
    return {
        "node_hours": owner.budget_h,
        "spent_node_hours": round(spent, 4),
        "left_node_hours": max(0.0, owner.budget_h - spent),
        "expected_node_hours": None if expected is None else expected * nodes / budget.HOUR_S,
        "matrices": names_of(owner),
    }


def _campaign(owner: Owner, name: str) -> Campaign:
    """Return a campaign of the owner's folder of runs. Raises UserError."""
    there = {campaign.name: campaign for campaign in campaigns(owner.runs)}
    if name not in there:
        raise UserError(
            f"there is no campaign {printable(name)[:80]!r}; campaigns:"
            f" {', '.join(sorted(there)[:20]) or 'none yet'}"
        )
    return there[name]


def _read(campaign: Campaign) -> tuple[CampaignDocument, claims.Problems]:
    document = read_campaign(campaign, Path.cwd())
    return document, run_problems(campaign, document)


def _command(owner: Owner, *arguments: str) -> dict[str, Any]:
    """Run a command as a process; what it printed. Raises UserError with its sentences."""
    argv = [sys.executable, "-m", "runner", *arguments, "--runs", str(owner.runs)]
    path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
    try:
        process = subprocess.run(
            [*argv, "--format", "json", "--non-interactive"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_S,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{arguments[0]} took longer than {COMMAND_S:.0f} s") from None
    if len(process.stdout) > MOST_BYTES:
        raise UserError(f"{arguments[0]} printed more than {MOST_BYTES >> 20} MiB")
    try:
        document = json.loads(process.stdout)
    except ValueError:
        complaint = printable(process.stderr.decode("utf-8", "replace").strip())[-500:]
        raise UserError(
            f"{arguments[0]} ended with exit code {process.returncode}: {complaint}"
        ) from None
    if "error" in document:
        raise UserError("; ".join(map(str, document["error"])))
    return dict(document)
