"""Campaign folders with one file made wrong: every command that reads them, and the next bench.

A file of one run ends no table: `collect` and `status` go on (exit code 0), the other runs' status
and figures are as they were, and the next bench comes to its end. What is wrong with campaign.json
is one sentence.
"""

import io
import json
import random
import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

from runner.base.console import Screen
from runner.base.errors import UserError
from runner.folder import names
from runner.launch.bench import bench
from runner.launch.view import View
from tests.fuzz import campaign
from tests.fuzz.case import FindingError, printable, said, strict
from tests.fuzz.mutation import mutated, mutated_json, some
from tests.runner import campaigns
from tests.runner.launch.test_campaign import Nodes
from tests.runner.test_mutated import CLUSTER, MATRIX

FORMATS = ("json", "csv", "table", "markdown")
FLAT = ("--shape", "flat", "--format", "json")
KEPT = ("status", "step_time_ms", "samples_per_s", "memory_used_mib", "final_loss")


class Folders:
    """One file of a campaign, the path as the case's first line."""

    name = "folders"
    share = 8

    @cached_property
    def paths(self) -> list[bytes]:
        """Files that are read again; JSON more often, as it has more shapes."""
        skip = (names.LOCK, names.SCRIPT)
        paths = [path for path in campaign.files() if not path.endswith(skip)]
        return [path.encode() for path in paths + [p for p in paths if p.endswith(".json")] * 2]

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}  # by cell, where nothing is wrong

    def make(self, chance: random.Random) -> bytes:
        """A file of the campaign made wrong."""
        path = some(chance, self.paths)
        content = campaign.files()[path.decode()]
        if path.endswith((b".json", b"halt", b"prepared")) and chance.random() < 0.85:
            return path + b"\n" + mutated_json(json.loads(content), chance)
        return path + b"\n" + mutated(content, chance)

    def judge(self, data: bytes, folder: Path) -> None:
        """Read the campaign by one command, chosen by the input; sometimes by a bench."""
        path, _, content = data.partition(b"\n")
        runs, name = folder / "runs", path.decode()
        if not runs.exists():
            campaign.lay_out(runs)
            self.rows = self.rows or _rows(runs)
        (runs / name).write_bytes(content)
        what = sum(data[-64:]) + len(data)
        try:
            if what % 32 == 0:
                target = ["-o", str(runs / "x.tar.gz"), "--redact"]
                said(["export", campaign.NAME, "--runs", str(runs), *target])
            elif what % 8 == 1:
                again(runs, name)
                shutil.rmtree(runs)
            else:
                self._read(runs, name, what % 7)
        except BaseException:
            shutil.rmtree(runs, ignore_errors=True)
            raise
        if runs.exists():
            (runs / name).write_bytes(campaign.files()[name])

    def _read(self, runs: Path, path: str, which: int) -> None:
        where = ["--runs", str(runs)]
        if which == 2:
            (runs / "a.json").write_text(said(["collect", *where, *FLAT]).out)
            said(["compare", str(runs / "a.json"), campaign.NAME, *where])
            return
        asks = ["collect", "--format", FORMATS[which - 3]] if which > 2 else ["status"]
        asks += ["--format", "json"] if which == 0 else []
        if said([*asks, *where]).code == 2 and path != campaign.TORN:
            raise FindingError(f"{asks[0]}: one {Path(path).name} ends the table of all")
        if which == 3 and path.count("/") > 2:
            rows = _rows(runs)
            for cell, before in self.rows.items():
                for name in KEPT if before["cell_id"] not in path else ():
                    if rows.get(cell, {}).get(name) != before[name]:
                        raise FindingError(f"one run's file changes another's {name}")


def _rows(runs: Path) -> dict[str, dict[str, Any]]:
    answer = said(["collect", "--runs", str(runs), *FLAT])
    if "report it with" in answer.out:
        raise FindingError("no kind of file refuses it: what catches all else does")
    return {row["cell"]: {**row["figures"], **row} for row in strict("collect", answer.out)["rows"]}


def again(runs: Path, path: str) -> None:
    """The next bench: it runs what is left, or says why not, and comes to its end."""
    out = io.StringIO()
    view, nodes = View(Screen(file=out)), Nodes()
    nodes.commit, nodes.data = campaigns.COMMIT, campaigns.DATA
    try:
        bench(MATRIX, CLUSTER, runs, engine=nodes, view=view)
    except UserError as error:
        printable("bench's refusal", str(error))
        if path.count("/") > 2:
            raise FindingError(f"bench: one {Path(path).name} ends it") from error
    printable("bench's progress", out.getvalue())
