"""Bring the packages that setup would install from a node to the folder, by the node's own apt.

`debs:` with `step` and `folder` (absolute, on the control node). `step: plan` takes `groups` and
`release` and returns `planned`; `step: fetch` takes `planned` and brings what the
folder lacks, each file checked by its SHA-256, beside it a `.control` with its entry of apt's list.
The node's side is node/packages.py.
"""

import re
import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.checksum import sha256
from node.validated_text import FileName
from plugins import answers
from plugins.node_action import NodeAction

BATCH = 512 << 20  # bytes on the node's disk at a time


def batches(files: dict[str, list[Any]], limit: int = BATCH) -> list[list[str]]:
    """Names in groups of at most `limit` bytes, or of one."""
    groups: list[list[str]] = []
    room = 0
    for name, (size, _) in sorted(files.items()):
        if not groups or size > room:
            groups.append([])
            room = limit
        groups[-1].append(name)
        room -= size
    return groups


def has(path: Path, digest: str) -> bool:
    """Whether the file is there with its checksum, and its entry beside it."""
    there = path.exists() and path.with_name(path.name + ".control").exists()
    return there and sha256(str(path)) == digest


def refuse_other(stanza: str, name: str, item: list[Any]) -> None:
    """Refuse an entry of apt's list that is of another file, or more than one entry."""
    fields = re.findall(r"(?m)^([A-Za-z0-9-]+): ?(.*)$", stanza)
    places = [field for field in fields if field[0] in ("Filename", "Size", "SHA256")]
    size, digest = item
    expected = [("Filename", f"./{name}"), ("Size", str(size)), ("SHA256", digest)]
    if places != expected or re.search(r"\n\s*\n", stanza):
        raise AnsibleActionFail(f"the node's entry of apt's list is not that of {name}")


class ActionModule(NodeAction):
    """`debs:`; its arguments are in tasks/apt.yml."""

    _supports_check_mode = True

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        if arguments["step"] == "plan":
            planned = self.tell("packages:plan", {"groups": arguments["groups"]})
            release = FileName(arguments["release"], "the node's release")
            return {"planned": {**planned, "release": release}}
        scratch = arguments["planned"]["scratch"]
        folder = Path(arguments["folder"], "apt", arguments["planned"]["release"])
        try:
            return {"changed": self._fetch(arguments["planned"], folder)}
        finally:
            self.tell("packages:drop", {"scratch": scratch, "all": True})

    def _fetch(self, planned: dict[str, Any], folder: Path) -> bool:
        """Bring what is lacking; whether there was any."""
        files = planned["files"]
        lacking = {name: item for name, item in files.items() if not has(folder / name, item[1])}
        if lacking and not self._task.check_mode:
            folder.mkdir(parents=True, exist_ok=True)
            for names in batches(lacking):
                spec = {"scratch": planned["scratch"], "files": names}
                answer = self.tell("packages:fetch", spec, answers.debs(names))
                for name in names:
                    refuse_other(answer["stanzas"][name], name, lacking[name])
                    partial = folder / f"{name}.part"
                    self._connection.fetch_file(answer["paths"][name], str(partial))
                    entry = folder / f"{name}.control"
                    entry.write_text(answer["stanzas"][name], encoding="utf-8")
                    partial.replace(folder / name)
                    if not has(folder / name, lacking[name][1]):
                        (folder / name).unlink()
                        raise AnsibleActionFail(f"{name} came damaged; run it again")
                self.tell("packages:drop", {"scratch": planned["scratch"], "all": False})
        return bool(lacking)
