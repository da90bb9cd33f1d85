"""What is wrong with an inventory, without a connection: for roles/validate."""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from node.printable import printable
from node.schema import UnfitError
from node.validated_text import FileName
from plugins import datasets
from plugins.filter.mirrors import KINDS
from plugins.filter.pins import PinError, has_compile, pin_plans
from plugins.public_addresses import by_kind
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.inventory.engine_keys import engine_named, read_engine
from runner.inventory.key_rules import address_fault, root_fault, value_faults
from runner.terms.engines.engine_table import ENGINES

# Names that belong to no single role; roles/validate/meta/argument_specs.yml has them.
# Where keys of an engine are described, in place of docs/inventory.md.
PAGES = {each.prefix.rstrip("_"): f"docs/{each.page}" for each in ENGINES.values() if each.prefix}
SHARED = ("cluster", "setup", "site", *PAGES)
NEAR = 0.9  # a name of the site's own this much like one of ours is ours, misspelt
MAY_BE_LONGER = ("apt", "conda")  # addresses that roles lengthen before they look for a mirror
WORDS = {
    "str": "text",
    "path": "a path",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
}
# YAML in C where this Python has it: every run reads the specs of all roles once a node.
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Known:
    """What this checkout has for an inventory to name.

    `specs`: role to its variables' argument specs; `derived`: names that playbooks derive;
    `trainers`: systems; `roles`: the roles' folder.
    """

    specs: Mapping[str, Mapping[str, Spec]]
    derived: frozenset[str] = frozenset()
    trainers: frozenset[str] = frozenset()
    catalogue: Mapping[str, Any] = field(default_factory=dict)
    roles: Path = Path()

    @cached_property
    def addresses(self) -> Mapping[str, Collection[str]]:
        """Kind of mirror to public addresses; read where an inventory has mirrors."""
        return by_kind(self.roles)

    def spec(self, name: str) -> Spec | None:
        """A variable's argument spec."""
        return next(
            (specs_of_role[name] for specs_of_role in self.specs.values() if name in specs_of_role),
            None,
        )

    def pins(self, system: str, values: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """A system's pin sets by name: the inventory's, where it declares some, else its own."""
        path = self.roles / system / "vars" / "pins.yml"
        declared = values.get(f"{system}_pins") or values.get("trainer_pins")
        pin_sets: Mapping[str, Mapping[str, Any]] = declared or _yaml(path)[f"{system}_pins"]
        return pin_sets

    def pin_sets(self, system: str, values: Mapping[str, Any]) -> Sequence[Any]:
        """Those of a system's pin sets that setup installs, by name."""
        variable = f"{system}_pin_sets"
        default = (self.spec(variable) or {}).get("default") or []
        if not isinstance(default, list):  # Ansible works it out: all that are declared
            default = list(self.pins(system, values))
        chosen: Sequence[Any] = values.get(variable, default) or []
        return chosen


@dataclass(frozen=True)
class Builds:
    """What nvcc is to build, of which CUDA, and the newest gcc that it takes."""

    what: str
    cuda: str
    most: int


# --- what there is (reads files) ------------------------------------------------------------------


@cache
def _yaml(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)  # noqa: S506  # safe one


def read(checkout: Path) -> Known:
    """Of the roles' argument specs, and their literals."""
    roles = checkout / "roles"
    specs: dict[str, dict[str, Spec]] = {}
    for path in roles.glob("*/meta/argument_specs.yml"):
        entries = _yaml(path)["argument_specs"].values()
        specs[path.parents[1].name] = {
            name: spec for entry in entries for name, spec in (entry.get("options") or {}).items()
        }
    return Known(
        specs=specs,
        derived=frozenset(_yaml(checkout / "playbooks" / "group_vars" / "all.yml")),
        trainers=frozenset(path.parents[1].name for path in roles.glob("*/vars/pins.yml")),
        catalogue=_yaml(roles / "dataset" / "vars" / "catalogue.yml"),
        roles=roles,
    )


def place(name: str, folder: Path) -> str:
    """` (FILE:LINE)` of an inventory's first line that sets a variable, or an empty string."""
    patterns = ("*.y*ml", "group_vars/**/*.y*ml", "host_vars/**/*.y*ml")
    files = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    for path in filter(Path.is_file, files):  # a pipe, or a device, has no end
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if re.match(rf"[\s{{,]*{re.escape(name)}\s*:", line):
                return f" ({path}:{number})"
    return ""


# --- names (pure) ---------------------------------------------------------------------------------


def unknown(variables: Iterable[str], project: Known) -> list[str]:
    """Unknown variables with a role's prefix, or nearly the name of a known one."""
    ours = set().union(*project.specs.values())
    roles = (*project.specs, *SHARED)
    faults = []
    for name in sorted(set(variables) - ours - project.derived):
        if owners := [role for role in roles if name.startswith(f"{role}_")]:
            owner = max(owners, key=len)
            suggestion = nearest(name, (right for right in ours if right.startswith(f"{owner}_")))
            shared = PAGES.get(owner, "docs/inventory.md")
            where = shared if owner in SHARED else f"`trainbench docs roles/{owner}`"
            faults.append(f"there is no variable {name}{suggestion}; {where} lists the variables")
        elif suggestion := nearest(name, (right for right in ours if right not in name), NEAR):
            faults.append(
                f"there is no variable {name}{suggestion}; give one of your own another name"
            )
    return faults


# --- values (pure) --------------------------------------------------------------------------------


def listed(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *front, final = words
    return f"{', '.join(front)} or {final}" if front else final


def value_fault(name: str, value: Any, spec: Spec) -> str:
    """What is wrong with a variable's kind or choice, as Ansible would judge it; empty if nothing.

    A mapping may hold secrets: none of it is printed.
    """
    kind = spec.get("type", "str")
    allowed = listed(map(str, spec["choices"])) if "choices" in spec else WORDS[kind]
    if kind == "dict":
        return "" if isinstance(value, Mapping) else f"{name} must be a mapping"
    if kind == "list":
        if not isinstance(value, list):
            such = "" if isinstance(value, Mapping) else value or ""
            return f"{name} is {_value_text(value)}; it must be a list, such as [{such}]"
        faults = [_element_fault(name, element, spec) for element in value]
        return next(filter(None, faults), "")
    if value is None or _fits(name, value, {**spec, "type": kind}):
        return ""
    return f"{name} is {_value_text(value)}; it must be {allowed}"


def _value_text(value: Any) -> str:
    return "a list or mapping" if isinstance(value, Mapping | list) else repr(value)


def _element_fault(name: str, value: Any, spec: Spec) -> str:
    kind = spec.get("elements", "str")
    if _fits(name, value, {**spec, "type": kind}):
        return ""
    if "choices" in spec:
        choices = [str(choice) for choice in spec["choices"]]
        suggestion = nearest(str(value), choices)
        value_shown = _value_text(value) if isinstance(value, Mapping | list) else value
        return f"{name} names {value_shown}{suggestion}; there are {', '.join(choices)}"
    return f"{name} holds {_value_text(value)}; each of it must be {WORDS[kind]}"


def _fits(name: str, value: Any, spec: Spec) -> bool:
    if spec["type"] in ("str", "path") and not isinstance(value, str | int | float):
        return False
    if spec["type"] == "int" and isinstance(value, bool):
        return False
    spec_asked = {key: spec[key] for key in ("type", "choices") if key in spec}
    try:
        return not ArgumentSpecValidator({name: spec_asked}).validate({name: value}).error_messages
    except OverflowError:  # of Ansible's: infinity as a whole number, 400 digits as any
        return False


def engine_faults(values: Mapping[str, Any], local: bool) -> list[str]:
    """What the runner would refuse of an engine's keys, and root, which no login node gives."""
    device, devices = values.get("cluster_device", "cpu"), values.get("cluster_devices_per_node", 1)
    try:
        engine = read_engine(values, "the inventory", str(device), int(devices))
    # Null, or 1e999, which Ansible takes for a whole number.
    except (TypeError, ValueError, OverflowError):
        value = "empty" if devices is None else f"{devices!r:.40}"
        return [f"cluster_devices_per_node is {value}; it must be a whole number"]
    except UserError as error:
        return [str(error)]
    if not engine.in_jobs:
        return []
    faults = []
    if not local:
        faults.append(
            f"a {engine.title} inventory has one host, the login node that bench runs on, with"
            " ansible_connection: local"
        )
    if values.get("ssh_mesh_enabled"):
        faults.append(
            f"ssh_mesh_enabled is true, and cluster_engine is {engine.name}, which starts each node"
            " by itself; take it out"
        )
    if values.get("setup_privileged", True):
        faults.append(
            f"setup_privileged is true, and cluster_engine is {engine.name}; a login node is"
            " somebody else's, so set setup_privileged: false"
        )
    return faults


def job_faults(
    values: Mapping[str, Any], environment: Mapping[str, str], inventory: str
) -> list[str]:
    """Say how setup is run in a job, where the inventory wants that and this is not a job."""
    engine = read_engine(values, "the inventory", "cpu", 1)
    argv = engine.setup_argv(("ansible-playbook", "playbooks/setup.yml", "-i", inventory))
    if not argv or engine.job_variable in environment:
        return []
    return [
        f"{engine.prefix}setup_in_job is true, and this is not a job of {engine.title}; run"
        f" `{shlex.join(argv)}`"
    ]


def system_faults(values: Mapping[str, Any], project: Known) -> list[str]:
    """Systems and pin sets that do not exist."""
    faults = [
        f"cluster_systems names {name}{nearest(name, project.trainers)}; `python -m runner systems`"
        " lists what there is"
        for name in values.get("cluster_systems", [])
        if name not in project.trainers
    ]
    for system in sorted(project.trainers):
        variable = f"{system}_pin_sets"
        there = project.pins(system, values) if variable in values else {}
        where = f"{system}_pins" if f"{system}_pins" in values else f"roles/{system}/vars/pins.yml"
        faults += [
            f"{variable} names {name}{nearest(str(name), there)}; {where} has"
            f" {', '.join(there) or 'none'}"
            for name in values.get(variable, [])
            if name not in there
        ]
    return faults


def declared_faults(values: Mapping[str, Any], project: Known) -> list[str]:
    """What is wrong with the pin sets that the inventory declares, which no test has seen."""
    faults = []
    for name, pin in values.get("command_pins", {}).items():
        site = {"system": "command", "root": "", "roles": project.roles}
        try:
            plan = pin_plans(
                {FileName(name, "a name in command_pins"): pin},
                [name],
                {**site, "device": values.get("cluster_device", "cpu")},
            )[0]
        except (PinError, UnfitError) as error:
            faults.append(f"command_pins: {error}")
            continue
        if plan["image"]:
            faults.append(
                f"command_pins: {name} is an image, which system command does not run; name what"
                " goes into an environment, with `torch` or `requirements`"
            )
    return faults


def dataset_faults(values: Mapping[str, Any], project: Known) -> tuple[list[str], dict[str, str]]:
    """Faults, and datasets that nobody describes, which may be on a node, each with a hint."""
    names = values.get("dataset_names", [])
    own_datasets = values.get("dataset_own", {})
    try:
        entries = datasets.entries(
            project.catalogue, names, own_datasets, {}, values.get("dataset_preprocess", {})
        )
    except ValueError as error:
        return [str(error)], {}
    except KeyError as error:
        return [f"dataset_own lacks {error}; docs/datasets.md says what an entry has"], {}
    there = {*project.catalogue["dataset_catalogue"], *own_datasets}
    return [], {name: nearest(name, there) for name, entry in entries.items() if entry is None}


def strings(value: Any) -> Iterator[str]:
    """Every string in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def proxy_faults(values: Mapping[str, Any]) -> list[str]:
    """A proxy that programs would not understand. It is not shown: it may hold a password."""
    proxy = values.get("site_proxy", "")
    if not proxy or re.fullmatch(r"http://([^\s\"'\\/@#?]+@)?[\w.-]+:\d{1,5}/?", proxy):
        return []
    return ["site_proxy is not of the form http://HOST:PORT or http://USER:PASSWORD@HOST:PORT"]


def mirror_faults(values: Mapping[str, Any], project: Known) -> list[str]:
    """Mirrors that would never be asked, though somebody meant them to be.

    An address may also be of the inventory's own, such as that of a dataset.
    """
    faults = []
    mirrors = values.get("site_mirrors", {})
    own_addresses = [
        text for name, value in values.items() if name != "site_mirrors" for text in strings(value)
    ]
    for kind, places in mirrors.items():
        if kind not in KINDS:
            suggestion = nearest(str(kind), KINDS)
            faults.append(f"site_mirrors has {kind}{suggestion}; its kinds are {', '.join(KINDS)}")
            continue
        if not isinstance(places, Mapping):
            faults.append(
                f"site_mirrors.{kind} must map the beginning of a public address to its"
                " replacement; docs/inventory.md has an example"
            )
            continue
        addresses = project.addresses[kind]
        hosts = {re.sub(r"^((?:\w+://)?[^/]+/).*", r"\1", address) for address in addresses}
        for beginning in map(str, places):
            longer = kind in MAY_BE_LONGER and beginning.startswith(tuple(addresses))
            if not longer and not any(
                text.startswith(beginning) for text in (*addresses, *own_addresses)
            ):
                suggestion = nearest(beginning, {*addresses, *hosts})
                faults.append(
                    f"site_mirrors.{kind}: no address begins with {beginning}{suggestion};"
                    " `trainbench docs inventory` lists them"
                )
    return faults


# --- compilers (pure) -----------------------------------------------------------------------------


def gcc_version(values: Mapping[str, Any]) -> str:
    """The gcc that the inventory names for what is built; empty is the node's own."""
    return str(values.get("trainer_gcc_version") or values.get("base_gcc_version") or "")


def builds(values: Mapping[str, Any], project: Known, limits: Mapping[str, int]) -> Builds | None:
    """What of the inventory's systems nvcc builds at setup, of several what limits gcc most."""
    build_list = []
    if values.get("cluster_device") != "cuda":
        return None
    for system in values.get("cluster_systems", []):
        if values.get(f"{system}_existing_python"):
            continue
        names, there = project.pin_sets(system, values), project.pins(system, values)
        for name, pin in ((name, there[name]) for name in names if name in there):
            ops = pin.get("deepspeed", {}).get("ops")
            product = "apex" if "apex" in pin else "DeepSpeed's operators" if ops else ""
            cuda = str(pin.get("cuda", ""))
            if product and cuda in limits and "CC" not in pin.get("environment", {}):
                build_list.append(Builds(f"{product} for {system}'s {name}", cuda, limits[cuda]))
    return min(build_list, key=lambda build: build.most, default=None)


def compiles(values: Mapping[str, Any], project: Known) -> str:
    """For which pin set runs compile kernels on GPUs, the first; empty for none.

    Of an image's compiler, of one that the inventory names, and of those that a login node has,
    validate knows nothing.
    """
    names_compiler = "CC" in values.get("cluster_env", {})
    jobs = engine_named(values, "the inventory").in_jobs
    if values.get("cluster_device") != "cuda" or jobs or names_compiler:
        return ""
    for system in values.get("cluster_systems", []):
        there = project.pins(system, values)
        for name in project.pin_sets(system, values):
            pin = there.get(name, {})
            if "image" not in pin and has_compile(pin):
                return f"{system}'s {name}"
    return ""


def too_new(version: str, whose: str, needed: Builds, cure: str) -> list[str]:
    """A compiler that nvcc does not take; none for a version that nobody knows."""
    major = re.match(r"\d+", version)
    if not major or int(major[0]) <= needed.most:
        return []
    return [
        f"{whose} is {version}, and nvcc of CUDA {needed.cuda}, which builds {needed.what}, takes"
        f" {needed.most} at most; {cure}"
    ]


# --- all of it ------------------------------------------------------------------------------------


def inventory_faults(
    host: str,
    address: str,
    local: bool,
    values: Mapping[str, Any],
    variables: Collection[str],
    project: Known,
    limits: Mapping[str, int],
) -> list[str]:
    """What is wrong with the inventory.

    `values` are those of `variables` that roles know; one that cannot be resolved is not there.
    """
    faults = [address_fault([(host, address)], "hosts.yml of the inventory")]
    bad = {
        name: fault
        for name, value in sorted(values.items())
        if (fault := value_fault(name, value, project.spec(name) or {}))
    }
    faults += bad.values()
    good = {name: value for name, value in values.items() if name not in bad}
    if "cluster_root" in good or "cluster_root" not in variables:
        faults.append(root_fault(str(good.get("cluster_root") or ""), local))
    faults += value_faults(good)
    faults += [
        f"{name} is not set; docs/inventory.md says what it is"
        for name in ("cluster_systems", "cluster_devices_per_node")
        if name not in variables
    ]
    if not any(name.startswith(tuple(f"{prefix}_" for prefix in PAGES)) for name in bad):
        faults += engine_faults(good, local)
    wrong = system_faults(good, project) + declared_faults(good, project)
    faults += wrong
    faults += dataset_faults(good, project)[0]
    faults += proxy_faults(good)
    faults += mirror_faults(good, project)
    if not wrong and (needed := builds(good, project, limits)):
        cure = f'set it to "{needed.most}" or less'
        faults += too_new(gcc_version(good), "base_gcc_version", needed, cure)
    return [printable(fault) for fault in faults + unknown(variables, project) if fault]
