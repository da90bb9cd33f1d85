"""The node's side of prefetched packages: what setup would install, by the node's own apt.

    packages:plan     which packages, with all that they need
    packages:fetch    download some of them, checked by apt
    packages:drop     remove downloads, or everything that plan left

plan's spec has `groups`, one a role: name, wanted and lacking (packages as apt takes them), files
(apt's own, path and content), repositories (name, content, key in base64). A group is worked out
twice: for a machine without a single package, so that the answer does not depend on what this node
happens to have, and for this node, whose packages may have to change with what comes. apt keeps its
lists in a folder of our own: nothing else on the node changes, and no root is needed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
from typing import Any, Dict, List  # Python 3.8
from urllib.parse import unquote

from node.answer import ProgramError

TOOLS = ("python3-apt",)  # what Ansible's apt module installs for itself where it is missing
INSTALL = ["install", "--yes", "-qq", "--print-uris", "--allow-downgrades",
           "--allow-change-held-packages"]  # fmt: skip
STATUS = "/var/lib/dpkg/status"
# A site's hooks, such as an indexer's, are not for lists of our own.
HOOKS = ("APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success")
Spec = Dict[str, Any]  # Python 3.8 takes no dict[...] outside of annotations
Names = List[str]  # as above


class ClosureError(ProgramError):
    """What apt cannot give, with the cure."""


# --- pure -----------------------------------------------------------------------------------------


def printed(text: str) -> dict[str, str]:
    """What `apt-get --print-uris` says: a file's name to what apt calls that version."""
    names = {}
    for line in text.splitlines():
        match = re.match(r"'[^']+' (\S+_\S+_\S+\.deb) \d+", line)
        if match:
            name, version, arch = match[1][: -len(".deb")].split("_")
            called = name if arch == "all" else f"{name}:{arch}"
            # a colon stands as %3a there, which apt would decode in a file's name
            names[match[1].replace("%3a", "+")] = f"{called}={unquote(version)}"
    return names


def stanzas(text: str) -> dict[str, str]:
    """What `apt-cache show` says, by what apt calls the version; the first of each."""
    paragraphs: dict[str, str] = {}
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        fields = dict(re.findall(r"^([\w-]+): ?(.*)$", paragraph, flags=re.MULTILINE))
        if "Package" in fields and "SHA256" in fields:
            name, arch = fields["Package"], fields["Architecture"]
            called = name if arch == "all" else f"{name}:{arch}"
            paragraphs.setdefault(f"{called}={fields['Version']}", paragraph)
    return paragraphs


def size_and_sum(stanza: str) -> list[Any]:
    """A package's size in bytes and its SHA-256, by the signed list."""
    fields = dict(re.findall(r"^(Size|SHA256): ?(\S+)$", stanza, flags=re.MULTILINE))
    return [int(fields["Size"]), fields["SHA256"]]


def entry(stanza: str, file: str) -> str:
    """A package's entry in the list of a repository in whose folder it is."""
    size, sha256 = size_and_sum(stanza)
    places = r"(?m)^(Filename|Size|MD5sum|SHA1|SHA256|SHA512): .*\n"
    stanza_text = re.sub(places, "", stanza.rstrip("\n") + "\n")
    return f"{stanza_text}Filename: ./{file}\nSize: {size}\nSHA256: {sha256}\n"


def settings(scratch: str) -> str:
    """apt's configuration, read after the node's own."""
    lines = [
        f'Dir::State "{scratch}/state";',
        f'Dir::State::status "{STATUS}";',
        f'Dir::Cache "{scratch}/cache";',
        f'Dir::Etc::SourceList "{scratch}/etc/sources.list";',
        f'Dir::Etc::SourceParts "{scratch}/etc/sources.list.d";',
        f'Dir::Etc::PreferencesParts "{scratch}/etc/preferences.d";',
        'APT::Sandbox::User "root";',  # apt's own user may not enter the folder
        *(f"#clear {hook};" for hook in HOOKS),
    ]
    return "\n".join(lines) + "\n"


# --- effects --------------------------------------------------------------------------------------


def run(scratch: str, argv: list[str], title: str, where: str | None = None) -> str:
    """A program of apt's; its words. Raises ClosureError with its last ones."""
    env = {**os.environ, "LC_ALL": "C", "APT_CONFIG": f"{scratch}/apt.conf"}
    env["DEBIAN_FRONTEND"] = "noninteractive"
    completed = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, env=env, cwd=where
    )
    if completed.returncode != 0:
        lines = (
            (completed.stderr + completed.stdout).decode("utf-8", "replace").strip().splitlines()
        )
        errors = [line for line in lines if line.startswith("E:")] or lines or ["no word"]
        raise ClosureError(
            f"{title}: {errors[0].strip()}; see the pin and the node's repositories, or name a"
            " mirror in site_mirrors.apt"
        )
    return completed.stdout.decode("utf-8", "replace")


