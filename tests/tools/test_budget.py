"""tools/budget on real repositories: what it counts, whatever hides lines, and what it refuses."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT

TOOL = ROOT / "tools" / "budget"
UNPACKED = 'x = {\n    "a": 1,\n    "b": 2,\n}\n'
PACKED = 'x = {"a": 1, "b": 2,}\n'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose figures are none yet."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "pyproject.toml").write_text("[tool.trainbench.lines]\n")
    return tmp_path


def add(repository: Path, **files: str) -> None:
    """Track files: `__` in a name is a slash, `_` before the suffix's name a dot."""
    for name, text in files.items():
        path = repository / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)


def figures(repository: Path, text: str) -> None:
    (repository / "pyproject.toml").write_text(
        f"[tool.trainbench.lines]\n{text}\n[tool.x]\ny = 1\n"
    )


def budget(repository: Path, *argv: str) -> tuple[int, str, str]:
    ran = subprocess.run([TOOL, *argv], cwd=repository, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


def lines(repository: Path) -> dict[str, int]:
    rows = budget(repository)[1].splitlines()[1:]
    return {row.rsplit(None, 3)[0]: int(row.split()[-2]) for row in rows}


@pytest.mark.parametrize(
    "text",
    [
        UNPACKED,
        PACKED,
        f"# fmt: off\n{PACKED}",
        PACKED.replace("\n", "  # fmt: skip\n"),
        f"# yapf: disable\n{PACKED}",
        "x = 1; y = 2; z = 3; a = 4\n",
        f"x = '{380 * 'a'}'\n",
    ],
)
def test_packed_code_has_the_lines_of_unpacked_code(repository: Path, text: str) -> None:
    figures(repository, '"runner/a" = 0\n[tool.ruff]\nline-length = 320\nexclude = ["runner"]')
    add(repository, runner__a__build__m_DOT_py=text)
    has = text.count("#") if "\n#" in f"\n{text}" else 0
    assert lines(repository) == {"runner/a": 4 + has}


def test_each_kind_has_its_own_figure(repository: Path) -> None:
    python, shell = "#!/usr/bin/env python3\nx = 1\n", "#!/bin/sh\ntrue\n"
    add(
        repository,
        runner__m_DOT_py="x = 1\n",
        runner__terms__m_DOT_py="x = 1\n",
        tools__words=python,
        tools__say=shell,
        roles__torch_gpt__files__m_DOT_py="x = 1\n",
        roles__base__m_DOT_py="x = 1\n",
        roles__base__tasks__main_DOT_yml="- a: 1\n",
        matrices__m_DOT_yaml="a: 1\n",
        roles__base__templates__x_DOT_j2="a\nb\n",
        tools__site__x_DOT_js=250 * "a",
        tests__golden__a_DOT_txt=f"a {250 * 'b'}\n",
        tests__golden__test_a_DOT_py="x = 1\n",
        docs__a_DOT_md="one two  three\n\nfour\n",
        docs__b_DOT_png="not text",
    )
    (repository / "untracked.py").write_text("x = 1\n")
    (repository / "runner" / "link.py").symlink_to("m.py")
    subprocess.run(["git", "add", "runner/link.py"], cwd=repository, check=True)
    assert lines(repository) == {
        "runner": 1,
        "runner/terms": 1,
        "tools": 2,
        "shell": 2,
        "roles/torch_gpt": 1,
        "roles": 1,
        "YAML of roles and playbooks": 1,
        "other YAML": 1,
        "templates, scripts, styles": 5,
        "golden text": 1,
        "tests": 1,
        "words of docs": 4,
    }


def test_what_is_over_or_has_no_figure_or_no_lines_is_refused(repository: Path) -> None:
    add(repository, node__m_DOT_py=3 * "x = 1\n", plugins__m_DOT_py="x = 1\n")
    figures(repository, "node = 3\nplugins = 1")
    code, table, said = budget(repository)
    assert (code, said) == (0, "")
    assert table.splitlines()[1].split() == ["node", "3", "3", "0"]
    figures(repository, "node = 2\nbenchmarks = 50")
    code, _, said = budget(repository)
    assert code == 1
    assert said.splitlines() == [
        "budget: benchmarks has a figure, and no lines",
        "budget: node has 3 lines, 1 more than its figure",
        "budget: plugins has no figure",
    ]
    add(repository, plugins__m_DOT_ipynb="{}")
    assert budget(repository)[2].startswith("budget: plugins/m.ipynb is of no kind")


def test_figures_are_lowered_to_fifties_and_never_raised(repository: Path) -> None:
    add(repository, node__m_DOT_py=51 * "x = 1\n", plugins__m_DOT_py=60 * "x = 1\n")
    figures(repository, '"node" = 400\nplugins = 50\n"words of docs" = 100')
    assert budget(repository, "--lower") == (0, "", "")
    found = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]
    assert found == {"trainbench": {"lines": {"node": 100, "plugins": 50}}, "x": {"y": 1}}


def test_the_formatter_formats_as_the_budget_counts() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert (settings["line-length"], settings["target-version"]) == (100, "py311")
    assert "format" not in settings
    assert not (ROOT / "ruff.toml").exists()
