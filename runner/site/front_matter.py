"""What a board adds to a site's first page and its campaigns' pages. Data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BoardEntry:
    """A bundle of a board: who published it, its file's SHA-256, who reran it."""

    entity: str
    sha256: str
    reruns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def notices(self) -> list[str]:
        """Return lines for the campaign's own page."""
        rerun = [f"{text[:1].upper()}{text[1:]}." for text in self.reruns]
        return [
            f"Published by {self.entity}.",
            *rerun,
            *(f"This is {note}." for note in self.notes),
        ]


@dataclass(frozen=True)
class FrontMatter:
    """A board's part of its site. `listed` by the file's name; `limits` cannot be detected."""

    listed: Mapping[str, BoardEntry] = field(default_factory=dict)
    refused: Sequence[tuple[str, str]] = ()
    limits: Sequence[str] = ()
