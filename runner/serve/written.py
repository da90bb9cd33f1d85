"""The report of a campaign that runs, written by a process of its own: here started, and its end.

`python -m runner.serve.written FOLDER NUMBER FILE` writes page NUMBER of a campaign's FOLDER.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runner.base.errors import UserError
from runner.base.files import whole
from runner.base.paths import PROJECT
from runner.folder import names
from runner.folder.campaign import Campaign

PATIENCE_S = 300.0  # of a processor that is busy with training
MOST_BYTES = 256 << 20
NICE = 19  # the lowest priority


def written(campaign: Path, number: int) -> bytes:
    """Return the page. Raises UserError where it cannot be made."""
    with tempfile.TemporaryDirectory(prefix="trainbench-") as folder:
        target = Path(folder) / "page.html"
        argv = [sys.executable, "-m", __spec__.name, str(campaign.resolve()), str(number)]
        try:
            ended = subprocess.run(
                [*argv, str(target)],
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=PATIENCE_S,
                check=False,
                start_new_session=True,  # Ctrl-C is for the campaign
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"the page took more than {PATIENCE_S:g} s") from None
        if ended.returncode:
            lines = ended.stderr[-2000:].decode("utf-8", "replace").strip().splitlines()
            raise UserError(lines[-1] if lines else f"exit code {ended.returncode}")
        with target.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise UserError(f"the page has more than {MOST_BYTES >> 20} MiB")
    return content


def stamp(campaign: Path) -> object:
    """Return what is another value once something happened that the report may show."""
    stamps: list[tuple[int, int] | None] = []
    for name in (names.HAPPENED, names.CAMPAIGN):
        try:
            state = (campaign / name).stat()
            stamps.append((state.st_size, state.st_mtime_ns))
        except OSError:
            stamps.append(None)
    return tuple(stamps)


def _write(folder: Path, number: str, target: Path) -> None:
    """Write the page; links to logs are addresses below that of the page."""
    from runner.load.evidence import evidence_of_records
    from runner.load.records import layout_of, records_of
    from runner.report.page import to_html
    from runner.tables.build import rows

    campaign = Campaign(folder)
    records = records_of(campaign, campaign.path)
    _, documents = layout_of(campaign)
    table = rows(records, campaign.settings.baseline, documents)
    evidence = evidence_of_records(campaign, records, campaign.path)
    page = to_html(table, campaign.hidden.words, evidence=evidence, live=number)
    with whole(target) as stream:
        stream.write(page.encode())


def main(arguments: Sequence[str]) -> int:
    """Write the page that the command line names; the exit code."""
    from runner.base.streams import complain

    folder, number, target = arguments
    os.nice(NICE)
    try:
        _write(Path(folder), number, Path(target))
    except UserError as error:
        complain(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
