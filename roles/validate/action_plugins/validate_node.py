"""Say all that is wrong with an inventory and a node, before anything is touched.

One task: what the inventory holds is compared with the roles' argument specs on the control node;
then the node is asked once, by a few lines of sh, since its Python may be too old for a module. A
node that cannot be reached is a failure with a cure, not an `unreachable`. The node's distribution
becomes facts (`ansible_facts.distribution` and its like), which the other roles read.
"""

from __future__ import annotations

import difflib
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible import context
from ansible.errors import AnsibleConnectionFailure

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from plugins.node_action import NodeAction

TO_EDIT = "EDIT-ME"  # runner/cluster.py has the same
# Names that belong to no single role; roles/validate/meta/argument_specs.yml has them.
SHARED = ("cluster", "setup", "site")
NAMES = {"ubuntu": "Ubuntu", "debian": "Debian"}

# $1 is the Python that modules would run with, $2 the root folder. Answers are lines `key=value`.
ASK = r"""
say() { printf 'TRAINBENCH %s=%s\n' "$1" "$2"; }
( ID= VERSION_ID= VERSION_CODENAME= PRETTY_NAME=
  if [ -r /etc/os-release ]; then . /etc/os-release; fi
  say id "$ID"; say version "$VERSION_ID"; say release "$VERSION_CODENAME"
  say pretty "$PRETTY_NAME" )
say machine "$(uname -m)"
say kernel "$(uname -r)"
say user "$(id -un)"
say uid "$(id -u)"
say python "$("$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)"
say apt "$("$1" -c 'import apt; print("yes")' 2>/dev/null)"
if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then say root yes; fi
place=$2
while [ ! -e "$place" ] && [ "$place" != / ]; do place=$(dirname "$place"); done
if [ -w "$place" ]; then say writable yes; fi
"""


# YAML in C where this Python has it: every run reads the specs of all roles once a node.
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


# --- the inventory (pure) -------------------------------------------------------------------------


def nearest(word: str, right: Iterable[str]) -> str:
    """` (did you mean X?)`, or an empty string where nothing is near."""
    found = difflib.get_close_matches(word, sorted(right), n=1, cutoff=0.6)
    return f" (did you mean {found[0]}?)" if found else ""


def unknown(variables: Iterable[str], roles: Mapping[str, set[str]]) -> list[str]:
    """Variables that bear a role's name in front and are none of its: misspelt, most likely."""
    known = set().union(*roles.values())
    faults = []
    for name in sorted(set(variables) - known):
        owners = [role for role in (*roles, *SHARED) if name.startswith(f"{role}_")]
        if owners:
            owner = max(owners, key=len)
            near = nearest(name, (right for right in known if right.startswith(f"{owner}_")))
            where = "docs/inventory.md" if owner in SHARED else f"roles/{owner}/README.md"
            faults.append(f"there is no variable {name}{near}; {where} lists those that there are")
    return faults


def inventory_faults(
    host: str,
    arguments: Mapping[str, Any],
    variables: Iterable[str],
    roles: Mapping[str, set[str]],
    trainers: Iterable[str],
) -> list[str]:
    """What is wrong with the inventory, without a connection; `trainers` are all that there are."""
    faults = []
    if arguments["address"] == TO_EDIT:
        faults.append(
            f"the address of {host} is still {TO_EDIT}; write it into ansible_host in hosts.yml of"
            " the inventory"
        )
    root = str(arguments["cluster_root"])
    if not root.startswith("/") and not arguments["local"]:
        faults.append(f"cluster_root is {root}; on a remote node it must be absolute")
    there = set(trainers)
    faults += [
        f"cluster_systems names {name}{nearest(name, there)}; `python -m runner systems` lists"
        " what there is"
        for name in arguments["trainers"]
        if name not in there
    ]
    return faults + unknown(variables, roles)


# --- the node (pure) ------------------------------------------------------------------------------


