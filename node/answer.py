"""What a program on a node answers: one line of JSON, or why it cannot.

Python 3.6, too: an environment's own Python runs what checks it.
"""

import json
import sys

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

SIGN = "TRAINBENCH "  # begins the line that is an answer


class ProgramError(Exception):
    """What is wrong, in one sentence with the cure, or a line for each thing that is.

    `facts` is what the control node is told all the same.
    """

    def __init__(self, message: str, facts: "Any" = None) -> None:
        super().__init__(message)
        self.facts = facts


def write(facts: "Any") -> None:
    """Print the answer."""
    sys.stdout.write(SIGN + json.dumps(facts, sort_keys=True) + "\n")
    sys.stdout.flush()


def line(output: str) -> "Optional[str]":
    """Return the JSON of the answer in what a program printed; None without one."""
    _, sign, tail = ("\n" + output).partition("\n" + SIGN)
    return tail.partition("\n")[0] if sign else None


def read(output: str) -> "Any":
    """Return the answer in what a program printed; None without one."""
    text = line(output)
    return None if text is None else json.loads(text)


def serve(program: "Callable[[Any], Any]", arguments: "Any") -> int:
    """Run a program and print its answer, or on standard error why it is missing; the exit code."""
    try:
        write(program(arguments))
        return 0
    except ProgramError as error:
        if error.facts is not None:
            write(error.facts)
        message = str(error)
    except OSError as error:
        message = str(error)
        if error.filename and error.strerror:
            message = "%s: %s; see rights and disk there" % (error.filename, error.strerror)
    print(message, file=sys.stderr)
    return 1
