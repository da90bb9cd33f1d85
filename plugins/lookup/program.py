"""`lookup('program', ENTRY, spec)`: a program of node/ as the message that runs it.

For a command that somebody else runs: all of it but the Python.
"""

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugins.program import command, message

DOCUMENTATION = """
name: program
short_description: A program that runs on nodes, as arguments of a Python there
description:
  - Makes the message that plugins/program.py describes, for a command that is run on a node.
options:
  _terms:
    description: The program, as module:function of node/, and what it is told.
    required: true
"""


class LookupModule(LookupBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """Programs to what follows a Python on a command line."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **_: Any) -> list[Any]:
        """Return the one list of words. Raises AnsibleLookupError for a program that is not."""
        entry, spec = terms
        try:
            return [["-I", "-S", *command(str(entry)), message(str(entry), spec)]]
        except LookupError as error:
            raise AnsibleLookupError(str(error)) from None
