"""What programs of node/ may answer to the tasks of roles: a kind each, by `module:function`.

An answer that another node, a path or a command line of the control node is made of has its own
kind here, so that each question names it; of others `plugins/node_action.py` bounds the size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.apex import RECORD as WHEEL
from node.kinds import having
from node.schema import (
    AnyOf,
    Fields,
    List,
    Mapped,
    Number,
    OneOf,
    Plain,
    Text,
    Whole,
    Words,
)
from node.validated_text import FileName, HostName, Sha256

if TYPE_CHECKING:
    from node.schema import Kind


COUNT = Whole()
BUILT = Fields({"key": Mapped(Text(), Plain()), "wheel": AnyOf(WHEEL, Fields({}))})
_LONG = Text(most=100_000)
TODO = having(
    {"what": Text(), "words": _LONG},
    {"name": Text(), "install": List(Text()), "remove": List(Text())},
)
_HAS: dict[str, Kind] = {
    "python": Text(),
    "versions": Mapped(Text(), Text()),
    "lock": Text(),
    "lines": List(Text()),
    "faults": List(Words()),
    "todo": List(TODO),
    "make": OneOf("", "venv", "conda", "link", "image"),
}
_ID = Text(r"[0-9a-z]*")
IMAGE = Fields({**_HAS, "image": _ID})
PIN = Fields(
    {
        "trees": List(Text()),
        "env": having(_HAS, {"image": _ID}),  # an environment has none
        "files": List(Text()),
        "installed": Mapped(Text(), Plain(lines=True)),
        "differs": List(Words()),
    }
)
DATASET = Fields({"fault": Words(10_000), "identity": AnyOf(OneOf(""), Sha256), "begun": COUNT})

KINDS: dict[str, Kind] = {
    "apex:build": BUILT,
    "apex:look": BUILT,
    "image:look": IMAGE,
    "image:build": IMAGE,
    "image:load": IMAGE,
    "image:save": Fields({"identity": Sha256}),
    "share:share": Fields(
        {"received": COUNT, "resumed": COUNT, "sent": COUNT, "lost": List(HostName)}
    ),
    "visibility:look": Fields({"seen": Mapped(HostName, Number())}),
}


def datasets(names: list[str]) -> Kind:
    """Return what a node answers of these datasets."""
    answer_fields = Fields(dict.fromkeys(names, DATASET))
    return Fields({"python": List(Whole(0, 99), least=2, most=2), "datasets": answer_fields})


def pins(names: list[str]) -> Kind:
    """Return what a node answers of these pin sets."""
    sets = Fields(dict.fromkeys(names, PIN))
    return Fields({"system": FileName, "pins": sets, "differing": List(OneOf(*names))})
