"""Texts for people about a run, from templates/. Pure, except reading the templates."""

import shlex
from functools import cache

import jinja2

from node.printable import printable
from node.validated_text import VariableName
from runner.base.paths import TEMPLATES
from runner.terms.run import Run


@cache
def environment() -> jinja2.Environment:
    """Build templates that fail on an undefined name rather than print nothing."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  # shell text; every value passes through `quote`
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters["quote"] = quoted
    env.filters["variable"] = VariableName  # which no shell can be asked to quote
    env.filters["printable"] = lambda value: printable(str(value))
    env.filters["quote_all"] = lambda values: [quoted(value) for value in values]
    return env


def quoted(text: str) -> str:
    """Quote a text for bash; `$'\\x1b'` is what a terminal would obey, which shows the script."""
    return "".join(
        character if character.isprintable() or character in "\t\n" else f"'$'{_bytes(character)}''"
        for character in shlex.quote(text)
    )


def _bytes(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())


def launch_script(run: Run) -> str:
    """Write launch.sh: the run's own argv and environment, for a person to run again by hand."""
    return environment().get_template("launch.sh.j2").render(run=run)
