"""A system's pin sets as plans: what lies where on a node, and in which steps it is installed.

``pins | pin_plans(names, site)`` gives one plan a pin set. A pin set is the literals of
roles/<system>/vars/pins.yml (docs/adding-a-system.md has the keys); `site` says what they meet:

    system, root       whose pins they are, and the folder of all systems on the node
    roles              the checkout's folder of roles, with patches and constraints
    device             cpu, cuda or npu
    cuda_homes         CUDA version to its folder, where it is not /usr/local/cuda-<version>
    gcc                version of the compiler for what is built, or ""
    compilers          variables of every run that name one: CC, CXX, PATH
    home               instead of system and root: the folder of this one pin set

Pure except the patches and constraints, which are read through one function.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from node.schema import UnfitError
from plugins.pin_kinds import PIN_SET
from runner.terms.container_engines import image_name

Pin = Mapping[str, Any]
Read = Callable[[Path], str]

KEYS = {
    *("summary", "document", "python", "existing_python", "cuda", "source", "sources"),
    *("build", "torch"),
    *("requirements", "constraints", "wheels", "oneflow", "deepspeed", "apex", "environment"),
    *("imports", "image"),
}
# Those of a pin set that is an image: what it has beside them is its base's.
IMAGE_KEYS = {
    *("summary", "document", "source", "sources", "image", "build", "requirements", "deepspeed"),
    "imports",
}
TREE_KEYS = {"repository", "commit", "version", "patches", "untracked", "install"}
EXACT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?==[^=\s;*]+")
FRAGMENT = re.compile("sha256=([0-9a-f]{64})")
UNTRACKED = ["__pycache__/", "*.egg-info/"]


class PinError(ValueError):
    """What is wrong with a pin set, with the cure."""


def refuse_unknown(keys: Mapping[str, Any], allowed: set[str], where: str) -> None:
    """A key that nothing reads would be a pin that does not hold."""
    unknown = sorted(set(keys) - allowed)
    if unknown:
        raise PinError(
            f"{where}: {unknown[0]!r} is not a key; there are {', '.join(sorted(allowed))}"
        )


def exact(pins: Sequence[str], where: str) -> list[str]:
    """The pins, each of one version."""
    for pin in pins:
        if not EXACT.fullmatch(pin):
            raise PinError(f"{where}: {pin!r} is not an exact pin; write name==version")
    return list(pins)


def has_compile(pin: Pin) -> bool:
    """Whether a pin set's torch is one with torch.compile."""
    plain = [item for item in pin.get("requirements", []) if isinstance(item, str)]
    pinned = [item.partition("==")[2] for item in plain if item.startswith("torch==")]
    version = str(pin.get("torch", {}).get("version", "")) or "".join(pinned)
    return version.partition(".")[0] not in ("", "0", "1")


def wheel(address: str, sha256: str | None, where: str) -> dict[str, Any]:
    """A wheel's address with what its file name says, and its checksum, which may end the address
    as pip has it.

    Without one, the first download's is recorded on the node (node/fetch.py); `key` says where to
    state it.
    """
    url, _, ending = address.partition("#")
    fragment = FRAGMENT.fullmatch(ending)
    if ending and not fragment:
        raise PinError(
            f"{where}: {url} ends in #{ending}, which nothing compares; write #sha256= and 64 hex"
            " digits, or the key sha256"
        )
    if fragment and sha256 and fragment[1] != sha256:
        raise PinError(
            f"{where}: {url} has #sha256={fragment[1]} and the key sha256: {sha256}; keep the right"
            " one"
        )
    sha256 = fragment[1] if fragment else sha256 or ""
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    parts = name.removesuffix(".whl").split("-")
    if not name.endswith(".whl") or len(parts) < 5:
        raise PinError(f"{where}: {url} does not end in the name of a wheel")
    return {
        "url": url,
        "sha256": sha256,
        **({} if sha256 else {"key": f"sha256 of {where}"}),
        "project": parts[0],
        "version": parts[1],
        "file_name": name,
    }


