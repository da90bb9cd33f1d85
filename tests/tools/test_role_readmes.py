"""A role's README, argument specs and defaults say the same."""

import shutil
import subprocess
import sys
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


def test_readmes_are_written_from_the_specs() -> None:
    checked = subprocess.run(
        [sys.executable, "tools/role-readme", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr


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


def test_a_readme_that_is_out_of_date_is_named(tmp_path: Path) -> None:
    for name in ("tools", "roles"):
        shutil.copytree(ROOT / name, tmp_path / name)
    page = tmp_path / "roles" / "dataset" / "README.md"
    page.write_text(page.read_text(encoding="utf-8").replace("1234", "4321"), encoding="utf-8")
    argv = [sys.executable, str(tmp_path / "tools" / "role-readme")]
    checked = subprocess.run([*argv, "--check"], capture_output=True, text=True)
    assert checked.returncode == 1
    assert checked.stderr == "out of date: README.md of dataset; run: make docs\n"
    assert "4321" in page.read_text(encoding="utf-8")
    subprocess.run(argv, check=True)
    assert "4321" not in page.read_text(encoding="utf-8")
