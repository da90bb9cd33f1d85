"""The steps around a change, which write ledgers and keys."""

from __future__ import annotations

import json
import os
from typing import Any

from node.files import write_text

from . import ledger as books
from .compare import compare, own_repositories
from .keys import dearmor, key_fault
from .machine import CHECK_S, LEDGERS, ROOT, read_machine, run
from .repositories import keyring
from .spec import Spec, StateError

MOST_BYTES = 1 << 20  # of a key


def write_ledger(name: str, ledger: dict[str, Any]) -> None:
    """Write it whole or not at all."""
    os.makedirs(LEDGERS, mode=0o755, exist_ok=True)
    text = json.dumps(ledger, indent=1, sort_keys=True)
    write_text(f"{LEDGERS}/{name}.json", text, mode=0o600, survives_power_loss=True)


def begin(spec: Spec) -> dict[str, Any]:
    """Write down what there is."""
    machine = read_machine(spec)
    todo = compare(spec, machine)["todo"]
    write_ledger(spec["name"], books.before(spec, machine, todo))
    return {}


def fetched_key(repository: Spec) -> bytes:
    """A repository's key, as apt takes it. Raises StateError for one that is not the right one."""
    import http.client
    import urllib.request  # a third of the time of a look, which needs neither

    try:
        # any scheme: at an air-gapped site a key is a file
        with urllib.request.urlopen(repository["key"], timeout=CHECK_S) as answer:  # noqa: S310
            data = answer.read(MOST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", error)
        raise StateError(
            f"cannot fetch {repository['key']} ({why}); bring that server back, or name a proxy in "
            "site_proxy or a mirror in site_mirrors.apt"
        ) from None
    fault = key_fault(data, repository["fingerprints"])
    if fault:
        raise StateError(
            f"what {repository['key']} gives is not the key of repository {repository['name']}: "
            f"{fault}; correct the mirror, or name its own key in site_apt_fingerprints"
        )
    return dearmor(data)


def keys(spec: Spec) -> dict[str, Any]:
    """Fetch the keys that are missing or wrong, and install them."""
    machine = read_machine(spec)
    missing = compare(spec, machine)["todo"]["keys"]
    for repository in own_repositories(spec, machine):
        if repository["name"] in missing:
            path = ROOT + keyring(repository)
            with open(path + ".new", "wb") as file:
                file.write(fetched_key(repository))
            os.chmod(path + ".new", 0o644)
            os.replace(path + ".new", path)
    return {}


def finish(spec: Spec) -> dict[str, Any]:
    """Count what is new; nothing may differ any more."""
    return count(spec, complete=True)


def account(spec: Spec) -> dict[str, Any]:
    """Count what is new after a failure."""
    return count(spec, complete=False)


def count(spec: Spec, complete: bool) -> dict[str, Any]:
    """Count what is new; with ``complete`` nothing may differ any more."""
    machine = read_machine(spec)
    owed = machine.ledger.get("owed", {})
    machine.ledger["owed"] = {}
    differences = compare(spec, machine)["differences"]
    machine.ledger["owed"] = owed
    if "before" in machine.ledger:
        write_ledger(
            spec["name"], books.account(spec, machine, complete=complete and not differences)
        )
    if complete and differences:
        raise StateError("setup finished, but these still differ: " + "; ".join(differences))
    return {"differences": differences}


def undo(spec: Spec) -> dict[str, Any]:
    """What takes it all off again."""
    machine = read_machine(spec)
    # exit code 0 and a note where there is no such version
    descriptions = {item: run(["apt-cache", "show", item])[1] for item in books.removed(machine)}
    plan = books.undo(
        machine, [item for item, text in descriptions.items() if "\nVersion: " in text]
    )
    return {**plan, "told": books.removal_lines(plan)}


def forget(spec: Spec) -> dict[str, Any]:
    """Remove the ledger once nothing of it is left."""
    machine = read_machine(spec)
    plan = books.undo(machine)
    remaining = plan["remove"] + plan["install"] + plan["delete"] + [
        path for item in plan["unmake"] for path in item["paths"] if path in machine.paths
    ]  # fmt: skip
    if remaining:
        raise StateError(f"these could not be undone: {', '.join(remaining)}; run teardown again")
    if machine.ledger:
        os.unlink(f"{LEDGERS}/{spec['name']}.json")
        if not os.listdir(LEDGERS):
            os.rmdir(LEDGERS)
    return {"stays": plan["stays"]}