class Plan:
    """One pin set on one kind of node."""

    def __init__(self, name: str, pin: Pin, site: Mapping[str, Any], read: Read) -> None:
        self.name, self.pin, self.site, self.read = name, pin, site, read
        self.where = f"{site['system']}'s pin set {name}"
        try:
            PIN_SET.check(pin, f"{self.where}:")
        except UnfitError as error:
            raise PinError(str(error)) from None
        refuse_unknown(pin, KEYS, self.where)
        self.home = site.get("home") or f"{site['root']}/{site['system']}/{name}"
        self.cuda = site["device"] == "cuda"
        self.left_out: dict[str, str] = {}
        self.trees = [
            self.tree(tree_name, tree, f"{self.home}/{subfolder}")
            for tree_name, subfolder, tree in self.all_sources()
        ]

    def all_sources(self) -> list[tuple[str, str, Pin]]:
        """Every tree: name, place below the home, literals."""
        sources = [("source", "src", self.pin["source"])] if "source" in self.pin else []
        sources += [
            (name, f"sources/{name}", tree) for name, tree in self.pin.get("sources", {}).items()
        ]
        for name in ("deepspeed", "apex"):
            block = self.pin.get(name, {})
            if "commit" in block and not (name == "apex" and not self.cuda):
                sources.append((name, f"sources/{name}", block))
        return sources

    def tree(self, name: str, tree: Pin, path: str) -> dict[str, Any]:
        """One tree as the role source_tree takes it, with its patches' texts."""
        allowed = TREE_KEYS | ({"ops"} if name == "deepspeed" else set())
        allowed |= {"extensions"} if name == "apex" else set()
        refuse_unknown(tree, allowed, f"{self.where}, {name}")
        files = [self.find("patches", patch) for patch in tree.get("patches", [])]
        texts = [self.read(file) for file in files]
        return {
            "name": name,
            "path": path,
            "repository": tree["repository"],
            "commit": tree["commit"],
            "version": str(tree.get("version", "")),
            "files": [str(file) for file in files],
            "patches": [[file.name, text] for file, text in zip(files, texts, strict=True)],
            "untracked": UNTRACKED + list(tree.get("untracked", [])),
            "identity": [
                tree["commit"],
                *(hashlib.sha256(text.encode()).hexdigest() for text in texts),
            ],
        }

    def find(self, folder: str, name: str) -> Path:
        """A file of the system's role, or of the role apex."""
        roles = Path(self.site["roles"])
        places = [roles / role / "files" / folder / name for role in (self.site["system"], "apex")]
        for candidate in places:
            try:
                self.read(candidate)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                raise PinError(f"{self.where}: {candidate} cannot be read: {error}") from None
            return candidate
        raise PinError(
            f"{self.where}: there is no {places[0]}; one that lies elsewhere is named by its"
            " absolute path"
        )

    def tree_step(self, name: str, editable: bool = False) -> dict[str, Any]:
        """A step that installs one of the trees."""
        tree = next(candidate for candidate in self.trees if candidate["name"] == name)
        step_tree = {"path": tree["path"], "identity": tree["identity"], "editable": editable}
        return {"name": name, "tree": step_tree, "no_build_isolation": True}

    def torch_steps(self) -> list[dict[str, Any]]:
        """Torch and its family; its CUDA build only where there is CUDA."""
        torch = self.pin.get("torch")
        if not torch:
            return []
        refuse_unknown(torch, {"version", "torchvision", "torchaudio", "index"}, self.where)
        family = {"torch": torch["version"], **torch}
        names = [name for name in ("torch", "torchvision", "torchaudio") if name in family]
        versions = {name: str(family[name]) for name in names}
        if not self.cuda:
            versions = {name: text.partition("+")[0] for name, text in versions.items()}
        pins = exact([f"{name}=={text}" for name, text in versions.items()], self.where)
        index = torch.get("index", "") if self.cuda else ""
        return [{"name": "torch", "requirements": pins, **({"index": index} if index else {})}]

    def requirement_steps(self) -> list[dict[str, Any]]:
        """The requirements in order; consecutive pins are one call of pip."""
        steps: list[dict[str, Any]] = []
        for item in self.pin.get("requirements", []):
            if isinstance(item, str):
                if not steps or not steps[-1].get("plain"):
                    steps.append({"requirements": [], "plain": True})
                steps[-1]["requirements"].append(item)
            else:
                keys = {"requirements", "no_build_isolation", "no_deps", "index", "environment"}
                keys.add("optional")
                refuse_unknown(item, keys, f"{self.where}, requirements")
                steps.append(dict(item))
        for number, step in enumerate(steps, 1):
            step.pop("plain", None)
            step["name"] = "requirements" if number == 1 else f"requirements-{number}"
            exact(step["requirements"], self.where)
        return steps

    def wheel_step(
        self, key: str, name: str, url: str, sha256: str | None, **more: Any
    ) -> dict[str, Any]:
        """A step that downloads a wheel, which a key of the pin set names, and installs it."""
        facts = wheel(url, sha256, f"{self.where}, {key}")
        file = f"{self.home}/wheels/{facts.pop('file_name')}"
        return {"name": name, "wheel": {**facts, "file": file}, **more}

    def deepspeed_steps(self) -> list[dict[str, Any]]:
        """DeepSpeed of the index or of a commit, its operators built now or when first used."""
        block = self.pin.get("deepspeed")
        if not block:
            return []
        ops = block.get("ops", []) if self.cuda else []
        built = {f"DS_BUILD_{op.upper()}": "1" for op in ops}
        more = {"environment": built} if built else {}
        if "commit" in block:
            return [{**self.tree_step("deepspeed"), "project": "deepspeed", **more}]
        refuse_unknown(block, {"version", "ops"}, f"{self.where}, deepspeed")
        pins = exact([f"deepspeed=={block['version']}"], self.where)
        return [
            {"name": "deepspeed", "requirements": pins, "no_build_isolation": bool(ops), **more}
        ]

    def oneflow_steps(self) -> list[dict[str, Any]]:
        """OneFlow by its wheel's address, or of the index."""
        block = self.pin.get("oneflow")
        if not block:
            return []
        if "wheel" in block:
            refuse_unknown(block, {"wheel", "sha256"}, f"{self.where}, oneflow")
            return [self.wheel_step("oneflow", "oneflow", block["wheel"], block.get("sha256"))]
        refuse_unknown(block, {"version", "sha256"}, f"{self.where}, oneflow")
        pins = exact([f"oneflow=={block['version']}"], self.where)
        more = {"sha256": block["sha256"]} if block.get("sha256") else {}
        return [{"name": "oneflow", "requirements": pins, **more}]

    def apex_step(self) -> list[dict[str, Any]]:
        """Apex as a wheel that the role apex builds; without CUDA there is nothing to build."""
        block = self.pin.get("apex")
        if not block:
            return []
        if not self.cuda:
            self.left_out["apex"] = f"cluster_device is {self.site['device']}"
            return []
        tree = next(candidate for candidate in self.trees if candidate["name"] == "apex")
        identity = {"tree": tree["identity"], "extensions": list(block.get("extensions", []))}
        built = {"folder": f"{self.home}/wheels/apex", "identity": identity}
        return [{"name": "apex", "project": "apex", "built": built}]

    def steps(self) -> list[dict[str, Any]]:
        """Everything that goes into the environment, in order."""
        build = exact(self.pin.get("build", []), self.where)
        steps: list[dict[str, Any]] = [{"name": "build", "requirements": build}] if build else []
        steps += self.torch_steps() + self.requirement_steps()
        for item in self.pin.get("wheels", []):
            refuse_unknown(item, {"url", "sha256", "no_deps"}, f"{self.where}, wheels")
            name = f"wheel-{wheel(item['url'], None, self.where)['project']}"
            more = {"no_deps": True} if item.get("no_deps") else {}
            steps.append(self.wheel_step("wheels", name, item["url"], item.get("sha256"), **more))
        steps += self.oneflow_steps() + self.deepspeed_steps()
        trees = [*self.pin.get("sources", {}).items()]
        trees += [("source", self.pin["source"])] if "source" in self.pin else []
        for name, tree in trees:
            install = tree.get("install", "")
            if install not in ("", "copy", "editable"):
                raise PinError(f"{self.where}, {name}: install is {install!r}; copy or editable")
            if install:
                step = self.tree_step(name, editable=install == "editable")
                # Without pins for the build, pip takes what the package itself asks for.
                steps.append({**step, "no_build_isolation": bool(self.pin.get("build"))})
        return steps + self.apex_step()

    def image(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """The image that the pin set is, with what is added to its base; {} for an environment."""
        block = self.pin.get("image")
        if not block:
            return {}
        refuse_unknown(self.pin, IMAGE_KEYS, f"{self.where}, which is an image")
        refuse_unknown(block, {"base"}, f"{self.where}, image")
        for step in steps:
            refuse_unknown(
                {key: value for key, value in step.items() if value},
                {"name", "requirements"},
                f"{self.where}, {step['name']} in an image",
            )
        return {
            "image": image_name(self.site["system"], self.name),
            "base": str(block["base"]),
            "requirements": [step["requirements"] for step in steps],
        }

    def cuda_home(self) -> str:
        """The CUDA toolkit that builds for this pin; empty without one to use."""
        version = str(self.pin.get("cuda", ""))
        if not self.cuda or not version:
            return ""
        return str((self.site.get("cuda_homes") or {}).get(version, f"/usr/local/cuda-{version}"))

    def environment(self) -> dict[str, str]:
        """Variables for what is built and checked."""
        variables = {str(name): str(text) for name, text in self.pin.get("environment", {}).items()}
        if self.cuda_home():
            variables["CUDA_HOME"] = self.cuda_home()
        gcc = str(self.site.get("gcc") or "")
        return {**({"CC": f"gcc-{gcc}", "CXX": f"g++-{gcc}"} if gcc else {}), **variables}

    def checks(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What verify asks the environment's Python, beyond versions."""
        programs: list[dict[str, Any]] = []
        names = {step["name"] for step in steps}
        if "torch" in names:
            version = str(self.pin["torch"]["version"])
            programs.append(
                {
                    "program": "pytorch",
                    "version": version if self.cuda else version.partition("+")[0],
                    "family": [n for n in ("torchvision", "torchaudio") if n in self.pin["torch"]],
                    "device": self.site["device"] if self.site.get("devices_here", True) else "cpu",
                }
            )
        if "deepspeed" in names:
            block = self.pin["deepspeed"]
            ops = block.get("ops", []) if self.cuda else []
            programs.append(
                {
                    "program": "deepspeed",
                    "version": str(block.get("version", "")),
                    "ops": ops,
                    "device": self.site["device"],
                }
            )
        if "oneflow" in names:
            programs.append({"program": "oneflow"})
        if "apex" in names:
            extensions = list(self.pin["apex"].get("extensions", []))
            programs.append({"program": "apex", "extensions": extensions})
        # A login node has other compilers than the nodes of a job.
        if self.cuda and self.site.get("devices_here", True) and has_compile(self.pin):
            variables = dict(self.site.get("compilers", {}))
            programs.append({"program": "compiler", "variables": variables})
        if self.pin.get("imports"):
            programs.append({"program": "imports", "modules": list(self.pin["imports"])})
        return programs

    def content(self) -> dict[str, Any]:
        """The plan as data."""
        steps = self.steps()
        image = self.image(steps)
        constraints = self.pin.get("constraints", "")
        lines = self.read(self.find("constraints", constraints)).splitlines() if constraints else []
        limits = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        return {
            "pin": self.name,
            "home": self.home,
            "python": str(self.pin.get("python", "")),
            "existing": self.pin.get("existing_python", ""),
            "cuda_home": self.cuda_home(),
            "environment": self.environment(),
            "constraints": exact(limits, f"{self.where}, {constraints}"),
            "trees": self.trees,
            "steps": [] if image else steps,
            "image": image,
            "checks": self.checks(steps),
            "left_out": self.left_out,
        }


def pin_plans(
    pins: Mapping[str, Pin],
    names: Sequence[str],
    site: Mapping[str, Any],
    read: Read = lambda path: path.read_text(encoding="utf-8"),
) -> list[dict[str, Any]]:
    """One plan for each pin set named. Raises PinError for a bad or unknown one."""
    plans = []
    for name in names:
        if name not in pins:
            system = site["system"]
            there = ", ".join(pins)
            raise PinError(
                f"{system} has no pin set {name}; roles/{system}/vars/pins.yml has {there}"
            )
        plans.append(Plan(name, pins[name], site, read).content())
    return plans


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter's name and function."""
        return {"pin_plans": pin_plans}
