"""A source tree: a pinned commit with patches, each applied exactly once.

    tree:make       bring the tree there; answer what it is now, and if it changed
    tree:verify     say whether it is there, and change nothing

Their spec: path, repository, mirrors (prefix to replacement), commit, version (what people call
the commit), patches (pairs of name and text, in order), untracked (patterns of files that others
may leave there), reset and check. They need the node's git.

Nothing is believed that is not in the files. What they should be is computed as git trees, one
after each patch (`git apply --cached` on an index beside the repository's), and compared with what
they are. So a patch that is there already is seen, also somebody else's; and a tree is only ever
taken from one known state to another.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from typing import Any

from node import parsing
from node.answer import ProgramError
from node.files import write_text
from node.git import GitError, git
from node.mirrors import mirrored
from node.schema import Mapped, Plain, Text

RECORD = os.path.join(".git", "trainbench.json")
RECORDED = Mapped(Text(), Plain())
DIFF_LINES = 20
# The files are the bytes of the commit on every node, whatever its git is configured to do.
ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"


class TreeError(ProgramError):
    """What is wrong with the tree or its source, with the cure."""


class Tree:
    """A checkout that is looked at through an index and objects of our own, beside it."""

    def __init__(self, path: str, spec: dict[str, Any], scratch: str) -> None:
        self.path, self.spec = path, spec
        self.commit: str = spec["commit"]
        self.label = f"{spec['version']} ({self.commit[:12]})" if spec["version"] else self.commit
        excluded = os.path.join(scratch, "excluded")
        with open(excluded, "w", encoding="utf-8") as file:
            file.writelines(f"{pattern}\n" for pattern in spec["untracked"])
        objects = os.path.join(scratch, "objects")
        os.makedirs(objects)
        self.env = {
            "GIT_INDEX_FILE": os.path.join(scratch, "index"),
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(path, ".git", "objects"),
        }
        self.excluded = excluded

    def git(self, *arguments: str, stdin: str = "") -> str:
        """Git beside the repository's own index and objects, which stay as they are."""
        return git(
            self.path,
            "-c",
            f"core.excludesFile={self.excluded}",
            *arguments,
            stdin=stdin,
            env=self.env,
        )

    def head(self) -> str:
        """The commit that is checked out."""
        return git(self.path, "rev-parse", "HEAD")

    def steps(self) -> list[str]:
        """The tree of the commit, and the tree after each patch."""
        self.git("read-tree", self.commit)
        trees = [self.git("write-tree")]
        for name, text in self.spec["patches"]:
            for option in (["--check"], []):
                try:
                    arguments = ["apply", "--cached", "--whitespace=nowarn", *option, "-"]
                    self.git(*arguments, stdin=text)
                except GitError as error:
                    raise TreeError(
                        f"patch {name} does not apply to {self.label}: {error}"
                    ) from None
            trees.append(self.git("write-tree"))
        return trees

    def present(self, like: str) -> str:
        """The tree of the files that are there; ``like`` says which are tracked though ignored."""
        self.git("read-tree", like)
        self.git("add", "--all", "--", ".")
        return self.git("write-tree")

    def switch(self, present: str, target: str) -> None:
        """Take the files from one tree to the other, touching those alone that differ."""
        self.present(present)  # the index now knows the files' state, which the merge asks for
        self.git("read-tree", "-m", "-u", present, target)

    def difference(self, target: str, present: str) -> str:
        """What differs, as `git diff --stat` says it."""
        lines = self.git("diff", "--stat=100", "--no-renames", target, present).splitlines()
        more = len(lines) - DIFF_LINES
        if more > 0:
            lines[DIFF_LINES - 1 : -1] = [f" ... {more} more"]
        return "\n".join(lines)

    def recorded(self) -> dict[str, Any]:
        """What the record says was put here; empty without one."""
        record: dict[str, Any] = parsing.recall(os.path.join(self.path, RECORD), RECORDED)
        return record

    def record(self, tree: str) -> dict[str, Any]:
        """Write down what is here now."""
        content = identity(self.spec, tree)
        path = os.path.join(self.path, RECORD)
        if content != self.recorded():
            write_text(path, json.dumps(content, indent=2, sort_keys=True))
        return content


def identity(spec: dict[str, Any], tree: str) -> dict[str, Any]:
    """What tells this tree from another."""
    return {
        "repository": spec["repository"],
        "commit": spec["commit"],
        "patches": [
            {"name": name, "sha256": hashlib.sha256(text.encode()).hexdigest()}
            for name, text in spec["patches"]
        ],
        "tree": tree,
    }


def fetch(folder: str, url: str, commit: str) -> None:
    """Bring the commit alone where the server gives it, else all that the server has."""
    try:
        git(folder, "fetch", "-q", "--depth=1", "--no-tags", url, commit)
        return
    except GitError:
        pass  # an older server gives out tips only; an error that lasts comes again below
    try:
        git(folder, "fetch", "-q", "--tags", url, "+refs/heads/*:refs/remotes/origin/*")
    except GitError as error:
        raise TreeError(f"cannot fetch from {url}: {error}") from None
    try:
        git(folder, "cat-file", "-e", commit + "^{commit}")
    except GitError:
        raise TreeError(f"{url} has no commit {commit}; correct the pin or the mirror") from None


