"""What a git checkout of somebody else's is: its commit, and a checksum of what was edited.

Nothing that the repository says is run: no hook, filter, text conversion, file-system monitor or
alias. Its own git folder is asked for the commit and for where its objects are, which runs nothing.
Then our own git folder, without settings, compares the files with those objects; theirs is
never written to.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile

from node import program_files
from node.git import GitError, output
from node.printable import printable
from node.program_files import FingerprintError, Limits

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Set, Tuple

LINK = "160000"  # the mode of a submodule
DEPTH = 5  # of repositories within each other


def of_checkout(folder: str, limits: Limits, depth: int = DEPTH) -> Optional[Dict[str, str]]:
    """Return {commit, edits} of the checkout that a folder is in; None outside of checkouts.

    `edits` is "" where nothing was edited. Raises FingerprintError.
    """
    path = os.path.realpath(folder)
    if not _has_git_above(path):
        return None
    if shutil.which("git") is None:
        raise FingerprintError(
            "%s is a git checkout, and git is not on this node; install the package git"
            % limits.folder
        )
    with tempfile.TemporaryDirectory(prefix="trainbench-git-") as scratch:
        try:
            repository = Repository.of(path, scratch, limits)
            if repository is None:
                return None
            return {"commit": repository.commit, "edits": repository.edits(depth)}
        except GitError as error:
            raise FingerprintError(_refusal(path, str(error))) from None
        except subprocess.TimeoutExpired:
            raise FingerprintError(
                "git takes more than %g s to look through %s; %s"
                % (program_files.LIMIT_S, limits.folder, "name in .gitignore what runs write")
            ) from None


def _has_git_above(path: str) -> bool:
    while not os.path.lexists(os.path.join(path, ".git")):
        above = os.path.dirname(path)
        if above == path:
            return False
        path = above
    return True


def _refusal(path: str, message: str) -> str:
    if re.search("dubious ownership|unsafe repository", message):
        return (
            "git does not look into %s, which is another user's; run `git config --global --add"
            " safe.directory %s` as the user that trains" % (printable(path), printable(path))
        )
    last_line = printable(message.splitlines()[-1])[:300]
    return "git cannot say what %s is: %s; fix the checkout, or remove its .git" % (
        printable(path),
        last_line,
    )


class Repository:
    """A checkout, looked at through a git folder of our own."""

    def __init__(self, top: str, commit: str, git_folder: str, limits: Limits) -> None:
        self.top, self.commit, self.git_folder, self.limits = top, commit, git_folder, limits

    @classmethod
    def of(cls, path: str, scratch: str, limits: Limits) -> Optional[Repository]:
        """Return the repository that a folder is part of; None where it has none of its files."""
        questions = ["--show-toplevel", "--git-path", "objects", "--git-path", "info/exclude"]
        answers = output(path, "rev-parse", *questions, limit_s=limits.remaining_s()).split("\n")
        if len(answers) != 4:  # each ends with a line break
            raise FingerprintError(
                "%s is a checkout in whose path stands a line break; move it" % limits.folder
            )
        top, objects, exclude, _ = answers
        # The name alone: an object that a partial clone lacks would be fetched by its programs.
        head = ["rev-parse", "--verify", "--quiet", "HEAD"]
        try:
            commit = output(path, *head, limit_s=limits.remaining_s()).strip()
        except GitError:
            return None  # nothing was ever committed
        within = os.path.relpath(path, top)
        if within.startswith(".."):
            return None  # its settings say that its files lie elsewhere
        git_folder = os.path.join(scratch, "git")
        _make(git_folder, commit, os.path.join(path, objects), os.path.join(path, exclude))
        repository = cls(top, commit, git_folder, limits)
        repository.git("read-tree", commit)
        if within != "." and not repository.git("ls-files", "-z", "--", within):
            return None  # a folder that the repository around it knows nothing of
        return repository

    def git(self, *arguments: str, stdin: str = "") -> str:
        """Run git on the files, with nothing of the repository but its objects."""
        env = {
            "GIT_DIR": self.git_folder,
            "GIT_WORK_TREE": self.top,
            "GIT_INDEX_FILE": os.path.join(self.git_folder, "index"),
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "HOME": self.git_folder,  # what an older git takes for its place
            "XDG_CONFIG_HOME": self.git_folder,
        }
        limit_s = self.limits.remaining_s()
        options = ["-c", "core.fileMode=false"]  # file systems without it show all as executable
        return output(self.top, *options, *arguments, stdin=stdin, env=env, limit_s=limit_s)

    def edits(self, depth: int) -> str:
        """Return a checksum of what differs from the commit; "" where nothing does."""
        changes = sorted([*self.changed(depth), *self.submodules(depth)])
        counted_changes = program_files.counted(changes, self.limits)
        return program_files.digest(counted_changes) if counted_changes else ""

    def changed(self, depth: int) -> Iterator[Tuple[str, str]]:
        """Yield tracked files that differ, and programs and settings that nobody ignores."""
        options = ["--untracked-files=all", "--ignore-submodules=all", "--no-renames"]
        listed = self.git("status", "--porcelain=v1", "-z", *options).split("\0")
        tracked = [entry[3:] for entry in listed if entry and not entry.startswith("??")]
        untracked = [entry[3:] for entry in listed if entry.startswith("??")]
        elsewhere = self.filtered(tracked)
        for path in tracked:
            if path not in elsewhere or path.endswith(program_files.PROGRAMS):
                yield path, self.content(path)
        for path in program_files.chosen(untracked):
            yield path, self.content(path)
        for path in untracked:
            if path.endswith("/") and not program_files.holds_results(path):
                yield path, self.nested(path, depth)

    def content(self, path: str) -> str:
        """Return what is at a path of the checkout."""
        return program_files.content(os.path.join(self.top, path), self.limits)

    def filtered(self, paths: List[str]) -> Set[str]:
        """Return those of which git holds another text (Git LFS): only that filter knows
        whether they differ.
        """
        if not paths:
            return set()
        names = "".join("%s\0" % path for path in paths)
        fields = self.git("check-attr", "-z", "--stdin", "filter", stdin=names).split("\0")
        values = dict(zip(fields[0::3], fields[2::3]))  # Python 3.8 has no strict
        return {path for path in paths if values[path] not in ("unspecified", "unset")}

    def submodules(self, depth: int) -> Iterator[Tuple[str, str]]:
        """Yield submodules that are at another commit, or edited."""
        for entry in self.git("ls-files", "-z", "--stage").split("\0"):
            header, _, path = entry.partition("\t")
            mode, _, pinned = header.partition(" ")
            if mode == LINK and os.path.lexists(os.path.join(self.top, path, ".git")):
                state = self.nested(path, depth)
                if state != pinned.partition(" ")[0]:
                    yield path, state

    def nested(self, path: str, depth: int) -> str:
        """Return a repository within this one as a word: its commit, and its edits if any."""
        full_path = os.path.join(self.top, path)
        if depth == 0:
            raise FingerprintError(
                "%s holds more than %d repositories within each other; name one of them as cwd"
                % (self.limits.folder, DEPTH)
            )
        facts = of_checkout(full_path, self.limits, depth - 1) or {
            "commit": "no commit",
            "edits": "",
        }
        return "%s %s" % (facts["commit"], facts["edits"]) if facts["edits"] else facts["commit"]


def _make(git_folder: str, commit: str, objects: str, exclude: str) -> None:
    """Make our own git folder that has the repository's objects, and at its HEAD the commit."""
    for folder in ("objects/info", "refs", "info"):
        os.makedirs(os.path.join(git_folder, folder))
    version, more = (1, "[extensions]\nobjectFormat = sha256\n") if len(commit) == 64 else (0, "")
    files = {
        "HEAD": commit + "\n",
        "config": "[core]\nrepositoryFormatVersion = %d\nbare = false\n%s" % (version, more),
        "objects/info/alternates": os.path.realpath(objects) + "\n",
    }
    for name, text in files.items():
        with open(
            os.path.join(git_folder, name), "w", encoding="utf-8", errors="surrogateescape"
        ) as file:
            file.write(text)
    if os.path.isfile(exclude):
        shutil.copyfile(exclude, os.path.join(git_folder, "info", "exclude"))