def copy_parts(source: str, target: str, endings: tuple[str, ...]) -> None:
    """The node's own files of one kind, except those that setup wrote: they come with the spec."""
    os.makedirs(target)
    for name in sorted(os.listdir(source)) if os.path.isdir(source) else []:
        if name.endswith(endings) and not name.startswith("trainbench-"):
            shutil.copy(os.path.join(source, name), target)


def write(path: str, data: bytes) -> None:
    """A file."""
    with open(path, "wb") as file:
        file.write(data)


def prepare(scratch: str, groups: list[Spec]) -> None:
    """Folders and files for apt: the node's own, the roles' and ours."""
    for path in ("state/lists/partial", "cache/archives/partial", "out", "etc"):
        os.makedirs(f"{scratch}/{path}")
    copy_parts("/etc/apt/apt.conf.d", f"{scratch}/etc/apt.conf.d", ("",))
    copy_parts("/etc/apt/sources.list.d", f"{scratch}/etc/sources.list.d", (".list", ".sources"))
    copy_parts("/etc/apt/preferences.d", f"{scratch}/etc/preferences.d", ("",))
    for name in ("sources.list", "apt.conf"):
        if os.path.exists(f"/etc/apt/{name}"):
            target = "sources.list" if name == "sources.list" else "apt.conf.d/zy-main"
            shutil.copy(f"/etc/apt/{name}", f"{scratch}/etc/{target}")
    write(f"{scratch}/etc/apt.conf.d/zz-trainbench", settings(scratch).encode())
    # apt reads this one before all others, and so where the others are.
    configuration = f'Dir::Etc::Parts "{scratch}/etc/apt.conf.d";\nDir::Etc::Main "/dev/null";\n'
    write(f"{scratch}/apt.conf", configuration.encode())
    write(f"{scratch}/nothing", b"")
    for group in groups:
        for item in group["files"]:
            name = os.path.basename(item["path"])
            if "/preferences.d/" in item["path"]:
                write(f"{scratch}/etc/preferences.d/{name}", item["content"].encode())
        for repository in group["repositories"]:
            ring = f"{scratch}/etc/{repository['name']}.gpg"
            write(ring, base64.b64decode(repository["key"]))
            text = re.sub(r"(?m)^Signed-By: .*$", f"Signed-By: {ring}", repository["content"])
            path = f"{scratch}/etc/sources.list.d/trainbench-{repository['name']}.sources"
            write(path, text.encode())


def stanzas_of(scratch: str, called: Names) -> dict[str, str]:
    """Stanzas of versions, from the lists that apt has checked."""
    by_version: dict[str, str] = {}
    for at in range(0, len(called), 200):
        argv = ["apt-cache", "show", *called[at : at + 200]]
        by_version.update(stanzas(run(scratch, argv, "apt-cache show")))
    return by_version


def plan(spec: Spec) -> dict[str, Any]:
    """All packages of all groups, with their sizes and checksums."""
    scratch = tempfile.mkdtemp(prefix="trainbench-closure-")
    try:
        prepare(scratch, spec["groups"])
        run(scratch, ["apt-get", "update", "-q"], "apt-get update")
        versions: dict[str, str] = {}
        for group in spec["groups"]:
            for status, names in (("nothing", [*group["wanted"], *TOOLS]), ("", group["lacking"])):
                if names:
                    path = f"{scratch}/{status}" if status else STATUS
                    argv = ["apt-get", "-o", f"Dir::State::status={path}", *INSTALL, *names]
                    versions.update(printed(run(scratch, argv, f"packages of {group['name']}")))
        stanzas_known = stanzas_of(scratch, sorted(set(versions.values())))
        lost = sorted(called for called in versions.values() if called not in stanzas_known)
        if lost:
            raise ClosureError(
                f"apt's lists name no SHA-256 of {', '.join(lost)}; correct that repository"
            )
        files = {file: size_and_sum(stanzas_known[called]) for file, called in versions.items()}
        write(f"{scratch}/plan.json", json.dumps(versions).encode())
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return {"scratch": scratch, "files": files}


def fetch(spec: Spec) -> dict[str, Any]:
    """Download files into `<scratch>/out`; their stanzas."""
    scratch = spec["scratch"]
    with open(f"{scratch}/plan.json", encoding="utf-8") as file:
        called = {name: value for name, value in json.load(file).items() if name in spec["files"]}
    argv = ["apt-get", "download", "-q", *called.values()]
    run(scratch, argv, "apt-get download", where=f"{scratch}/out")
    stanzas_known = stanzas_of(scratch, sorted(called.values()))
    entries = {}
    for name, value in called.items():
        entries[name] = entry(stanzas_known[value], name)
    there = {name.replace("%3a", "+"): name for name in os.listdir(f"{scratch}/out")}
    return {"stanzas": entries, "paths": {name: f"{scratch}/out/{there[name]}" for name in entries}}


def drop(spec: Spec) -> dict[str, Any]:
    """Remove the downloads; at the end everything."""
    folder = spec["scratch"]
    shutil.rmtree(folder if spec["all"] else f"{folder}/out", ignore_errors=True)
    if not spec["all"]:
        os.makedirs(f"{folder}/out")
    return {}