def clone(spec: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Make the tree beside its place and move it there when it is whole, patches included."""
    path = spec["path"]
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    try:
        url = mirrored(spec["repository"], spec["mirrors"])
        git(partial, "init", "-q", "--template=")
        git(partial, "remote", "add", "origin", url)
        os.makedirs(os.path.join(partial, ".git", "info"), exist_ok=True)
        with open(
            os.path.join(partial, ".git", "info", "attributes"), "w", encoding="utf-8"
        ) as file:
            file.write(ATTRIBUTES)
        fetch(partial, url, spec["commit"])
        git(partial, "checkout", "-q", "--detach", spec["commit"])
        tree = Tree(partial, spec, scratch)
        trees = tree.steps()
        tree.switch(trees[0], trees[-1])
        content = tree.record(trees[-1])
        os.rename(partial, path)  # an empty folder may be in its place
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return content


def look(tree: Tree) -> tuple[list[str], str, str]:
    """The steps to where the tree should be, where it is, and how it differs in words."""
    head = tree.head()
    if head != tree.commit:
        return [], "", f"{tree.path} is at commit {head}, not at {tree.label}"
    trees = tree.steps()
    for step in reversed(trees):
        present = tree.present(step)
        if present == step:
            return trees, present, ""
    present = tree.present(trees[-1])
    recorded = tree.recorded()
    if recorded.get("commit") == head and recorded.get("tree") == present:
        return trees, present, ""  # ours as we left it, with other patches than today's
    message = f"{tree.path} is not {tree.label} with its {len(trees) - 1} patches; it differs in:\n"
    return trees, present, message + tree.difference(trees[-1], present)


def force(tree: Tree) -> str:
    """Give up what is there for what should be; returns the tree."""
    spec = tree.spec
    head = tree.head()
    present = tree.present(head)
    if head != tree.commit:
        fetch(tree.path, mirrored(spec["repository"], spec["mirrors"]), tree.commit)
    trees = tree.steps()
    tree.switch(present, trees[-1])
    git(tree.path, "update-ref", "--no-deref", "HEAD", tree.commit)
    git(tree.path, "read-tree", tree.commit)
    return trees[-1]


def bring(spec: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Bring the tree to its commit and patches."""
    path, check = spec["path"], spec["check"]
    if not os.path.isdir(path) or not os.listdir(path):
        return {"changed": True, "identity": {} if check else clone(spec, scratch)}
    tree = Tree(path, spec, scratch)
    trees, present, fault = look(tree)
    if fault and not spec["reset"]:
        raise TreeError(
            f"{fault}\nsave what you need of it; then set source_tree_reset=true to have it put "
            "right, or remove the folder, and run setup again"
        )
    if fault:
        target = "" if check else force(tree)
    else:
        target = trees[-1]
        if present != target and not check:
            tree.switch(present, target)
    content = identity(spec, target) if check else tree.record(target)
    return {"changed": bool(fault) or present != target, "identity": content}


def compare(spec: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Say whether the tree is what it should be."""
    if not os.path.isdir(os.path.join(spec["path"], ".git")):
        raise TreeError(f"{spec['path']} is not there; run setup")
    tree = Tree(spec["path"], spec, scratch)
    trees, present, fault = look(tree)
    if not fault and present != trees[-1]:
        fault = f"{spec['path']} has the patches of an earlier setup; run setup"
        if present in trees:
            lacking = ", ".join(name for name, _ in spec["patches"][trees.index(present) :])
            fault = f"{spec['path']} lacks the patches {lacking}; run setup"
    if fault:
        raise TreeError(fault)
    return {"changed": False, "identity": identity(spec, present)}


def make(spec: dict[str, Any]) -> dict[str, Any]:
    """Bring the tree to its commit and patches; what it is now, and whether it changed."""
    check_request(spec)
    if shutil.which("git") is None and spec["check"]:
        return {"changed": True, "identity": {}}  # by then the role base has installed it
    with scratch_folder() as scratch:
        return bring(spec, scratch)


def verify(spec: dict[str, Any]) -> dict[str, Any]:
    """Refuse a tree that is not what it should be."""
    check_request(spec)
    with scratch_folder() as scratch:
        return compare(spec, scratch)


def check_request(spec: dict[str, Any]) -> None:
    """Refuse an invalid commit, and a folder that is somebody else's."""
    path = spec["path"]
    if not re.fullmatch(r"[0-9a-f]{40}", spec["commit"]):
        raise TreeError(f"source_tree_commit is {spec['commit']}; name the full 40 digits")
    if os.path.isdir(path) and os.listdir(path) and not os.path.isdir(os.path.join(path, ".git")):
        raise TreeError(f"{path} holds files that no git put there; move them away")


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Where git may work beside the repository; refused on a node without git."""
    if shutil.which("git") is None:
        raise TreeError("git is not on this node; install the package git")
    return tempfile.TemporaryDirectory(prefix="trainbench-tree-")
