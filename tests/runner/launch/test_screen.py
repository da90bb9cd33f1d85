"""Rows that are written over, in a terminal whose width changes."""

import io
import re

import pytest
from rich.text import Text

from runner.base.console import Screen
from runner.launch.screen import Region


def erased(out: io.StringIO) -> int:
    """How many rows above the last one the newest frame erased."""
    return len(re.findall(r"\x1b\[1A\x1b\[2K", out.getvalue()))


@pytest.mark.parametrize("width", [80, 79, 60, 40, 20, 200])
def test_what_a_narrower_terminal_wrapped_is_erased_whole(width: int) -> None:
    out = io.StringIO()
    console = Screen(file=out, force_terminal=True, width=80, height=24)
    with Region(console) as region:
        region.draw([Text("x" * 79), Text("y" * 78)])
        out.truncate(0)
        out.seek(0)
        console.width = width
        region.draw([Text("z")])
        # Of the two rows that stand there, each takes ceil(letters / width) rows by now.
        assert erased(out) == -(-79 // width) + -(-78 // width) - 1
