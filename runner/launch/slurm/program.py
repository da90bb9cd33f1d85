"""What runs on a job's nodes: our programs, left once a campaign on the folder that nodes share."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node.bootstrap import command
from node.files import holds
from plugins.program import bundle
from runner.base.exclusive import make_private
from runner.base.files import atomic_file
from runner.folder import names
from runner.terms.orders import Orders

PYTHON = "python3"  # of the job's PATH, where a pin set is an image


def python_of(orders: Orders) -> str:
    """Return the Python that starts the supervisor: the environment's own, which nodes see."""
    node = orders.nodes[0]
    first_folder = node.env.get("PATH", "").partition(":")[0]
    return f"{first_folder}/{PYTHON}" if first_folder.endswith("/env/bin") else PYTHON


def argv(python: str, entry: str, campaign: Path, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the command line of a program of node/, whose modules `leave` brings."""
    file, text = _modules(entry, campaign)
    message = {
        "file": str(file),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "entry": f"node.{entry}",
        "arguments": {**arguments, "programs": str(file)},
    }
    return (python, "-I", "-S", *command(entry), json.dumps(message))


def leave(entry: str, campaign: Path) -> None:
    """Leave the modules of a program in the campaign's folder, unless just they are there."""
    file, text = _modules(entry, campaign)
    if not holds(str(file), text.encode()):
        make_private(file.parent)
        with atomic_file(file, 0o600, follow=False) as stream:
            stream.write(text.encode())


def _modules(entry: str, campaign: Path) -> tuple[Path, str]:
    """Return the file of a program's modules, and its text.

    A job that waits for days runs what it was submitted with: the file's name is their checksum.
    """
    name, text = bundle(entry)
    return campaign / names.PROGRAMS / name, text
