"""A role's argument specs, of which its page is written, and its defaults say the same."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())


def options(role: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Entry point to its options."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    return {entry: spec.get("options") or {} for entry, spec in specs["argument_specs"].items()}


def defaults(role: Path) -> dict[str, Any]:
    path = role / "defaults" / "main.yml"
    return (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_in_the_spec_are_those_in_force(role: Path) -> None:
    """Argument specs apply no default: one that is not in defaults/main.yml would be a wish."""
    for entry, entry_options in options(role).items():
        said = {
            name: option["default"]
            for name, option in entry_options.items()
            # what a cluster is (cluster_*) has its defaults in runner/inventory/inventory.py
            if "default" in option and name.startswith(f"{role.name}_")
        }
        in_force = {name: value for name, value in defaults(role).items() if name in entry_options}
        assert said == in_force, f"{role.name}, entry {entry}"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_public_variable_is_in_the_spec_with_a_description(role: Path) -> None:
    assert set(defaults(role)) <= set(options(role)["main"])
    for entry_options in options(role).values():
        for name, option in entry_options.items():
            assert option.get("description"), name
            assert "default" in option or option.get("required"), f"{name}: neither"
