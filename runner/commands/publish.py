"""`python -m runner publish CAMPAIGN`: a campaign for strangers, if its figures may be shown."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from node.printable import printable
from node.program_output import os_error_words
from runner.base.errors import UserError
from runner.base.options import Commands, add_runs, new_command
from runner.base.streams import complain, say, say_json
from runner.base.text import counted
from runner.terms.printed_answers import (
    NotPublishable,
    PublishAnswer,
    PublishCheckAnswer,
)

if TYPE_CHECKING:
    from runner.archive.publication import Refused

DESCRIPTION = """\
Write a campaign as a bundle that a stranger can check and run again: logs, exact commands, pins,
packages and patches of its environments, and tables; with a README.md in the form of torchtitan's
benchmarks folder.

Every cell must be publishable (docs/measures.md). One that is not is named, with why and the cure,
and nothing is written; --anyway publishes it, marked wherever it stands.

  python -m runner publish zero-vs --entity 'Example Lab'          zero-vs.publication.tar.gz, here
  python -m runner publish zero-vs --entity 'Example Lab' --redact without names of hosts and users
  python -m runner publish zero-vs --readme                        its README.md alone, to be read
  python -m runner publish --check x.publication.tar.gz            does what it says follow?

`collect --campaign FILE` and `compare` read the bundle as they read a campaign; `bench` runs its
matrix (tables/matrix.yaml) on other nodes. An entity that is not given stays empty, with a note.

--check reads a bundle's logs again: how each run ended, each figure of its table, and whether a
machine can have had such speed, time, memory and loss. It executes nothing of the bundle.
docs/how-to/publish.md has the rest.

exit codes: 0 written, or nothing found; 1 a cell is not publishable, or --check found something; 2
bad input
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "publish",
        "a campaign for strangers, as a bundle",
        DESCRIPTION,
        answers=("publish", "publish_check"),
    )
    command.add_argument(
        "campaign", metavar="CAMPAIGN", help="its name, its folder, an export, or a bundle"
    )
    add_runs(command)
    form = command.add_mutually_exclusive_group()
    form.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="default: CAMPAIGN.publication.tar.gz, here",
    )  # fmt: skip
    form.add_argument("--readme", action="store_true", help="print only the README.md")
    form.add_argument(
        "--check", action="store_true", help="say what in a bundle does not follow from its logs"
    )
    command.add_argument(
        "--entity", default="", metavar="NAME", help="who publishes: a person, company, university"
    )
    command.add_argument(
        "--redact", action="store_true", help="remove names and addresses, as export does"
    )
    command.add_argument(
        "--anyway", action="store_true", help="include cells that are not publishable, each marked"
    )


def run(chosen: argparse.Namespace) -> int:
    """Write the bundle, or print its README.md; the exit code."""
    import hashlib

    from rich.filesize import decimal

    from runner.archive import archive
    from runner.archive.bundle import UnfitToPublishError, publish, readme_alone
    from runner.archive.publication import file_name

    as_json = chosen.format == "json"
    if chosen.check:
        return _check(chosen)
    nothing = PublishAnswer(
        path=None, bytes=None, sha256=None, readme_name=None, readme=None, not_publishable=()
    )
    entity = chosen.entity.strip()
    how = {"redact": chosen.redact, "anyway": chosen.anyway}
    with archive.opened(chosen.runs, chosen.campaign) as source:
        try:
            if chosen.readme:
                text = readme_alone(source.campaign, entity, **how)
                if as_json:
                    say_json(replace(nothing, readme=text))
                else:
                    say(text, end="")
                return 0
            target = chosen.output or Path(f"{source.campaign.name}.publication.tar.gz")
            if target.is_dir():
                raise UserError(f"{target} is a folder; name a file, such as {target}/x.tar.gz")
            try:
                bundle = publish(source.campaign, target, entity, **how)
            except OSError as error:
                why = os_error_words(error, str(target.absolute().parent))
                raise UserError(f"{target} cannot be written: {why}") from None
        except UnfitToPublishError as error:
            for line in error.lines:
                complain(f"not publishable: {line}")
            if as_json:
                say_json(replace(nothing, not_publishable=_cells(error.refused)))
            complain(f"error: {error}")
            return 1
    with target.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    complain(f"wrote {target}, {decimal(target.stat().st_size)}, SHA-256 {digest}")
    if bundle.publication.refused:
        complain(f"{len(bundle.publication.refused)} cells are marked as not publishable")
    if as_json:
        say_json(
            replace(
                nothing,
                path=str(target),
                bytes=target.stat().st_size,
                sha256=digest,
                readme_name=file_name(bundle.publication),
                not_publishable=_cells(bundle.publication.refused),
            )
        )
    complain(
        f"for torchtitan's benchmarks folder, rename README.md to {file_name(bundle.publication)}"
    )
    return 0


def _check(chosen: argparse.Namespace) -> int:
    """Print what does not follow; exit code 1 where something does not."""
    from runner.archive import archive
    from runner.archive.check import check, entity
    from runner.archive.publication import UNTOLD

    if chosen.entity or chosen.redact or chosen.anyway:
        raise UserError("--check reads a bundle as it is; leave the other options out")
    with archive.opened(chosen.runs, chosen.campaign) as source:
        document, findings = check(source.campaign)
        by = entity(source.campaign)
        name = printable(source.campaign.name)
    if chosen.format == "json":
        answer = PublishCheckAnswer(
            campaign=name, entity=by, cells=len(document.rows), findings=tuple(findings)
        )
        say_json(answer)
    else:
        for each in findings:
            say(f"{each.of}: {each.why}")
        what = counted(len(findings), "finding") if findings else "what it says follows"
        say(f"{name}, {counted(len(document.rows), 'cell')}, entity {by or UNTOLD}: {what}")
    return 1 if findings else 0


def _cells(refused: "Sequence[Refused]") -> tuple[NotPublishable, ...]:
    return tuple(NotPublishable(cell=cell.cell, why=dict(cell.why)) for cell in refused)
