"""Download all that an inventory needs into one folder, for sites without a network.

    python3 prefetch.py < SPEC       SPEC is JSON, written by roles/prefetch/vars/main.yml

Runs on the control node, by the Python that runs Ansible (it needs PyYAML, git, and pip of a
Python of the nodes' version). The folder then has

    pip/                 wheels and source archives, flat
    git/<host>/<path>    bare repositories with the pinned commits, without their history
    apt/<release>/       packages, a flat repository; they came before this program ran
    data/<host>/<path>   files by URL: corpora, single wheels, conda's installer
    manifest.json        every file with its size and checksum, and what stands in place of what

What is there already stays; a download that broke off is gone on with. Prints {"changed": bool},
what was downloaded, and `left_out`: what setup will want and the folder cannot have. Exits 0, or 1
with one sentence that says what is wrong and the cure.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node import fetch
from node.checksum import BLOCK, sha256
from node.env.indexes import INDEX, sources
from node.files import write_text
from node.schema import List, Row, Text, UnfitError
from plugins.filter import mirrors
from roles.prefetch.files.needs import File, Needs, PrefetchError, Wheels, needs

NODES = List(Row(Text(r"[0-9]{1,3}\.[0-9]{1,3}"), Text(r"[A-Za-z0-9_]*")))  # Python and machine


# --- downloading ----------------------------------------------------------------------------------


def run(argv: list[str], title: str, cure: str) -> None:
    """Run a program. Raises PrefetchError with its last words."""
    ran = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    if ran.returncode != 0:
        lines = (ran.stderr.strip() or ran.stdout.strip() or f"exit {ran.returncode}").splitlines()
        # The line that says why, rather than pip's notice after it.
        errors = [line for line in lines if line.lower().startswith(("error", "fatal"))]
        raise PrefetchError(f"{title}: {(errors or lines)[-1].strip()}; {cure}")


def interpreter(version: str) -> str:
    """A Python of that version on this machine, with pip."""
    if version == "{}.{}".format(*sys.version_info[:2]):
        return sys.executable
    program = shutil.which(f"python{version}")
    if (
        program
        and subprocess.run([program, "-m", "pip", "-V"], capture_output=True).returncode == 0
    ):
        return program
    raise PrefetchError(
        f"this machine has no Python {version} with pip, which must choose the nodes' wheels;"
        f" install python{version}, or run prefetch.yml on a machine that has it"
    )


class Prefetch:
    """Fills the folder."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.folder = Path(spec["dir"])
        self.mirrors = spec["mirrors"]

    def files(self, files: Iterable[File]) -> None:
        """Files by URL, resumed and checked."""
        for item in files:
            request = {
                "url": item.url,
                "path": str(self.folder / item.path),
                "sha256": item.sha256,
                "md5": item.md5,
                "mirrors": self.mirrors.get(item.kind) or {},
            }
            try:
                fetch.bring(request)
            except fetch.FetchError as error:
                raise PrefetchError(str(error)) from None

    def commits(self, commits: Iterable[tuple[str, str]]) -> None:
        """Bare repositories that have the commits, and give them out by their names."""
        for repository, commit in sorted(commits):
            parts = urlsplit(repository)
            path = self.folder / "git" / f"{parts.hostname}{parts.path}".rstrip("/")
            git = ["git", "-C", str(path)]
            cure = "see the pin, or name a mirror in site_mirrors.git"
            if not (path / "HEAD").exists():
                path.mkdir(parents=True, exist_ok=True)
                run([*git, "init", "-q", "--bare", "--template="], repository, cure)
                run([*git, "config", "uploadpack.allowAnySHA1InWant", "true"], repository, cure)
            there = subprocess.run(
                [*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True
            )
            if there.returncode == 0:
                continue
            url = mirrors.mirrored(repository, "git", self.mirrors)
            ref = f"+{commit}:refs/heads/pin-{commit[:12]}"
            fetching = [*git, "-c", "gc.auto=0", "fetch", "-q", "--no-tags", url]
            try:
                run([*fetching, "--depth=1", ref], repository, cure)
            except PrefetchError:  # an older server gives out tips only
                run([*fetching, "+refs/heads/*:refs/remotes/origin/*"], repository, cure)
                run([*git, "update-ref", f"refs/heads/pin-{commit[:12]}", commit], repository, cure)
            run([*git, "repack", "-q", "-a", "-d"], repository, cure)

    def wheels(self, groups: Iterable[Wheels]) -> None:
        """Wheels with all that they need, by pip itself."""
        target = self.folder / "pip"
        target.mkdir(parents=True, exist_ok=True)
        for group in groups:
            self._download(group, target)
        if any(target.glob("*.tar.gz")) or any(target.glob("*.zip")):
            # pip builds these on the node, in an environment of its own, with whatever is newest.
            for python in sorted({group.python for group in groups}):
                self._download(Wheels(python, ["setuptools", "wheel"]), target)

    def _download(self, group: Wheels, target: Path) -> None:
        variables = self.spec["variables"]
        site = {
            "index": variables.get("python_env_index_url"),
            "extra_index": variables.get("python_env_extra_index_url"),
            "find_links": variables.get("python_env_find_links"),
            "mirrors": self.mirrors,
        }
        lines = [*sources(site, group.indexes), *group.requirements]
        lines += [str(self.folder / item.path) for item in group.files]
        with tempfile.TemporaryDirectory(prefix="trainbench-prefetch-") as scratch:
            requirements, limits = (
                Path(scratch, "requirements.txt"),
                Path(scratch, "constraints.txt"),
            )
            # In a file: an index's address may hold a password.
            requirements.write_text("\n".join(lines) + "\n", encoding="utf-8")
            limits.write_text("\n".join(group.constraints) + "\n", encoding="utf-8")
            argv = [interpreter(group.python), "-m", "pip", "download", "--quiet", "--no-input"]
            argv += ["--disable-pip-version-check", "--dest", str(target)]
            argv += ["--no-deps"] if group.no_deps else []
            run(
                [*argv, "-r", str(requirements), "-c", str(limits)],
                f"pip download of {', '.join(group.requirements)}",
                "see the pins, or name an index in site_mirrors.pip",
            )


# --- packages -------------------------------------------------------------------------------------


def release_text(packages: bytes) -> str:
    """A flat repository's Release. Its date is fixed: equal packages make an equal file."""
    digest = hashlib.sha256(packages).hexdigest()
    return (
        "Origin: TrainBench\nLabel: prefetched\nDate: Thu, 01 Jan 1970 00:00:00 UTC\n"
        f"SHA256:\n {digest} {len(packages)} Packages\n"
    )


def releases_of(plans: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Each release's packages by file name, all nodes together."""
    packages: dict[str, set[str]] = {}
    for plan in plans:
        packages.setdefault(plan["release"], set()).update(plan["files"])
    return {release: sorted(names) for release, names in packages.items()}


def write_repositories(folder: Path, releases: Mapping[str, list[str]]) -> None:
    """Make repositories of packages in `apt/<release>`, each with its `.control`."""
    for release, names in releases.items():
        release_folder = folder / "apt" / release
        file_names = {*names, *(f"{name}.control" for name in names), "Packages", "Release"}
        for path in release_folder.glob("*"):
            if path.name not in file_names:  # of an older prefetch
                path.unlink()
        entries = [
            (release_folder / f"{name}.control").read_text(encoding="utf-8") for name in names
        ]
        packages = "\n".join(entries).encode()
        (release_folder / "Packages").write_bytes(packages)
        (release_folder / "Release").write_text(release_text(packages), encoding="utf-8")


# --- the manifest ---------------------------------------------------------------------------------


def places(needed: Needs) -> dict[str, dict[str, str]]:
    """The replacement of each public address, as a path in the folder."""
    kinds: dict[str, dict[str, str]] = {"pip": {INDEX: "pip"}, "git": {}, "data": {}, "conda": {}}
    for group in needed.wheels:
        kinds["pip"] |= dict.fromkeys(group.indexes, "pip")
    for repository, _ in needed.commits:
        parts = urlsplit(repository)
        kinds["git"][f"{parts.scheme}://{parts.netloc}/"] = f"git/{parts.hostname}/"
    for item in needed.files:
        parts = urlsplit(item.url)
        kinds[item.kind][f"{parts.scheme}://{parts.netloc}/"] = f"data/{parts.hostname}/"
    return kinds


def manifest(folder: Path, needed: Needs) -> dict[str, Any]:
    """Every file with its size and checksum; `datasets` are those for one node only."""
    listed = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if (
            path.is_file()
            and not name.startswith("manifest.json")  # nor one that was half written
            and not name.endswith((".part", ".part.json", ".control"))
        ):
            listed[name] = [path.stat().st_size, sha256(str(path))]
    only = sorted(item.path for item in needed.files if item.dataset)
    return {"schema": 1, "files": listed, "datasets": only, "mirrors": places(needed)}


def prefetch(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the folder, and say what it has."""
    folder = Path(spec["dir"])
    NODES.check(spec["nodes"], "what a node says of its Python")
    needed = needs(spec)
    work = Prefetch(spec)
    work.files(needed.files)
    work.commits(needed.commits)
    work.wheels(needed.wheels)
    write_repositories(folder, releases_of(spec["apt"]))
    path = folder / "manifest.json"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = json.dumps(manifest(folder, needed), indent=1, sort_keys=True) + "\n"
    if text != before:
        write_text(str(path), text)
    sizes = [size for size, _ in json.loads(text)["files"].values()]
    return {
        "changed": text != before,
        "files": len(sizes),
        "mib": sum(sizes) // BLOCK,
        "left_out": needed.left_out,
    }


def main() -> int:
    """Run the command line; the exit code."""
    try:
        print(json.dumps(prefetch(json.load(sys.stdin))))
    except (PrefetchError, UnfitError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}; see rights and disk there", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
