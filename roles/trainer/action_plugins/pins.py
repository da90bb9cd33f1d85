"""Look at the pin sets of a system on a node, and say of what all nodes have what each is to do.

pins: {step: look}               ask the node what there is of each, and what differs
pins: {step: verify}             the same, and use each; what is not right is a failure
pins: {step: plan, pin: NAME}    one pin set's plan, and what this node is to do about it
"""

import contextlib
import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.canonical import canonical
from node.pin import VARIABLES
from node.schema import Fields, UnfitError
from node.validated_text import FileName, Pin
from plugins import answers
from plugins.filter.pins import PinError, pin_plans
from plugins.node_action import NodeAction
from runner.inventory import site_engine
from runner.inventory.engine_keys import engine_named
from runner.terms.container_engines import ENGINES, Container, Mount

ROLES = Path(__file__).resolve().parents[2]
INSTALLERS = ("pip==", "setuptools==", "wheel==")
# Of a pin set that the first node installs for all; an image is each node's own.
SHARED = {
    **{"trees": [], "files": False, "environment": False},
    **{"built": [], "lacking": False, "apex": False},
}
WHEEL_SUM = re.compile("#sha256=([0-9a-f]{64})$")  # ends a line of a lock
BUILD_FILES = ("Containerfile", "sshd_config", "trainbench-sshd")  # of the role container_image

Plan = Mapping[str, Any]
Look = Mapping[str, Any]  # what a node answered
Value = Callable[..., Any]  # name of a variable, and its default


class ActionModule(NodeAction):
    """`pins:` with a `step`, as the file's first lines say."""

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        system, step = str(self.value("trainer_system")), arguments["step"]
        names = [arguments["pin"]] if step == "plan" else self.value("trainer_pin_sets")
        try:
            met = {**plan_site(self.value), "compilers": compilers(variables)}
            plans = pin_plans(self._pins(system), names, met)
        except PinError as error:
            raise AnsibleActionFail(str(error)) from None
        question_list = questions(plans, self._site(system))
        if step == "plan":
            looked = self.answers("__trainer_looked")
            looks = [look for look in looked.values() if look.get("system") == system]
            mine = looked[self.value("inventory_hostname")]["pins"][arguments["pin"]]
            does = todo(plans[0], question_list[0], looks, mine)
            if not boolean(self.value("node_installs", True)):
                does |= SHARED
            return {"changed": False, **does}
        kind = answers.pins(list(names)) if step == "look" else Fields({"system": FileName})
        result = self.result(f"pin:{step}", {"system": system, "pins": question_list}, kind)
        differing = bool((result["answer"] or {}).get("differing"))
        return {**result, "changed": step == "look" and differing and self._task.check_mode}

    def _pins(self, system: str) -> dict[str, Any]:
        path = ROLES / system / "vars" / "pins.yml"
        pin_sets: dict[str, Any] = self.value("trainer_pins")
        return pin_sets or yaml.safe_load(path.read_text(encoding="utf-8"))[f"{system}_pins"]

    def _site(self, system: str) -> dict[str, Any]:
        starts = engine_named({"cluster_engine": self.value("cluster_engine", "")}, "the inventory")
        shared = starts.in_jobs or boolean(self.value("cluster_root_shared", False))
        files = [
            Path(self._find_needle("files", file_name)) for file_name in self.value("trainer_files")
        ]
        return {
            "system": system,
            "script": self.value("trainer_script"),
            "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
            "env": environment_site(self.value, self.python),
            "tree": {
                "mirrors": self.value("site_mirrors", {}).get("git", {}),
                "reset": boolean(self.value("source_tree_reset", False)),
                "check": self._task.check_mode,
            },
            "image": {
                "engine": site_engine.engine_named(
                    self.value("cluster_container_engine", ""), starts
                ),
                "shared": shared,
                "device": self.value("cluster_device", "cpu"),
                "archives": f"{self.value('systems_root')}/.images",
                "files": {
                    name: (ROLES / "container_image" / "files" / name).read_text(encoding="utf-8")
                    for name in BUILD_FILES
                },
            },
        }


def plan_site(value: Value) -> dict[str, Any]:
    """Return what pin sets meet on a node (plugins/filter/pins.py), of its variables."""
    return {
        "system": value("trainer_system"),
        "root": value("systems_root"),
        "roles": ROLES,
        "device": value("cluster_device", "cpu"),
        "devices_here": boolean(value("devices_here", True)),
        "cuda_homes": value("trainer_cuda_homes"),
        "gcc": value("trainer_gcc_version"),
    }


