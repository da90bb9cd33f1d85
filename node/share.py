"""Bring datasets, and images, from the nodes that have them to those that do not, node to node.

Every node concerned runs this program at the same time. Each serves what it has, over HTTP on its
own address in the cluster, and fetches what it lacks from the others, a chunk at a time, from
anyone who has that chunk already. So the first chunks come from the holders, and while a node
fetches the next one it gives on the last: all links are busy at once, the holders send each byte a
few times however many nodes there are, and there are no rounds, no order and nobody in charge who
could be lost. (A tree or a chain would be as fast, but a node that goes away takes its branch with
it.) Neither the control node, nor root, nor ssh between the nodes takes part.

    share:share     take part; answer what came and went

Its spec, which is on no command line, since the token lets read:

    root, me              where datasets lie here; this node's name
    token                 of this one run: who does not know it gets nothing
    addresses, port       name to address of every node that takes part, and where all listen
    identity              of each dataset, by its name
    gives, gets           node to the names of what it has, and of what it lacks
    recorded              of a dataset, by its name, the addresses whose checksums its dataset.json
                          may record on the nodes that get it; none without

node/sharing/ says how a file goes from one to the other.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from node import fetch, manifest_folders
from node.answer import ProgramError
from node.program_output import FULL
from node.schema import Mapped
from node.sharing.getting import Getter
from node.sharing.serving import Hub, listen
from node.sharing.shelf import Shelf
from node.validated_text import FileName, Sha256

ASKED = Mapped(FileName, Sha256)  # datasets and their identities, which other nodes said


def share(spec: dict[str, Any]) -> dict[str, Any]:
    """Take part alone among the programs that change the folder; what came and went, in bytes."""
    try:
        with manifest_folders.locked(spec["root"]):
            return exchange(spec)
    except ProgramError as error:
        raise ProgramError(f"dataset error: {error}") from None
    except OSError as error:
        reason = fetch.full(spec["root"], "a dataset", None) if error.errno in FULL else error
        raise ProgramError(f"dataset error: {reason}") from None


def exchange(spec: dict[str, Any]) -> dict[str, Any]:
    """Take part until there is no more to do; what came and went, in bytes."""
    root, me = spec["root"], spec["me"]
    folder = os.path.join(root, ".work", "share")
    os.makedirs(folder, exist_ok=True)
    shelf = Shelf(folder)
    has, wants = (
        ASKED.check({name: spec["identity"][name] for name in spec[key].get(me, ())}, key)
        for key in ("gives", "gets")
    )
    for name, identity in has.items():
        shelf.add_dataset(os.path.join(root, name), identity)
    hub = Hub(spec, shelf)
    getter = Getter(spec, shelf)
    server = None
    try:
        server = listen(spec["addresses"][me], spec["port"], hub)
        for name, identity in wants.items():
            getter.dataset(name, identity)
    finally:
        if wants:
            getter.done()
        lost: list[str] = []
        if server is not None:
            lost = hub.wait() if has else []
            hub.close()
            server.shutdown()
            server.server_close()
    shutil.rmtree(folder)  # only now: until here all of it was given on
    return {
        "received": getter.received,
        "resumed": getter.resumed,
        "sent": hub.sent,
        "lost": lost,
    }
