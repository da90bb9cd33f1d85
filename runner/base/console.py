"""A console of rich's that shows text as text."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType  # noqa: TID251  # the one that escapes
from rich.segment import Segment
from rich.text import Text

from runner.base.escapes import TerminalLine, TerminalText


def one_line(text: str, style: str = "") -> Text:
    """Make one line of rich's from text of any origin."""
    return Text(TerminalLine(text), style)


class Screen(Console):
    """A console through which only `TerminalText` goes, beside rich's own colours and cursor.

    No text is markup, for it may be a log's or a matrix's.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **more)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, the text escaped."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else TerminalText(text), style, control)