def compilers(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return what the inventory's variables of every run say of compilers.

    They are taken as they are written: a template among them is a secret's, and stays unread.
    """
    env = variables.get("cluster_env")
    if not isinstance(env, Mapping):
        return {}
    return {name: str(env[name]) for name in ("CC", "CXX", "PATH") if name in env}


def environment_site(value: Value, python: str) -> dict[str, Any]:
    """Return what the program env takes besides a plan; `python` is the node's own."""
    return {
        "interpreter": value("python_env_interpreter", python),
        "interpreters": value("python_env_interpreters", []),
        "existing": value("trainer_existing_python"),
        "index": value("python_env_index_url", ""),
        "extra_index": value("python_env_extra_index_url", ""),
        "find_links": value("python_env_find_links", ""),
        "mirrors": value("site_mirrors", {}),
        "cpu": value("cluster_device", "") == "cpu",
        "cuda_accepted": bool(value("setup_yes", False)),
    }


def questions(plans: Sequence[Mapping[str, Any]], site: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the program pin is asked of each plan.

    `site` has env (what the program env takes besides the plan), tree (likewise for tree), files
    (name in src to SHA-256 of what comes from this checkout), script and system; and image (what
    the program image takes besides, `engine` by its name, `archives`, `device`, and `shared`,
    which says whether nodes have one root).
    """
    questions = []
    for plan in plans:
        plan_facts = {key: plan[key] for key in ("cuda_home", "left_out") if plan[key]}
        questions.append(
            {
                "pin": plan["pin"],
                "home": plan["home"],
                "trees": [
                    {key: value for key, value in tree.items() if key not in ("files", "identity")}
                    | dict(site["tree"])
                    for tree in plan["trees"]
                ],
                "env": {
                    **{key: plan[key] for key in ("python", "steps", "environment", "constraints")},
                    **site["env"],
                    "existing": plan["existing"] or site["env"]["existing"],
                    "path": f"{plan['home']}/env",
                    "later": [],
                },
                "files": {f"{plan['home']}/src/{name}": x for name, x in site["files"].items()},
                "said": {"system": site["system"], **plan_facts},
                "checks": plan["checks"],
                "environment": plan["environment"],
                "script": site["script"],
                **(image_question(plan, site) if plan["image"] else {}),
            }
        )
    return questions


def image_question(plan: Mapping[str, Any], site: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the program image is asked of a plan, and how another one runs in the image."""
    sources = {key: site["env"][key] for key in ("index", "extra_index", "find_links", "mirrors")}
    engine = ENGINES[site["image"]["engine"]]
    home, image = plan["home"], plan["image"]["image"]
    archive = f"{site['image']['archives']}/{site['system']}-{plan['pin']}"
    stored = engine.kept and not site["image"]["shared"]
    file = "" if stored else engine.file(home)
    container = Container(
        image=image,
        mounts=(Mount(home, home, fixed=True),),
        env=(*VARIABLES, *plan["environment"]),
        gpus=site["image"]["device"] == "cuda",
    )
    return {
        "gpus": container.gpus,
        "image": {
            **plan["image"],
            **sources,
            "files": site["image"]["files"],
            "engine": engine.builder,
            "build": list(engine.building),
            "home": home,
            "archive": archive,
            "file": file,
            "made": [] if stored else engine.made(image, f"{archive}.tar", f"{file}.new"),
            "supervised": bool(engine.starter),
        },
        "within": engine.within(container),
    }


def example_lock(looks: Sequence[Mapping[str, Any]], pin: str, python: str) -> list[Pin]:
    """Return constraints from a node that has the environment whole: a new node gets what it has.

    Without it, what the pins pull in would be of the day on which each node was set up.
    """
    minor = python.split(".")[:2]
    for look in looks:
        env = look.get("pins", {}).get(pin, {}).get("env", {})
        if env and not env["make"] and not env["todo"] and env["python"].split(".")[:2] == minor:
            return [pin for pin in pins_in(env["lines"]) if not pin.startswith(INSTALLERS)]
    return []


def pins_in(lines: Sequence[str]) -> list[Pin]:
    """Return the lines that name a package and its version, and nothing else.

    They become lines of pip's on another node: one with an address or an option would install from
    wherever the node that said so likes.
    """
    pins = []
    for line in lines:
        with contextlib.suppress(UnfitError):
            pins.append(Pin(line))
    return pins


def with_sums(plan: Plan, looks: Sequence[Look]) -> list[dict[str, Any]]:
    """Return a plan's steps; a wheel without a stated checksum gets that of a node that has it.

    It is compared with what comes from the address, and used for nothing else.
    """
    lines = [
        line
        for look in looks
        for line in look.get("pins", {}).get(plan["pin"], {}).get("env", {}).get("lines", [])
    ]
    steps = []
    for step in plan["steps"]:
        wheel = step.get("wheel", {})
        if wheel and not wheel["sha256"]:
            name = f"{canonical(wheel['project'])}=={wheel['version']}"
            digests = [
                match[1]
                for line in lines
                if line.startswith(f"{name} @ ") and (match := WHEEL_SUM.search(line))
            ]
            steps.append({**step, "wheel": {**wheel, "recorded": [*digests, ""][0]}})
        else:
            steps.append(step)
    return steps


def todo(plan: Plan, question: Plan, looks: Sequence[Look], mine: Look) -> dict[str, Any]:
    """Return what a node is to do about a pin set, of which it said `mine`; `looks` are all nodes'.

    Its `plan` is without the texts of patches, which are in `question`. `built` are wheels that a
    role builds, and `lacking` whether any node lacks one, so that all of them come to that role.
    """
    name, env = plan["pin"], mine["env"]
    wrong = bool(env["make"] or env["todo"])
    built = [step["name"] for step in plan["steps"] if "built" in step]
    trees = [{key: tree[key] for key in tree if key != "patches"} for tree in plan["trees"]]
    return {
        "plan": {**plan, "trees": trees, "steps": with_sums(plan, looks)},
        "trees": [tree for tree in trees if tree["name"] in mine["trees"]],
        "files": bool(mine["files"]),
        "image": question.get("image", {}),
        "environment": wrong and not plan["image"],
        "constraints": plan["constraints"] or example_lock(looks, name, env["python"]),
        "built": built,
        "lacking": any(
            step in built
            for look in looks
            for step in steps_to_do(look.get("pins", {}).get(name, {}).get("env", {}))
        ),
        "apex": "apex" in steps_to_do(env),
    }


def steps_to_do(env: Look) -> list[str]:
    """Return the names of an environment's steps that are to be done on the node that said so."""
    return [do["name"] for do in env.get("todo", []) if "name" in do]