def numbers(version: str) -> tuple[int, ...]:
    """3.8.10 as (3, 8, 10); nothing for no version."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def node_faults(
    host: str,
    said: Mapping[str, str],
    arguments: Mapping[str, Any],
    *,
    python: str,
    named: bool,
    password: bool,
) -> list[str]:
    """What is wrong with the node; `said` is its answer to ASK.

    `python` is the interpreter's path and `named` whether the inventory names it; `password`:
    somebody has given one for sudo, or another way to become root.
    """
    faults = system_faults(host, said, arguments, python=python, named=named)
    user, root = said.get("user", ""), arguments["root"]
    if arguments["privileged"] and "root" not in said and not password:
        faults.append(
            f"setup needs root on {host}, and {user} may not sudo without a password; allow it"
            f" (`{user} ALL=(ALL) NOPASSWD: ALL` in sudoers), run with --ask-become-pass, or set"
            " setup_privileged: false to leave out what needs root"
        )
    if "writable" not in said:
        faults.append(
            f"{user} may not write to {root} on {host}; make the folder and give it to {user}, or"
            " name another cluster_root"
        )
    return faults


def system_faults(
    host: str,
    said: Mapping[str, str],
    arguments: Mapping[str, Any],
    *,
    python: str,
    named: bool,
) -> list[str]:
    """Its distribution and its Python: both supported, or one that can be lived with."""
    supported: Mapping[str, list[str]] = arguments["systems"]
    lowest = str(arguments["python"])
    wanted = "; ".join(f"{NAMES[name]} {', '.join(found)}" for name, found in supported.items())
    called = said.get("pretty") or said.get("id") or "a system without /etc/os-release"
    version = said.get("python", "")
    is_supported = said.get("version") in supported.get(said.get("id", ""), [])
    if not version:
        return [
            f"{host} has no Python at {python}; install python3, or name another one in"
            f" ansible_python_interpreter ({lowest} or newer)"
        ]
    if numbers(version) < numbers(lowest):
        cure = f"name a newer one in ansible_python_interpreter ({lowest} or newer)"
        if not is_supported:
            cure = f"install a supported system ({wanted}), or {cure}"
        return [
            f"{host} is {called}, and Ansible's modules cannot run with its Python {version} at"
            f" {python}; {cure}"
        ]
    if is_supported or not arguments["privileged"]:
        return []
    # Whoever names a Python that has apt's module has seen to it that packages can be managed.
    if named and said.get("id") in supported and said.get("apt") == "yes":
        return []
    return [
        f"{host} is {called}, where packages cannot be managed; supported are {wanted}; or set"
        " setup_privileged: false, and driver, CUDA and compilers are used as they are"
    ]


def facts(said: Mapping[str, str]) -> dict[str, Any]:
    """What other roles read, under the names that Ansible's own facts have."""
    name, version = said.get("id", ""), said.get("version", "")
    return {
        "_ansible_facts_gathered": True,  # plays with `gathering = smart` ask no more
        "ansible_distribution": NAMES.get(name, name),
        "ansible_distribution_version": version,
        "ansible_distribution_major_version": version.partition(".")[0],
        "ansible_distribution_release": said.get("release", ""),
        "ansible_os_family": "Debian" if name in NAMES else name,
        "ansible_architecture": said.get("machine", ""),
        "ansible_kernel": said.get("kernel", ""),
        "ansible_python_version": said.get("python", ""),
    }


def unreachable(host: str, address: str, words: str) -> str:
    """One sentence for a node that does not answer."""
    said = " ".join(words.split())
    said = re.sub(r"^.*?(?:via ssh|over ssh): ", "", said).rstrip(". ") or "no answer"
    called = host if host == address else f"{host} ({address})"
    return (
        f"{called} cannot be reached: {said}; see that it is on, that its address in the inventory"
        f" is right and that it takes your key (`ssh {address}` must not ask), or leave it out with"
        f" --limit '!{host}'"
    )


# --- effects --------------------------------------------------------------------------------------


def derived(playbooks: Path) -> set[str]:
    """The names that the playbooks themselves derive from an inventory's."""
    path = playbooks / "group_vars" / "all.yml"
    return set(yaml.load(path.read_text(encoding="utf-8"), Loader=Loader))  # noqa: S506  # safe one


def options(roles: Path) -> dict[str, set[str]]:
    """Role to the names of its variables, from every entry of its argument specs."""
    found = {}
    for path in roles.glob("*/meta/argument_specs.yml"):
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)  # noqa: S506  # safe one
        specs = loaded["argument_specs"]
        found[path.parents[1].name] = {
            name for entry in specs.values() for name in entry.get("options") or {}
        }
    return found


class ActionModule(NodeAction):
    """`validate_node:`; its arguments stand in tasks/main.yml."""

    _supports_check_mode = True
    default_python = "auto"

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        host = str(variables["inventory_hostname"])
        roles = Path(arguments["roles"])
        trainers = [path.parents[1].name for path in roles.glob("*/vars/pins.yml")]
        known = {**options(roles), "playbooks": derived(roles.parent / "playbooks")}
        faults = inventory_faults(host, arguments, variables, known, trainers)
        if not faults:
            try:
                said, faults = self._ask(host, arguments, variables)
                result["ansible_facts"] = facts(said)
            except AnsibleConnectionFailure as error:
                faults = [unreachable(host, str(arguments["address"]), str(error))]
        result.update(changed=False, failed=bool(faults))
        if faults:
            result.pop("ansible_facts", None)
            result["msg"] = "\n".join(faults)
        return result

    def _ask(
        self, host: str, arguments: Mapping[str, Any], variables: Mapping[str, Any]
    ) -> tuple[dict[str, str], list[str]]:
        """The node's answer, and what is wrong with it. Raises AnsibleConnectionFailure."""
        named = not self.python.startswith("auto")
        python = self.python if named else NodeAction.default_python
        argv = ["sh", "-c", ASK, "ask", python, str(arguments["root"])]
        answer = self._low_level_execute_command(shlex.join(argv))
        lines = [
            line[len("TRAINBENCH ") :]
            for line in answer["stdout_lines"]
            if line.startswith("TRAINBENCH ")
        ]
        if not lines:
            words = (answer["stderr"] or answer["stdout"]).strip() or f"exit {answer['rc']}"
            raise AnsibleConnectionFailure(f"its shell gives no answer: {words}")
        said = {key: value for key, _, value in (line.partition("=") for line in lines)}
        asked = context.CLIARGS.get("become_ask_pass") or context.CLIARGS.get(
            "become_password_file"
        )
        password = bool(asked) or any(
            variables.get(name)
            for name in ("ansible_become_password", "ansible_become_pass", "ansible_become_method")
        )
        return said, node_faults(
            host, said, arguments, python=python, named=named, password=password
        )
