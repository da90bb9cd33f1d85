"""plugins/program.py: a folder of modules as one text that a node's Python runs."""

from __future__ import annotations

import ast
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.program import loaded, program
from runner.base.paths import PROJECT

PYTHON = [sys.executable, "-I", "-S"]
OURS = sorted(path.parent for path in (PROJECT / "roles").glob("*/files/*/__main__.py"))
LONGEST_WORD = 128 * 1024  # Linux, MAX_ARG_STRLEN


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A program whose modules are imported in any order, one of them only where it is needed."""
    texts = {
        "__init__": '"""What it\'s for: "quotes", \\\\, \\n and ü."""\n',
        "__main__": (
            "import sys\nfrom .words import say\n\n\ndef main():\n"
            "    say(sys.argv[1:])\n"
            "    if 'late' in sys.argv:\n        from . import late\n"
            "    return len(sys.argv)\n"
        ),
        "words": "from . import __doc__ as doc\n\n\ndef say(words):\n    print(words, doc)\n",
        "late": "this is no Python\n",
    }
    (tmp_path / "greet").mkdir()
    for name, text in texts.items():
        (tmp_path / "greet" / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path / "greet"


@pytest.mark.parametrize("standard_input", [False, True])
def test_a_program_runs_from_one_text_and_leaves_no_file(
    folder: Path, tmp_path: Path, standard_input: bool
) -> None:
    text = program(folder)
    argv = [*PYTHON, "-", "a b"] if standard_input else [*PYTHON, "-c", text, "a b"]
    given = text if standard_input else None
    ran = subprocess.run(argv, input=given, cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout == "['a b'] What it's for: \"quotes\", \\, \n and ü.\n"
    assert (ran.returncode, ran.stderr) == (2, "")
    assert [path.name for path in tmp_path.iterdir()] == ["greet"]


def test_a_module_that_is_not_imported_is_not_compiled_and_one_that_fails_is_named(
    folder: Path,
) -> None:
    ran = subprocess.run([*PYTHON, "-c", program(folder), "late"], capture_output=True, text=True)
    assert ran.returncode == 1
    assert 'File "greet.late", line 1' in ran.stderr


def test_modules_can_be_used_one_by_one_and_the_text_be_handed_on(folder: Path) -> None:
    text = f"{loaded(folder)}from greet.words import say\nsay([len(PROGRAM)])\n"
    ran = subprocess.run([*PYTHON, "-c", text], capture_output=True, text=True)
    assert ran.stdout.startswith(f"[{len(program(folder))}] What it's for")


def test_a_program_of_one_file_is_its_own_text(folder: Path) -> None:
    assert program(folder / "late.py") == "this is no Python\n"


@pytest.mark.parametrize("folder", OURS, ids=lambda path: path.name)
def test_ours_runs_on_a_nodes_oldest_python_and_is_one_word_on_a_command_line(folder: Path) -> None:
    """Its syntax is held to 3.8, which nodes may have, on any Python; Ansible quotes it twice."""
    for path in folder.glob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    assert len(shlex.quote(shlex.quote(program(folder)))) < LONGEST_WORD
