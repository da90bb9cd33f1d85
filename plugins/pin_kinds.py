"""What a pin set may hold, each key by its kind: docs/adding-a-system.md says what they mean.

Which keys go together, plugins/filter/pins.py says, which makes a plan of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.schema import AnyOf, Fields, Flag, List, Mapped, Number, OneOf, Text
from node.validated_text import Checked, FileName, Sha256, VariableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from node.schema import Kind


class Version(Checked):
    """A version: YAML makes a number of 3.10, which is another one."""

    pattern = r"[0-9A-Za-z][0-9A-Za-z.+!_-]*"
    description = 'a version in quotes, such as "3.11"'


class Commit(Checked):
    """A commit, by all of its digits: fewer may become another one's."""

    pattern = r"[0-9a-f]{40}"
    description = "a commit by its 40 hex digits"


class Address(Checked):
    """What git or pip takes as an address, and for no option."""

    pattern = r"[^-\s]\S*"
    most = 2_000
    description = "an address"


def optional(kinds: Mapping[str, Kind]) -> dict[str, tuple[Kind, None]]:
    """Return the keys as those that may be left out."""
    return {name: (kind, None) for name, kind in kinds.items()}


WORDS = List(Text())
TOLD = Mapped(VariableName, AnyOf(Text(), Number()))
_TREE: dict[str, Kind] = {
    "version": AnyOf(Text(), Number()),
    "patches": WORDS,
    "untracked": WORDS,
    "install": Text(),
}
_FROM: dict[str, Kind] = {"repository": Address, "commit": Commit}
SUM = AnyOf(OneOf(""), Sha256)
TREE = Fields(_FROM, optional(_TREE))
CALL = Fields(
    {"requirements": WORDS},
    optional(
        {
            **{"index": Address, "environment": TOLD, "no_build_isolation": Flag()},
            **{"no_deps": Flag(), "optional": Flag()},
        }
    ),
)
WHEEL = Fields({"url": Address}, optional({"sha256": SUM, "no_deps": Flag()}))

PIN_SET = Fields(
    {},
    optional(
        {
            "summary": Text(),
            "document": Text(),
            "python": Version,
            "existing_python": Text(r"/\S+"),
            "cuda": Version,
            "source": TREE,
            "sources": Mapped(FileName, TREE),
            "build": WORDS,
            "torch": Fields(
                {"version": Version},
                optional({"torchvision": Version, "torchaudio": Version, "index": Address}),
            ),
            "requirements": List(AnyOf(Text(), CALL)),
            "constraints": Text(),
            "wheels": List(WHEEL),
            "oneflow": Fields({}, optional({"wheel": Address, "sha256": SUM, "version": Version})),
            "deepspeed": Fields({}, optional({**_FROM, **_TREE, "version": Version, "ops": WORDS})),
            "apex": Fields(_FROM, optional({**_TREE, "extensions": WORDS})),
            "environment": TOLD,
            "imports": WORDS,
            "image": Fields({"base": Text()}),
        }
    ),
)
