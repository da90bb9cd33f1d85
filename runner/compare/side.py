"""One of two campaigns that are compared: its rows, and what they ran on. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from node.schema import (
    SAFE,
    AnyOf,
    Fields,
    List,
    Mapped,
    Maybe,
    Number,
    Plain,
    Text,
    UnfitError,
    Whole,
    Words,
)
from runner.base.errors import UserError
from runner.document.campaign_document import CampaignDocument
from runner.document.machine_document import values
from runner.tables.catalogue.every_column import COLUMNS, JUDGED
from runner.terms.cell import MOST_CELLS, MOST_REPEATS
from runner.terms.record import NOT_ENDED, UNDER_WAY

Row = Mapping[str, Any]
Pair = tuple[Row | None, Row | None]


@dataclass(frozen=True)
class Side:
    """One of the two: rows as `collect --format json` has them, and what they ran on.

    `live` says that bench runs it now: what has not ended yet is nothing that it lacks. `hidden`
    says what it keeps and is not compared.
    """

    name: str
    rows: Sequence[Row]
    environment: Mapping[str, str] | None = None
    live: bool = False
    hidden: str = ""


def side(name: str, document: CampaignDocument) -> Side:
    """Return a campaign as one side."""
    table = values(document)
    return Side(name, table["rows"], table["environment"], document.live, document.hidden)


def saved(name: str, document: Any) -> Side:
    """Read what `collect --format json` wrote as one side. Raises UserError for any other JSON."""
    try:
        table = _SAVED.check(document, name)
    except UnfitError as error:
        raise UserError(
            f"{name} is not a saved table ({error}); `python -m runner collect --format json"
            " --output FILE` writes one"
        ) from None
    live = any(row["status"] in UNDER_WAY for row in table["rows"])
    return Side(name, table["rows"], table["environment"], live, table["hidden"])


def _set_fields(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# What a comparison reads of a saved table.
_FIGURE = Maybe(AnyOf(Whole(-SAFE), Number()))
_COUNTS = (
    *("steps_measured", "iterations_per_line"),
    *("window_first_iteration", "window_last_iteration"),
)
_RUN = Fields(
    {},
    {
        **{
            name: (Maybe(Whole(1)), None) for name in ("iterations_to_target", "iterations_trained")
        },
        "seed": (Maybe(Whole()), None),
        "iterations_per_loss": (_FIGURE, None),
        **dict.fromkeys((key for key, c in COLUMNS.items() if c.by_runs), (_FIGURE, None)),
    },
)
_ROW = Fields(
    {"cell": Text(), "cell_id": Text(), "status": Text(most=100)},
    {
        **{name: (Maybe(Text()), None) for name in ("numbers_from", "verdict", "system")},
        "hosts": (Maybe(Text(most=1 << 20)), None),
        **{name: (Maybe(Whole()), None) for name in ("global_batch_size", *_COUNTS)},
        **{name: (Maybe(Whole(1)), None) for name in ("devices", "nodes")},
        "device": (Maybe(Text()), None),
        **dict.fromkeys(("tokens_per_s", "energy_per_token_j"), (_FIGURE, None)),
        "target_loss": (_FIGURE, None),
        **dict.fromkeys(
            ("samples_per_s_steps_half_percent", "repeats_until_percent"), (_FIGURE, None)
        ),
        "missing": (Maybe(Mapped(Text(), Words())), None),
        "runs": (List(_RUN, MOST_REPEATS), ()),
        **dict.fromkeys(JUDGED, (_FIGURE, None)),
        "reason": (Words(), ""),
        "parameters": (Maybe(Mapped(Text(), Plain())), None),
    },
    make=_set_fields,
)
_SAVED = Fields(
    {"rows": List(_ROW, MOST_CELLS)},
    {"environment": (Maybe(Mapped(Text(), Words())), None), "hidden": (Words(), "")},
)


def has_ended(row: Row) -> bool:
    """Whether a repeat of the cell ended."""
    return row["status"] not in NOT_ENDED or finished(row)


def ended_well(row: Row) -> bool:
    """Whether every repeat that ended did so well."""
    return row["status"] == "ok" or (row["status"] in NOT_ENDED and finished(row))


def finished(row: Row) -> bool:
    """Whether a repeat of the cell ended ok, so that it has figures."""
    return row.get("numbers_from") == "ok runs"
