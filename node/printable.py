"""Text from outside that is safe to show: one line, without what a terminal would obey."""

import re

# CSI sequences (colours, cursor) and OSC ones (window title, clipboard), in 7 and 8 bits.
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-9;?]*[ -/]*[@-~]|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
)


def escapes_removed(text: str) -> str:
    """Leave escape sequences out of text."""
    return _ESCAPE.sub("", text)


def uncontrolled(text: str) -> str:
    """Leave escapes out of text, and put a space for each character that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in escapes_removed(text))


def printable(text: str) -> str:
    """Make text safe for a terminal: escapes and control characters left out, one line."""
    if text.isprintable() and "  " not in text and text.strip() == text:
        return text
    return " ".join(uncontrolled(text).split())


def printable_lines(text: str) -> str:
    """Make each line of a text safe for a terminal; those that are stay as they are."""
    return "\n".join(line if line.isprintable() else printable(line) for line in text.splitlines())
