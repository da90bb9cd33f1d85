"""Which versions of a package lie between two: as the package index says, asked by pip."""

import re
import subprocess
import sys

from runner.base.errors import UserError
from runner.matrix.pins_key import canonical, package_of
from runner.versions.version import Version

ASK_S = 180.0


def between(good: str, bad: str) -> list[Version]:
    """Return the versions from good to bad, both included, as `pip index versions` lists them.

    pip is this machine's own, with its configuration: an index that the nodes use must be its, too.
    Raises UserError where one of the two is not among them.
    """
    (name, first), (other, last) = package_of(good, "--good"), package_of(bad, "--bad")
    if canonical(name) != canonical(other):
        raise UserError(f"--good is of {name}, --bad of {other}; name two versions of one package")
    if first == last:
        raise UserError(f"{good} is named twice; name two versions")
    listed = _listed(name)
    places = [listed.index(version) if version in listed else -1 for version in (first, last)]
    if -1 in places:
        lacking = (first, last)[places.index(-1)]
        raise UserError(
            f"the package index has no {name}=={lacking}; it has {', '.join(listed[-12:])}; or list"
            " the versions yourself: --versions 2.11.0,2.12.0,2.13.0"
        )
    low, high = sorted(places)
    kept = listed[low : high + 1]
    return named(name, kept if places[0] < places[1] else kept[::-1])


def named(name: str, versions: list[str]) -> list[Version]:
    """Return versions of a package, in this order."""
    words = [f"{name}=={version}" for version in versions]
    return [Version("package", word, word) for word in words]


def _listed(name: str) -> list[str]:
    """Return all versions that the index has, oldest first."""
    argv = [sys.executable, "-m", "pip", "index", "versions", name, "--disable-pip-version-check"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=ASK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"pip index versions {name}: {error}; list them by --versions") from None
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if found is None:
        words = " ".join(done.stderr.split())[-300:]
        raise UserError(f"pip lists no versions of {name}: {words}; list them by --versions")
    return [one.strip() for one in found[1].split(",")][::-1]
