"""plugins/program.py: a program of node/ as one message, with what it imports and no more."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from node import answer
from plugins import program
from plugins.program import command, message, sources
from runner.base.paths import PROJECT

PYTHON = [sys.executable, "-I", "-S", *command("greet.main:main")]
HOSTILE = "a 'b' \"c\" $(touch /run/owned) `id` {{ lookup('pipe', 'id') }}\n✓ \\ \0 \ud800"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node/ with a program whose modules are imported in several ways, one only where needed."""
    texts = {
        "__init__": "",
        "greet/__init__": '"""What it\'s for: "quotes", \\\\, \\n and ü."""\n',
        "greet/main": (
            "from typing import TYPE_CHECKING\n"
            "from node.answer import ProgramError\n"
            "from . import __doc__ as doc\n"
            "from .words import (\n    say,\n)\n"
            "if TYPE_CHECKING:\n    from . import typed\n\n"
            'SENDS = ("node.handed",)\n\n'
            "def main(spec):\n"
            "    if spec == 'late':\n        from . import late\n"
            "    if spec == 'no':\n        raise ProgramError('no; say yes', {'half': 1})\n"
            "    return say(spec, doc)\n"
        ),
        "greet/words": "def say(*words):\n    return list(words)\n",
        "greet/late": "this is no Python\n",
        "greet/typed": "",
        "greet/stranger": "",
        "handed": "import node.shared\n",
        "shared": "",
        "other": "",
    }
    for name, text in texts.items():
        path = tmp_path / "node" / f"{name}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
    for name in ("bootstrap", "answer"):
        text = (PROJECT / "node" / f"{name}.py").read_text(encoding="utf-8")
        (tmp_path / "node" / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(program, "ROOT", tmp_path)
    return tmp_path


def run(entry: str, arguments: Any, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    text = message(entry, arguments)
    return subprocess.run(PYTHON, input=text, cwd=tmp_path, capture_output=True, text=True)


def test_what_travels_is_what_is_imported_or_handed_on(root: Path) -> None:
    ours = {"node", "node.bootstrap", "node.answer", "node.greet", "node.greet.main"}
    more = {"node.greet.words", "node.greet.late", "node.handed", "node.shared"}
    assert set(sources("greet.main:main")) == ours | more


def test_two_hosts_threads_parse_one_after_the_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python before 3.11.8 fails in threads (python/cpython#106905): an inspection was refused."""
    parsing, overlaps, parse = threading.Lock(), [], ast.parse

    def slow_parse(text: str) -> ast.Module:
        if not parsing.acquire(blocking=False):
            overlaps.append(text)
            return parse(text)
        try:
            time.sleep(0.001)
            return parse(text)
        finally:
            parsing.release()

    monkeypatch.setattr(ast, "parse", slow_parse)
    with ThreadPoolExecutor(4) as hosts:
        sizes = hosts.map(lambda _: len(sources("greet.main:main")), range(4))
    assert (set(sizes), overlaps) == ({9}, [])


def test_a_program_answers_and_leaves_no_file(root: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    ran = run("greet.main:main", HOSTILE, tmp_path)
    doc = 'What it\'s for: "quotes", \\, \n and ü.'
    assert (ran.returncode, ran.stderr) == (0, "")
    assert answer.read(ran.stdout) == [HOSTILE, doc]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_refusal_is_its_words_and_what_is_told_all_the_same(root: Path, tmp_path: Path) -> None:
    ran = run("greet.main:main", "no", tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "no; say yes\n")
    assert answer.read(ran.stdout) == {"half": 1}


def test_a_module_that_is_not_imported_is_not_compiled_and_one_that_fails_is_named(
    root: Path, tmp_path: Path
) -> None:
    ran = run("greet.main:main", "late", tmp_path)
    assert ran.returncode == 1
    assert 'File "node.greet.late", line 1' in ran.stderr


def test_the_modules_may_lie_on_the_node(root: Path, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(json.dumps(sources("greet.main:main")))
    text = message("greet.main:main", "x", file=str(tmp_path / "modules.json"))
    assert len(text) < 200
    ran = subprocess.run(PYTHON, input=text, capture_output=True, text=True)
    assert answer.read(ran.stdout)[0] == "x"
    argument = subprocess.run([*PYTHON, text], capture_output=True, text=True)
    assert argument.stdout == ran.stdout


@pytest.mark.parametrize(
    "entry", ["greet.main:none", "greet.none:main", "greet.main", "json:loads", "..x:main", ""]
)
def test_a_program_that_there_is_not_is_refused(root: Path, entry: str) -> None:
    with pytest.raises(LookupError, match="is not a program of node/"):
        message(entry)


NAMED = re.compile(r"program: ([\w.]+:\w+)$|(?:ask|tell|send)\(\s*\"([\w.]+:\w+)\"", re.MULTILINE)


LAUNCH_ENTRIES = {"polling:poll", "polling:fetch", "run_folder:close"}  # of node/supervisor


def entries() -> list[str]:
    """Programs that roles and plugins name; the launch plugin names some without their package."""
    found = set()
    for folder in ("roles", "plugins"):
        for path in (PROJECT / folder).rglob("*"):
            if path.suffix in (".yml", ".py"):
                pairs = NAMED.findall(path.read_text(encoding="utf-8"))
                found |= {yml or py for yml, py in pairs}
    return sorted(found)


@pytest.mark.parametrize("entry", entries())
def test_each_program_that_is_named_there_is(entry: str) -> None:
    if entry in LAUNCH_ENTRIES:
        entry = f"supervisor.{entry}"
    assert sources(entry)
