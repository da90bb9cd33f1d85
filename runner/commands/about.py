"""`python -m runner about`: versions, sizes and the last failure, for a report of a bug."""

import argparse
import platform
from importlib import metadata
from pathlib import Path

from runner import __version__
from runner.base.errors import UserError
from runner.base.options import Commands, add_runs, new_command
from runner.base.streams import say, say_json
from runner.terms.printed_answers import AboutAnswer

LIBRARIES = ("ansible-core", "ansible-runner", "numpy", "pandas", "matplotlib")
MOST_CAUSES = 5
DESCRIPTION = """\
Print what a report of a bug needs: versions, the size of an inventory, and how the last campaign's
runs ended. It has no names, addresses, paths or commands, so it can be shown to anybody.

  python -m runner about
  python -m runner about -i inventory/mine

exit codes: 0 printed, 2 bad input
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "about",
        "versions and sizes, without names, for a report of a bug",
        DESCRIPTION,
        answers=("about",),
    )
    command.add_argument("-i", "--inventory", type=Path, help="count its nodes and devices, too")
    add_runs(command)


def run(chosen: argparse.Namespace) -> int:
    """Print it."""
    about = AboutAnswer(
        trainbench=__version__,
        python=platform.python_version(),
        system=_system(),
        libraries={name: _version(name) for name in LIBRARIES},
        inventory="" if chosen.inventory is None else _inventory(chosen.inventory),
        last_campaign=_newest_endings(chosen.runs),
    )
    if chosen.format == "json":
        say_json(about)
        return 0
    lines = [f"trainbench {about.trainbench}, Python {about.python}", about.system]
    lines += [f"{name} {version}" for name, version in about.libraries.items()]
    lines += [f"inventory: {about.inventory}"] if about.inventory else []
    ends = list(about.last_campaign.items())[:MOST_CAUSES]
    endings = ", ".join(f"{count} {ending}" for ending, count in ends)
    say("\n".join([*lines, f"last campaign: {endings or 'none'}"]))
    return 0


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, {platform.release()}, {platform.machine()}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _inventory(path: Path) -> str:
    from runner.inventory.inventory import load_inventory

    cluster = load_inventory(path)
    devices = sorted({node.devices for node in cluster.nodes})
    device_counts = " or ".join(map(str, devices))
    return (
        f"{len(cluster.nodes)} nodes with {device_counts} {cluster.device} devices each, runs by"
        f" {cluster.engine.name}"
    )


def _newest_endings(runs: Path) -> dict[str, int]:
    """Count how the newest campaign's runs ended, by status and cause; most of them first."""
    from collections import Counter

    from runner.folder.campaign import find_campaign

    try:
        campaign = find_campaign(runs, None)
    except UserError:
        return {}
    ends: Counter[str] = Counter()
    for cell, repeat in campaign.asked():
        for attempt in campaign.attempts(cell.id, repeat)[-1:]:
            ended = attempt.outcome
            ending = [ended.status, ended.cause, ended.diagnosis or ""] if ended else ["not ended"]
            ends[" ".join(filter(None, ending))] += 1
    return dict(ends.most_common())
