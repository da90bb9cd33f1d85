"""Texts for people about a run, from templates/. Pure, but for reading the templates."""

import shlex
from functools import cache

import jinja2

from node.checked import VariableName
from node.printable import printable
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
    env.filters["quote"] = lambda value: shlex.quote(str(value))
    env.filters["variable"] = VariableName  # which no shell can be asked to quote
    env.filters["printable"] = lambda value: printable(str(value))
    env.filters["quote_all"] = lambda values: [shlex.quote(str(value)) for value in values]
    return env


def launch_script(run: Run) -> str:
    """Write launch.sh: the run's own argv and environment, for a person to run again by hand."""
    return environment().get_template("launch.sh.j2").render(run=run)
