"""`python -m runner expect TARGET`: is my number normal?"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import UserError
from runner.base.options import Commands, add_only, add_runs, new_command
from runner.base.streams import say
from runner.base.suggest import nearest
from runner.commands.log_options import MOST, add_log_options, check_log_options, patterns_of

if TYPE_CHECKING:
    from runner.expect.answer import SpeedAnswer
    from runner.expect.references import Speed
    from runner.results.parsed import Reading
    from runner.tables.row import Row

NOT_COMPARED_CODE = 3
_SIZE = re.compile(r"(\d{1,6}(?:\.\d*)?[MBT])(?:-A(\d{1,6}(?:\.\d*)?[MBT]))?")
_SCALE = {"M": 1e-3, "B": 1.0, "T": 1e3}
MOST_SOURCES = 5  # that are printed for each speed, unless all are asked for
DESCRIPTION = """\
Compare a speed with published ones for the same device, model size, precision, sequence length,
number of devices and batch, and with your own earlier campaigns. Where nothing was published for
the same setup, the nearest is shown with its differences; there is no percentage across devices,
model sizes or precisions.

TARGET is a campaign (name, folder or export), a trainer's log, or a number: tokens/s of one device.
A log does not name its device: give --device, and whatever else the log lacks.

  python -m runner expect zero-vs
  python -m runner expect zero-vs --only 'zero_stage=1'
  python -m runner expect train.log --device 'NVIDIA H200' --model-size 8B --precision bf16
  python -m runner expect 9421 --device H200 --devices 2 --model-size 8B --precision bf16 \\
    --tokens-per-sample 8192 --global-batch-size 2
  python -m runner expect zero-vs --speeds ours.csv --sources 'NeMo*' --sources '*torchtitan*'

exit codes: 0 at least one speed was compared, 2 bad input, 3 no speed could be compared
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "expect",
        "is my number normal: what others published",
        DESCRIPTION,
        answers=("expect",),
        formats=("table", "json"),
    )
    command.add_argument("target", metavar="TARGET", help="a campaign, a log, or tokens/s/device")
    add_runs(command)
    add_only(command)
    add_log_options(command)
    command.add_argument(
        "--device", default="", metavar="NAME", help="device of a log or number: 'NVIDIA H200'"
    )
    command.add_argument(
        "--model-size", metavar="SIZE", help="parameters of its model: 345M, 8B, 30B-A3B"
    )
    command.add_argument("--precision", default="", metavar="NAME", help="bf16, fp16, fp8, ...")
    command.add_argument(
        "--micro-batch-size", type=int, metavar="N", help="samples per rank and pass"
    )
    command.add_argument(
        "--speeds",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="add published speeds of your own CSV",
    )
    command.add_argument(
        "--sources",
        action="append",
        default=[],
        metavar="GLOB",
        help="only published figures whose trainer or address matches; !GLOB: all but these",
    )
    command.add_argument(
        "--no-own", action="store_true", help="leave out your earlier campaigns in --runs"
    )
    command.add_argument(
        "--all-sources", action="store_true", help=f"print more than {MOST_SOURCES}"
    )


def run(chosen: argparse.Namespace) -> int:
    """Print what others reached; exit code 3 where nothing could be compared."""
    from runner.expect.answer import to_json, to_text
    from runner.expect.references import chosen_by, read_references, shipped

    added = [speed for file in chosen.speeds for speed in read_references(file)]
    answers = list(_answers(chosen, chosen_by(chosen.sources, [*shipped(), *added])))
    if chosen.format == "json":
        say(to_json(answers), end="")
    else:
        say(to_text(answers, 10**6 if chosen.all_sources else MOST_SOURCES), end="")
    return 0 if any(answer.compared for answer in answers) else NOT_COMPARED_CODE


def _answers(chosen: argparse.Namespace, published: Sequence["Speed"]) -> Iterator["SpeedAnswer"]:
    from runner.expect.answer import answer
    from runner.tables.campaign_reading import earlier_speeds
    from runner.tables.expected import subject_of, why_no_subject

    path, number = Path(chosen.target), _number(chosen.target)
    if number is None and (not path.is_file() or path.name.endswith((".tar.gz", ".tgz"))):
        folder, rows = _campaign(chosen)
        own_speeds = [] if chosen.no_own else list(earlier_speeds(chosen.runs, folder))
        for row in rows:
            yield answer(row["cell"], subject_of(row), why_no_subject(row), published, own_speeds)
        return
    if chosen.only:
        raise UserError("--only chooses cells of a campaign; leave it out for a log or a number")
    subject, missing = _of_log_or_number(chosen, path, number)
    alone = chosen.no_own or subject is None or missing
    own_speeds = [] if alone else list(earlier_speeds(chosen.runs, None))
    yield answer(chosen.target, subject, missing, published, own_speeds)


