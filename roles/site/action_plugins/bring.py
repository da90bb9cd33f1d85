"""Bring a prefetched folder's files to the node: those alone that it lacks, by checksum.

`bring:` with `source` (the folder that playbooks/prefetch.yml filled, on the control node),
`folder` (where it is on the node) and `data` (whether this node prepares the datasets, and so
needs their files) and `release` (whose
packages it takes, such as debian12; empty for none). The node's side is node/prefetched.py.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ansible.errors import AnsibleActionFail

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.parsing import load
from node.prefetched import FILES
from node.schema import Fields, List, Mapped, Text, UnfitError
from node.validated_text import FileName, InsidePath
from plugins.node_action import NodeAction

MANIFEST = "manifest.json"
PLACE = Text(r"(?!/)(?!.*\.\.)[^\x00-\x1f]+")  # a path in the folder; some end with a slash
KIND = Fields(
    {
        "files": FILES,
        "datasets": List(InsidePath),
        "mirrors": Mapped(Text(), Mapped(Text(), PLACE)),
    }
)


def read_manifest(source: Path) -> dict[str, Any]:
    """What the folder has. Raises AnsibleActionFail where prefetch.yml did not fill it."""
    try:
        content: dict[str, Any] | None = load(str(source / MANIFEST), KIND)
        why = ""
    except UnfitError as error:
        content, why = None, f" ({error})"
    if content is None:
        raise AnsibleActionFail(
            f"site_prefetched names {source}, which has no whole {MANIFEST}{why}; fill it first:"
            f" python -m runner prefetch -i INVENTORY -e prefetch_dir={source}"
        )
    return content


def needed(manifest: dict[str, Any], *, data: bool, release: str = "") -> dict[str, list[Any]]:
    """The files for one node: its own release's packages, and those of datasets if it prepares."""
    only = set(manifest["datasets"])
    own_release = f"apt/{release}/"
    return {
        path: item
        for path, item in manifest["files"].items()
        if (data or path not in only)
        and (not path.startswith("apt/") or (release and path.startswith(own_release)))
    }


def mirrors_in(folder: str, places: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """`site_mirrors` on the node: pip takes a folder of wheels, the others an address."""
    return {
        kind: {
            public: f"{folder}/{path}" if kind == "pip" else f"file://{quote(f'{folder}/{path}')}"
            for public, path in addresses.items()
        }
        for kind, addresses in places.items()
    }


class ActionModule(NodeAction):
    """`bring:`; its arguments are in tasks/main.yml."""

    TRANSFERS_FILES = True
    _supports_check_mode = True

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        source, folder = Path(arguments["source"]), str(arguments["folder"])
        manifest = read_manifest(source)
        release = FileName(arguments["release"], "the release") if arguments["release"] else ""
        files = needed(manifest, data=bool(arguments["data"]), release=release)
        check = bool(self._task.check_mode)
        spec = {"folder": folder, "files": files, "place": [], "check": check}
        before = self.tell("prefetched:have", spec)
        changed = bool(before["lacking"] or before["extra"])
        if before["lacking"] and not check:
            # what it is sent is what it was told of, and no other file of this machine
            if strays := [path for path in before["lacking"] if path not in files]:
                raise AnsibleActionFail(
                    f"the node asks for {strays[0]!r}, which it was not offered"
                )
            if len(before["lacking"]) != len(set(before["lacking"])):
                raise AnsibleActionFail(
                    "the node asks for one file several times; it is sent each once, and only as"
                    " setup offers it: run setup again, and look at that node if it stays"
                )
            for path in before["lacking"]:
                if not (source / path).is_file():
                    raise AnsibleActionFail(
                        f"{source / path} is gone; run playbooks/prefetch.yml again"
                    )
                self._connection.put_file(str(source / path), f"{folder}/{path}.part")
            self.tell("prefetched:have", {**spec, "place": before["lacking"]})
        packages = f"apt/{release}"
        return {
            "changed": changed,
            "brought": before["lacking"],
            "mirrors": mirrors_in(folder, manifest["mirrors"]),
            "apt": f"{folder}/{packages}" if f"{packages}/Release" in files else "",
        }
