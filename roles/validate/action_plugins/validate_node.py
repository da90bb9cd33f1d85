"""Say all that is wrong with an inventory and a node, before anything is touched.

What the inventory holds is compared with what there is (plugins/inventory_check.py); then the node
is asked once, by a few lines of sh, since its Python may be too old for a module. A node that
cannot be reached is a failure with a cure, not an `unreachable`. The node's distribution becomes
facts (`ansible_facts.distribution` and its like), which the other roles read.
"""

import os
import re
import secrets
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.oldest_python import OLDEST_NAME, OLDEST_PYTHON
from node.printable import printable
from plugins import disk_estimate
from plugins import inventory_check as check
from plugins.bounded import bounded
from plugins.node_action import MOST_BYTES, NodeAction

MOST_LINES = 1_000  # of an answer; MOST_LETTERS of each
MOST_LETTERS = 200
NAMES = {"ubuntu": "Ubuntu", "debian": "Debian"}

# $1 is the Python that modules would run with, $2 the root folder, $3 what follows gcc in the name
# of the compiler (-10, or nothing), the others files below the root. Answers are lines `key=value`.
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
say gcc "$(command -v "g++$3" >/dev/null 2>&1 && "gcc$3" -dumpversion 2>/dev/null)"
say cc "$(command -v gcc || command -v clang)"
place=$2
root=$2
shift 3
for name; do
  if [ -e "$root/$name" ]; then say "there:$name" yes; fi
