"""Ask pip for the versions of a package between two, in the order of the index."""

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
    (name, good_version), (bad_name, bad_version) = (
        package_of(good, "--good"),
        package_of(bad, "--bad"),
    )
    if canonical(name) != canonical(bad_name):
        raise UserError(
            f"--good is of {name}, --bad of {bad_name}; name two versions of one package"
        )
    if good_version == bad_version:
        raise UserError(f"{good} is named twice; name two versions")
    listed = _listed(name)
    places = [
        listed.index(version) if version in listed else -1
        for version in (good_version, bad_version)
    ]
    if -1 in places:
        lacking = (good_version, bad_version)[places.index(-1)]
        raise UserError(
            f"the package index has no {name}=={lacking}; it has {', '.join(listed[-12:])}; or list"
            " the versions yourself: --versions 2.11.0,2.12.0,2.13.0"
        )
    low, high = sorted(places)
    between_them = listed[low : high + 1]
    return versions_of(name, between_them if places[0] < places[1] else between_them[::-1])


def versions_of(name: str, versions: list[str]) -> list[Version]:
    """Return versions of a package, in this order."""
    words = [f"{name}=={version}" for version in versions]
    return [Version("package", word, word) for word in words]


def _listed(name: str) -> list[str]:
    """Return all versions that the index has, oldest first."""
    # -I: a pip.py of the working folder, which may be a cloned trainer's, is not it.
    argv = [*(sys.executable, "-I", "-m", "pip", "index", "versions"), name]
    argv += ["--disable-pip-version-check"]
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=ASK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"pip index versions {name}: {error}; list them by --versions") from None
    line = re.search(r"^Available versions: (.+)$", answer.stdout, re.MULTILINE)
    if line is None:
        output = " ".join(answer.stderr.split())[-300:]
        raise UserError(f"pip lists no versions of {name}: {output}; list them by --versions")
    return [version.strip() for version in line[1].split(",")][::-1]
