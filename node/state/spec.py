"""What a role wants, as its JSON says it, and how anything wrong is told."""

from __future__ import annotations

from typing import Any, Dict  # Python 3.8

from node.answer import ProgramError

Spec = Dict[str, Any]  # Python 3.8 takes no dict[...] outside of annotations


class StateError(ProgramError):
    """What is wrong, in one sentence with the cure."""