done
while [ ! -e "$place" ] && [ "$place" != / ]; do place=$(dirname "$place"); done
if [ -w "$place" ]; then say writable yes; fi
say free "$(df -Pk "$place" 2>/dev/null | awk 'NR == 2 { print $4 }')"
say inode "$(stat -c %i "$place" 2>/dev/null)"
"""


# --- the node (pure) ------------------------------------------------------------------------------


def numbers(version: str) -> tuple[int, ...]:
    """3.8.10 as (3, 8, 10); nothing for no version."""
    return tuple(int(digits) for digits in re.findall(r"[0-9]{1,9}", version))


def node_faults(
    host: str,
    answer: Mapping[str, str],
    arguments: Mapping[str, Any],
    *,
    python: str,
    python_named: bool,
    password: bool,
) -> list[str]:
    """What is wrong with the node; `answer` is its answer to ASK.

    `python` is the interpreter's path, `python_named` whether the inventory names it; `password`:
    somebody has given one for sudo, or another way to become root.
    """
    faults = system_faults(host, answer, arguments, python=python, python_named=python_named)
    user, root = answer.get("user", ""), arguments["root"]
    if arguments["privileged"] and "root" not in answer and not password:
        faults.append(
            f"setup needs root on {host}, and {user} may not sudo without a password; allow it"
            f" (`{user} ALL=(ALL) NOPASSWD: ALL` in sudoers), run with --ask-become-pass, or set"
            " setup_privileged: false to leave out what needs root"
        )
    if "writable" not in answer:
        faults.append(
            f"{user} may not write to {root} on {host}; make the folder and give it to {user}, or"
            " name another cluster_root"
        )
    return faults


def system_faults(
    host: str,
    answer: Mapping[str, str],
    arguments: Mapping[str, Any],
    *,
    python: str,
    python_named: bool,
) -> list[str]:
    """Its distribution and its Python: both supported, or one that can be lived with."""
    supported: Mapping[str, list[str]] = arguments["systems"]
    supported_text = "; ".join(
        f"{NAMES[name]} {', '.join(releases)}" for name, releases in supported.items()
    )
    called = answer.get("pretty") or answer.get("id") or "a system without /etc/os-release"
    version = answer.get("python", "")
    is_supported = answer.get("version") in supported.get(answer.get("id", ""), [])
    if not version:
        return [
            f"{host} has no Python at {python}; install python3, or name another one in"
            f" ansible_python_interpreter ({OLDEST_NAME} or newer)"
        ]
    if numbers(version) < OLDEST_PYTHON:
        cure = f"name a newer one in ansible_python_interpreter ({OLDEST_NAME} or newer)"
        if not is_supported:
            cure = f"install a supported system ({supported_text}), or {cure}"
        return [
            f"{host} is {called}, and Ansible's modules cannot run with its Python {version} at"
            f" {python}; {cure}"
        ]
    if is_supported or not arguments["privileged"]:
        return []
    # Whoever names a Python that has apt's module has seen to it that packages can be managed.
    if python_named and answer.get("id") in supported and answer.get("apt") == "yes":
        return []
    return [
        f"{host} is {called}, where packages cannot be managed; supported are {supported_text}; or"
        " set setup_privileged: false, and driver, CUDA and compilers are used as they are"
    ]


def compiler_faults(
    host: str, answer: Mapping[str, str], needed: check.Builds, version: str, privileged: bool
) -> list[str]:
    """The gcc that builds: there is one where nobody installs it, and nvcc takes it.

    `version` is what the inventory names; setup installs that where it may use root.
    """
    if privileged and version:
        return []
    gcc_version = answer.get("gcc", "")
    name = f"-{version}" if version else ""
    if not gcc_version and not privileged:
        return [
            f"{host} has no gcc{name} with g++{name}, which is to build {needed.what}; have it"
            " installed there, or name one that is in base_gcc_version"
        ]
    cure = f'set base_gcc_version: "{needed.most}"'
    if not privileged:
        cure = "name an older one that the node has in base_gcc_version"
    return check.too_new(gcc_version, f"gcc{name} of {host}", needed, cure)


def runtime_faults(
    host: str, answer: Mapping[str, str], trainer: str, privileged: bool
) -> list[str]:
    """The compiler that runs of a pin set need: there is one where nobody installs it."""
    if not trainer or privileged or answer.get("cc"):
        return []
    return [
        f"{host} has no gcc and no clang, one of which torch.compile needs when {trainer} trains;"
        " have one installed there, or name a C compiler by CC in cluster_env"
    ]


def there(answer: Mapping[str, str]) -> set[str]:
    """The files below the root that the node has, of those that it was asked about."""
    return {name.partition(":")[2] for name in answer if name.startswith("there:")}


def facts(answer: Mapping[str, str]) -> dict[str, Any]:
    """What other roles read, under the names that Ansible's own facts have."""
    name, version = word(answer, "id"), word(answer, "version")
    return {
        "_ansible_facts_gathered": True,  # plays with `gathering = smart` ask no more
        "ansible_distribution": NAMES.get(name, name),
        "ansible_distribution_version": version,
        "ansible_distribution_major_version": version.partition(".")[0],
        "ansible_distribution_release": word(answer, "release"),
        "ansible_os_family": "Debian" if name in NAMES else name,
        "ansible_architecture": word(answer, "machine"),
        "ansible_kernel": word(answer, "kernel"),
        "ansible_python_version": word(answer, "python"),
    }


def word(answer: Mapping[str, str], name: str) -> str:
    """A fact of one word, which may become a part of a path or an address; empty for another."""
    fact = answer.get(name, "")
    return fact if re.fullmatch(r"(?!\.\.?$)[A-Za-z0-9.+_~-]*", fact) else ""


# --- effects --------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value with every template in it resolved. Raises AnsibleError."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


