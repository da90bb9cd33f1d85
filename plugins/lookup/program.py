"""`lookup('program', PATH)`: the text of one of our programs, for a node's `python3 -c`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugins.program import program

DOCUMENTATION = """
name: program
short_description: The text of a program that runs on nodes
description:
  - Reads a folder of modules, as plugins/program.py describes it, into one Python text.
options:
  _terms:
    description: The folder, as a path or a name in the role's files.
    required: true
"""


class LookupModule(LookupBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """Folders to texts."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **_: Any) -> list[str]:
        """One text a folder. Raises AnsibleLookupError where one has no __main__.py."""
        texts = []
        for term in terms:
            folder = Path(self.find_file_in_search_path(variables, "files", term) or term)
            if not (folder / "__main__.py").is_file():
                raise AnsibleLookupError(f"{term} is no program: it has no __main__.py")
            texts.append(program(folder))
        return texts
