"""A system's pin sets, from the one place that knows them: roles/<system>/vars/pins.yml."""

from functools import cache
from typing import Any

import yaml

from runner.base.paths import PROJECT


@cache
def pins(system: str) -> dict[str, dict[str, Any]]:
    """Read a system's pin sets, name to literals. The file's single key is `<system>_pins`."""
    path = PROJECT / "roles" / system / "vars" / "pins.yml"
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    pin_sets: dict[str, dict[str, Any]] = loaded[f"{system}_pins"]
    return pin_sets