def _number(text: str) -> float | None:
    """Read a speed; None where the text is not a number."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    if not 0 < value < MOST:
        raise UserError(f"{text} is not a speed; give tokens/s of one device, above 0")
    return value


def _campaign(chosen: argparse.Namespace) -> tuple[Path, "Sequence[Row]"]:
    """Return a campaign's folder and its chosen rows."""
    from runner.archive import archive
    from runner.matrix.select import choose
    from runner.tables.campaign_reading import read_campaign

    for name in _OF_LOGS:
        if getattr(chosen, name):
            raise UserError(
                f"--{name.replace('_', '-')} is for a log or a number, and {chosen.target} is"
                " neither; leave it out: a campaign says it itself"
            )
    with archive.opened(chosen.runs, chosen.target) as source:
        rows = read_campaign(source.campaign, Path.cwd(), reader_path=source.shown).rows
        return source.campaign.path, choose(
            rows, chosen.only, lambda row: (row["cell"], row["cell_id"])
        )


_OF_LOGS = (
    *("device", "devices", "model_size", "precision", "micro_batch_size", "global_batch_size"),
    *("tokens_per_sample", "matrix", "family"),
)


def _of_log_or_number(
    chosen: argparse.Namespace, path: Path, number: float | None
) -> tuple["Speed | None", str]:
    """Return the speed of a log or a number, and why it cannot be compared."""
    from runner.expect.references import PRECISIONS, Speed
    from runner.logs.run_sizes import Known
    from runner.results.parsed import read
    from runner.systems.command import readers

    if chosen.precision and chosen.precision not in PRECISIONS:
        hint = nearest(chosen.precision, PRECISIONS)
        raise UserError(
            f"--precision is {chosen.precision!r}{hint}; it must be one of {', '.join(PRECISIONS)}"
        )
    chosen.log = [] if number is not None else [path]
    check_log_options(chosen)
    size, active = _sizes(chosen.model_size)
    speed = Speed(
        figure=number or 0.0,
        unit="tokens_per_s_per_device",
        device=chosen.device,
        devices=chosen.devices,
        model="",
        parameters_b=size,
        active_parameters_b=active,
        precision=chosen.precision,
        micro_batch_size=chosen.micro_batch_size,
        global_batch_size=chosen.global_batch_size,
        tokens_per_sample=chosen.tokens_per_sample,
        trainer="",
    )
    why = "the device is not given"
    if number is None:
        reading = read(
            [path],
            None if chosen.system == "auto" else chosen.system,
            family=chosen.family,
            global_batch_size=chosen.global_batch_size,
            sizes=Known(chosen.tokens_per_sample, chosen.devices),
            readers=None if chosen.matrix is None else readers({"log": patterns_of(chosen.matrix)}),
        )
        if reading.tokens_per_s_per_device is None:
            return None, _lacking(reading)
        speed = replace(
            speed,
            figure=reading.tokens_per_s_per_device,
            devices=reading.sizes.devices,
            tokens_per_sample=reading.sizes.tokens_per_sample,
            global_batch_size=reading.batch_size,
            trainer=reading.found.system or "",
        )
        why = "a log names no device"
    named = chosen.device.strip()
    return speed, "" if named else f"{why}; add --device, such as --device 'NVIDIA H200'"


def _lacking(reading: "Reading") -> str:
    """Say why a log has no tokens/s of one device."""
    if not reading.measurement.intervals:
        return "the log has no training step"
    needs = {
        "--devices": reading.sizes.devices,
        "--tokens-per-sample": reading.sizes.tokens_per_sample,
        "--global-batch-size": reading.statistics.samples_per_s,
    }
    options = " and ".join(option for option, value in needs.items() if not value)
    return f"the log does not say tokens/s of a device; add {options}"


def _sizes(text: str | None) -> tuple[float | None, float | None]:
    """Read 345M, 1.3B or 1T, or 30B-A3B, as billions of all parameters and of the active ones."""
    if text is None:
        return None, None
    found = _SIZE.fullmatch(text.upper())
    groups = found.groups(default="0M") if found else ("0M", "0M")
    size, active = (float(group[:-1]) * _SCALE[group[-1]] for group in groups)
    if not size or active > size:
        raise UserError(f"--model-size is {text!r}; write it as 345M, 8B or 30B-A3B")
    return size, active or None
