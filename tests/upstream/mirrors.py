"""The trainers' repositories on this machine."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.systems.common.pins import pins

FOLDER = os.environ.get("TRAINBENCH_MIRRORS")
CLONES = PROJECT / "build" / "mirrors"  # where nodes see them


def git(repository: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run git there."""
    return subprocess.run(
        ["git", "-C", str(repository), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_NO_LAZY_FETCH": "1", **env},
    )


def mirror(repository: str, commit: str = "HEAD") -> Path:
    """The repository of a public address or `owner/name`.

    Without a folder of mirrors it is cloned at night, and skips the test by day.
    """
    name = repository.removesuffix(".git").removeprefix("https://github.com/")
    name = name.removeprefix("https://gitee.com/").replace("ascend/", "Ascend/")
    path = Path(FOLDER or CLONES) / name
    if FOLDER is None and os.environ["TRAINBENCH_NIGHTLY"] != "upstream":
        pytest.skip("TRAINBENCH_MIRRORS names no folder of repositories")
    if FOLDER is None and not path.exists():
        address = repository if "://" in repository else f"https://github.com/{repository}"
        argv = ["git", "clone", "--quiet", "--bare", address, str(path)]
        cloned = subprocess.run(argv, capture_output=True, text=True)
        assert cloned.returncode == 0, cloned.stderr
    if git(path, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
        pytest.skip(f"{path} is not there, or has no commit {commit}")
    return path


def show(repository: str, commit: str, path: str) -> str:
    """A file of a commit."""
    done = git(mirror(repository, commit), "show", f"{commit}:{path}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def blob(repository: Path, name: str) -> bytes:
    """A file of a commit, `<commit>:<path>`, byte for byte."""
    words = ["git", "-C", str(repository), "cat-file", "blob", name]
    return subprocess.run(words, capture_output=True, check=True).stdout


def whole(repository: str, commit: str, into: Path) -> tuple[Path, str, list[str]]:
    """A repository whose commit can be checked out, that commit, and what was left out of it.

    Mirrors may lack large files; a commit without them stands in then, every other file the same.
    """
    source = mirror(repository, commit)
    listed = git(source, "rev-list", "--objects", "--no-walk", "--missing=print", commit).stdout
    missing = {line[1:] for line in listed.splitlines() if line.startswith("?")}
    if not missing:
        return source, git(source, "rev-parse", f"{commit}^{{commit}}").stdout.strip(), []
    into.mkdir(parents=True)
    git(into, "init", "-q")
    objects = git(source, "rev-parse", "--git-path", "objects").stdout.strip()
    alternates = into / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(f"{(source / objects).resolve()}\n")
    rows = git(source, "ls-tree", "-r", "-z", commit).stdout.split("\0")
    kept = [row for row in rows if row and row.split()[2] not in missing]
    left_out = [row.split("\t")[1] for row in rows if row and row.split()[2] in missing]
    index = subprocess.run(
        ["git", "-C", str(into), "update-index", "-z", "--index-info"],
        input="\0".join(kept) + "\0",
        text=True,
        capture_output=True,
    )
    assert index.returncode == 0, index.stderr
    tree = git(into, "write-tree", "--missing-ok").stdout.strip()
    who = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "T")
    who |= dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "t@example.org")
    made = git(into, "commit-tree", tree, "-m", "without what the mirror lacks", **who)
    commit = made.stdout.strip()
    git(into, "update-ref", "refs/heads/main", commit)
    return into, commit, left_out


def pinned(content: dict[str, Any], folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A pin set with commits that the mirrors have whole, and its addresses to what stands there.

    As `site_mirrors.git` takes them. Skips the test where a repository or its commit is not here.
    """
    places: dict[str, str] = {}

    def of(source: dict[str, Any]) -> dict[str, Any]:
        address = source["repository"]
        place, commit, left_out = whole(address, source["commit"], folder / str(len(places)))
        assert len(left_out) <= 1, left_out
        places[address] = str(place.resolve())
        return {**source, "commit": commit}

    found = dict(content)
    for name in ("source", "apex", "deepspeed"):
        if "commit" in content.get(name, {}):
            found[name] = of(content[name])
    if "sources" in content:
        found["sources"] = {name: of(source) for name, source in content["sources"].items()}
    return found, places


def unpacked(system: str, pin: str, folder: str, into: Path) -> None:
    """A folder of a pin set's source, as its role puts it on a node: with its patches."""
    source = pins(system)[pin]["source"]
    place, packed = mirror(source["repository"], source["commit"]), into / "packed.tar"
    said = git(place, "archive", "-o", str(packed), source["commit"], folder)
    assert said.returncode == 0, said.stderr
    subprocess.run(["tar", "-xf", str(packed), "-C", str(into)], check=True)
    patches = [PROJECT / "roles" / system / "files" / "patches" / n for n in source["patches"]]
    subprocess.run(["git", "apply", *map(str, patches)], cwd=into, check=True)
