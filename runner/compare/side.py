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
from runner.base.dataclass_schema import shape
from runner.base.errors import UserError
from runner.tables.campaign_document import CampaignDocument
from runner.tables.columns import COLUMNS
from runner.tables.machine_document import values
from runner.tables.row import Row, finished
from runner.terms.cell import MOST_CELLS
from runner.terms.record import NOT_ENDED, UNDER_WAY

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
    environment = values(document)["environment"]
    return Side(name, document.rows, environment, document.live, document.hidden)


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


_NUMBER = Maybe(AnyOf(Whole(-SAFE), Number()))
_NUMBERS = {key: (_NUMBER, None) for key, c in COLUMNS.items() if c.type in ("number", "integer")}
_TEXTS = {key: (Plain(), None) for key in COLUMNS if key not in _NUMBERS}
_NAMES = {"cell": Text(), "cell_id": Text(), "status": Text(most=100)}
_ROW = shape(Row)
_SAVED = Fields(
    {
        "rows": List(
            Fields({**_ROW.needed, **_NAMES, "figures": Fields({}, {**_NUMBERS, **_TEXTS})}),
            MOST_CELLS,
        )
    },
    {"environment": (Maybe(Mapped(Text(), Words())), None), "hidden": (Words(), "")},
)


def has_ended(row: Row) -> bool:
    """Whether a repeat of the cell ended."""
    return row["status"] not in NOT_ENDED or finished(row)


def ended_well(row: Row) -> bool:
    """Whether every repeat that ended did so well."""
    return row["status"] == "ok" or (row["status"] in NOT_ENDED and finished(row))


def differing(
    a: Mapping[str, str], b: Mapping[str, str], but: Sequence[str] = ()
) -> list[tuple[str, str, str]]:
    """Return the facts that are others, except those in `but`: (key, the first's, the second's)."""
    keys = [key for key in {**a, **b} if key not in but and a.get(key) != b.get(key)]
    return [(key, a.get(key, "–"), b.get(key, "–")) for key in keys]