class ActionModule(NodeAction):
    """`validate_node:`; its arguments are in tasks/main.yml."""

    _supports_check_mode = True
    default_python = "auto"
    patience_s = 60.0  # a few lines of sh

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        if refused := arguments.get("refused"):
            wrong = variables["__validate_found"]["wrong"]
            return {"failed": True, "msg": "\n".join(refused), "wrong_input": wrong}
        result: dict[str, Any] = {"changed": False}
        host, address = str(variables["inventory_hostname"]), str(arguments["address"])
        project = check.read(Path(arguments["checkout"]))
        limits = arguments["gcc_limits"]
        values, faults = self._values(variables, project)
        faults += check.inventory_faults(
            host, address, arguments["local"], values, variables, project, limits
        )
        if not faults:
            faults += check.job_faults(values, os.environ, str(variables["inventory_dir"]))
        result["wrong"] = bool(faults)
        if not faults:
            request = {
                **arguments,
                "root": str(self._templar.template(variables["node_root"])),
                "privileged": boolean(values.get("setup_privileged", True)),
                "gcc": check.gcc_version(values),
                "builds": check.builds(values, project, limits),
                "compiles": check.compiles(values, project),
                "datasets": check.dataset_faults(values, project)[1],
                "items": disk_estimate.items(values, project, arguments["sizes"]),
            }
            try:
                answer, faults = self._ask(host, request, variables)
                result["ansible_facts"] = facts(answer)
                # roles/dataset brings a folder that lies on one node to the others
                result["undescribed"] = {
                    name: f"dataset_names has {name}{hint}, which neither the catalogue"
                    " (docs/datasets.md) nor dataset_own describes, and which is a folder in"
                    f" {request['root']}/datasets on no node; correct the name, describe it, or put"
                    " its folder on one node"
                    for name, hint in request["datasets"].items()
                }
                result["inode"] = answer.get("inode", "")
                result["token"] = secrets.token_hex(8)
                result["there"] = [
                    name
                    for name in request["datasets"]
                    if disk_estimate.dataset(name) in there(answer)
                ]
            except AnsibleConnectionFailure as error:
                result["lost"] = str(error)
        return {**result, "faults": faults, "address": address}

    def _values(
        self, variables: Mapping[str, Any], project: check.Known
    ) -> tuple[dict[str, Any], list[str]]:
        """What the inventory says to roles, and what of it cannot be resolved.

        A variable of another role may need what is not known yet, such as facts: it is left out.
        """
        values, faults = {}, []
        for name in sorted(
            {name for spec in project.specs.values() for name in spec} & {*variables}
        ):
            try:
                values[name] = plain(self._templar.template(variables[name]))
            except AnsibleError as error:
                if name in project.specs["validate"]:
                    where = check.place(name, Path(variables["inventory_dir"]))
                    message = " ".join(str(error).split()).rstrip(".")
                    faults.append(
                        f"{name}{where} has a template that cannot be resolved: {message}; define"
                        " what it names, or write the value"
                    )
        return values, faults

    def _ask(
        self, host: str, request: Mapping[str, Any], variables: Mapping[str, Any]
    ) -> tuple[dict[str, str], list[str]]:
        """The node's answer, and what is wrong with it. Raises AnsibleConnectionFailure."""
        python_named = not self.python.startswith("auto")
        python = self.python if python_named else NodeAction.default_python
        gcc = f"-{request['gcc']}" if request["gcc"] else ""
        files = dict.fromkeys(item.manifest for item in request["items"])
        argv = ["sh", "-c", ASK, "ask", python, request["root"], gcc, *files]
        with bounded("its answer", MOST_BYTES, self.patience_s):
            answer = self._low_level_execute_command(shlex.join(argv))
        lines = [
            line[len("TRAINBENCH ") :]
            for line in answer["stdout_lines"]
            if line.startswith("TRAINBENCH ")
        ]
        if not lines:
            message = (answer["stderr"] or answer["stdout"]).strip() or f"exit {answer['rc']}"
            raise AnsibleConnectionFailure(f"its shell gives no answer: {message}")
        pairs = [line.partition("=") for line in map(printable, lines[:MOST_LINES])]
        node_answer = {key: value[:MOST_LETTERS] for key, _, value in pairs}
        password_option = context.CLIARGS.get("become_ask_pass") or context.CLIARGS.get(
            "become_password_file"
        )
        password = bool(password_option) or any(
            variables.get(name)
            for name in ("ansible_become_password", "ansible_become_pass", "ansible_become_method")
        )
        faults = node_faults(
            host, node_answer, request, python=python, python_named=python_named, password=password
        )
        if needed := request["builds"]:
            faults += compiler_faults(
                host, node_answer, needed, request["gcc"], request["privileged"]
            )
        faults += runtime_faults(host, node_answer, request["compiles"], request["privileged"])
        small = disk_estimate.room_fault(
            host, request["root"], node_answer.get("free", ""), request["items"], there(node_answer)
        )
        faults += [small] if small else []
        return node_answer, faults
