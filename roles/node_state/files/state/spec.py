"""What a role wants, as its JSON says it, and how anything wrong is told."""

from __future__ import annotations

from typing import Any, Dict  # noqa: UP035  # Python 3.8

Spec = Dict[str, Any]  # noqa: UP006  # Python 3.8 takes no dict[...] outside of annotations


class StateError(Exception):
    """What is wrong, in one sentence with the cure."""
