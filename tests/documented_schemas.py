"""What a command prints, beside the schema that documents have of it."""

from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ansible-lint's own dependency, not its stubs

from tools.site.schemas import printed


def fits(document: Any, name: str) -> None:
    """Raise ValidationError unless what a command printed fits the schema `<name>.json`."""
    jsonschema.validate(document, printed(name))
