"""What a trainer's own folder and its own Python are, for a campaign's record.

A folder is {commit, edits} where it is a git checkout, else {checksum} of its programs and
settings. A Python is {python, packages}: its version, and a checksum of the names and versions of
what is installed. Of what cannot be said there is a {problem}: one sentence that names the cure.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile

from node.checkout import of_checkout
from node.printable import printable
from node.program_files import FingerprintError, Limits, checksum_of

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Mapping, Optional

PYTHON_S = 60.0  # for an interpreter on a slow file system
MOST_SAID = 4096
MOST_NAMED = 5_000  # files of a folder, so that a changed one can be named
WORD = 12  # letters of a file's checksum that tell it from what it was
# Names and versions stand in the names of folders, so that no package is imported. A user's own
# packages count where the trainer sees them: -I leaves them out.
ASK = """\
import hashlib, json, os, platform, site, sys
places = [place for place in sys.path if os.path.isdir(place)]
if sys.prefix == sys.base_prefix:
    places.append(site.getusersitepackages())
ends = (".dist-info", ".egg-info", ".egg-link")
names = {name for place in places if os.path.isdir(place) for name in os.listdir(place)}
text = "\\n".join(sorted(name for name in names if name.endswith(ends)))
packages = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
print(json.dumps({"python": platform.python_version(), "packages": packages}))
"""


def fingerprints(
    folders: Mapping[str, str],
    pythons: Mapping[str, str],
    apart: Iterable[str] = (),
    files: Optional[Dict[str, Dict[str, str]]] = None,
) -> Dict[str, Dict[str, Any]]:
    """Return what each is, by the name that it is asked by.

    Files whose checksum is one of `apart` do not count. `files` is filled with what each folder's
    fingerprint was made of: paths, and the start of each file's checksum.
    """
    prints = {}
    for name, path in folders.items():
        limits = Limits(path, apart)
        prints[name] = _facts_or_error(of_folder, path, limits)
        if files is not None and len(limits.counted_entries) <= MOST_NAMED:
            files[name] = {
                printable(path): checksum_text[:WORD]
                for path, checksum_text in limits.counted_entries
            }
    prints.update({name: _facts_or_error(of_python, path) for name, path in pythons.items()})
    return prints


def _facts_or_error(of: Callable[..., Dict[str, str]], *of_what: Any) -> Dict[str, Any]:
    try:
        return of(*of_what)
    except FingerprintError as error:
        return {"problem": str(error)}


def of_folder(path: str, limits: Limits) -> Dict[str, str]:
    """Return what a folder is. Raises FingerprintError."""
    if "\n" in path or not os.path.isdir(path):
        there = "is not a folder" if os.path.lexists(path) else "is not there"
        raise FingerprintError(
            "%s %s; bring the trainer there, or name another cwd" % (limits.folder, there)
        )
    try:
        return of_checkout(path, limits) or {"checksum": checksum_of(path, limits)}
    except OSError as error:
        raise FingerprintError(
            "%s cannot be looked into: %s; let the user that trains read it"
            % (limits.folder, error.strerror)
        ) from None


def of_python(path: str) -> Dict[str, str]:
    """Return what an interpreter is, by its own word. Raises FingerprintError."""
    shown_path = printable(path)
    cure = "name one that runs on the node in environment: {python: ...}"
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(
                [path, "-I", "-c", ASK],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise FingerprintError(
                "%s cannot be started: %s; %s" % (shown_path, why, cure)
            ) from None
        try:
            process.wait(PYTHON_S)
        except subprocess.TimeoutExpired:
            raise FingerprintError(
                "%s did not say what it is within %g s; %s" % (shown_path, PYTHON_S, cure)
            ) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        stdout.seek(0)
        stderr.seek(0)
        answer, stderr_bytes = stdout.read(MOST_SAID), stderr.read(MOST_SAID)
    try:
        facts = json.loads(answer)
        version, packages = str(facts["python"]), str(facts["packages"])
    except (ValueError, KeyError, TypeError, RecursionError):
        version = packages = ""
    if not re.fullmatch(r"[0-9A-Za-z.+]{1,40} [0-9a-f]{64}", "%s %s" % (version, packages)):
        excerpt = (
            printable(stderr_bytes.decode(errors="replace"))[-200:] or "it said nothing of itself"
        )
        raise FingerprintError(
            "%s does not answer as a Python: %s; %s" % (shown_path, excerpt, cure)
        )
    return {"python": version, "packages": packages}
