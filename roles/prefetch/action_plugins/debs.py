"""Bring the packages that setup would install from a node to the folder, by the node's own apt.

`debs:` with `step` and `folder` (absolute, on the control node). `step: plan` takes `groups` and
`release` and returns `planned`; `step: fetch` takes `planned` and brings what the
folder lacks, each file checked by its SHA-256, beside it a `.control` with its entry of apt's list.
The node's side is roles/prefetch/files/closure.py.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

PROGRAM = Path(__file__).resolve().parents[1] / "files" / "closure.py"
BATCH = 512 << 20  # bytes on the node's disk at a time


def batches(files: dict[str, list[Any]], limit: int = BATCH) -> list[list[str]]:
    """Names in groups of at most `limit` bytes, or of one."""
    found: list[list[str]] = []
    room = 0
    for name, (size, _) in sorted(files.items()):
        if not found or size > room:
            found.append([])
            room = limit
        found[-1].append(name)
        room -= size
    return found


def has(path: Path, sha256: str) -> bool:
    """Whether the file is there with its checksum, and its entry beside it."""
    if not path.exists() or not path.with_name(path.name + ".control").exists():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


class ActionModule(ActionBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """`debs:`; its arguments stand in tasks/apt.yml."""

    _supports_check_mode = True
    _supports_async = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = (task_vars or {}).get("ansible_python_interpreter") or "/usr/bin/python3"
        self.python = str(self._templar.template(given))
        arguments = self._task.args
        if arguments["step"] == "plan":
            planned = self._call("plan", {"groups": arguments["groups"]})
            result["planned"] = {**planned, "release": arguments["release"]}
            return result
        scratch = arguments["planned"]["scratch"]
        folder = Path(arguments["folder"], "apt", arguments["planned"]["release"])
        try:
            result["changed"] = self._fetch(arguments["planned"], folder)
        finally:
            self._call("drop", {"scratch": scratch, "all": True})
        return result

    def _fetch(self, planned: dict[str, Any], folder: Path) -> bool:
        """Bring what is lacking; whether there was any."""
        files = planned["files"]
        lacking = {name: item for name, item in files.items() if not has(folder / name, item[1])}
        if lacking and not self._task.check_mode:
            folder.mkdir(parents=True, exist_ok=True)
            for names in batches(lacking):
                spec = {"scratch": planned["scratch"], "files": names}
                answer = self._call("fetch", spec)
                for name in names:
                    part = folder / f"{name}.part"
                    self._connection.fetch_file(answer["paths"][name], str(part))
                    entry = folder / f"{name}.control"
                    entry.write_text(answer["stanzas"][name], encoding="utf-8")
                    part.replace(folder / name)
                    if not has(folder / name, lacking[name][1]):
                        (folder / name).unlink()
                        raise AnsibleActionFail(f"{name} came damaged; run it again")
                self._call("drop", {"scratch": planned["scratch"], "all": False})
        return bool(lacking)

    def _call(self, step: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Run closure.py on the node; its answer. Raises AnsibleActionFail with its words."""
        argv = [self.python, "-I", "-c", PROGRAM.read_text(encoding="utf-8"), step]
        answer = self._low_level_execute_command(
            shlex.join(argv), in_data=json.dumps(spec).encode()
        )
        for line in answer["stdout_lines"]:
            if line.startswith("TRAINBENCH "):
                said: dict[str, Any] = json.loads(line[len("TRAINBENCH ") :])
                return said
        words = (answer["stderr"] or answer["stdout"]).strip().splitlines()
        raise AnsibleActionFail(words[-1] if words else f"no answer (exit {answer['rc']})")
