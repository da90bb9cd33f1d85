"""What a playbook says of itself while it goes on: plugins/steps.py writes, launch.steps reads."""

from dataclasses import dataclass
from typing import Annotated

from node.schema import Text

MOST_WORDS = 100_000
VARIABLE = "TRAINBENCH_STEPS"  # the file to which lines are added; unset: nobody wants to know


@dataclass(frozen=True)
class Told:
    """One line: that a playbook or a play begins, what a host does or did, or text for a person.

    `event` is begin (with the `count` of plays), play, task (`words` say what the host does),
    result (with a `status` of Ansible's, or refused: what it was given is wrong), text, or end.
    """

    event: str
    step: str = ""
    host: str = ""
    status: str = ""
    words: Annotated[str, Text(most=MOST_WORDS, lines=True)] = ""
    count: int = 0
