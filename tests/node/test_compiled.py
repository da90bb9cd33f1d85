"""Programs that were compiled once: whoever starts one later takes that, where it fits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from node import bootstrap
from plugins.program import command, sources

ENTRY = "visibility:look"
ASKED = {"folder": "/", "names": [], "text": "", "patience_s": 0}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "programs.json"
    path.write_text(json.dumps({**sources(ENTRY), **sources("supervisor.task:task")}))
    return path


def ask(file: Path, before: str = "") -> str:
    message = {"file": str(file), "entry": f"node.{ENTRY}", "arguments": ASKED}
    _, boot, name = command(ENTRY)
    argv = [sys.executable, "-I", "-S", "-c", before + boot, name, json.dumps(message)]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ran.stdout == 'TRAINBENCH {"seen": {}}\n', ran.stderr
    return ran.stderr


KEEP = (
    "import atexit, sys; atexit.register(lambda: __import__('node.compiled', fromlist=['keep'])"
    ".keep({file!r}))\n"
)
COUNTS = """
import builtins, sys
real = builtins.compile
builtins.compile = lambda *words, **more: (
    sys.stderr.write("compiled " + words[1] + "\\n"), real(*words, **more))[1]
"""


def test_a_program_is_compiled_once(file: Path) -> None:
    assert "compiled node.visibility" in ask(file, COUNTS)
    ask(file, KEEP.format(file=str(file)))
    assert Path(bootstrap.compiled_path(str(file))).stat().st_mode & 0o777 == 0o600
    assert "compiled" not in ask(file, COUNTS)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xe9\x00", b"N", b"(\x02\x00\x00\x00NN"])
def test_what_is_no_such_file_is_none(file: Path, content: bytes) -> None:
    Path(bootstrap.compiled_path(str(file))).write_bytes(content)
    assert "compiled node.visibility" in ask(file, COUNTS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
@pytest.mark.parametrize("how", ["another user's", "open to all", "a link"])
def test_what_another_user_may_have_compiled_is_compiled_again(file: Path, how: str) -> None:
    ask(file, KEEP.format(file=str(file)))
    path = Path(bootstrap.compiled_path(str(file)))
    if how == "a link":
        path.rename(file.with_name("elsewhere"))
        path.symlink_to("elsewhere")
    elif how == "open to all":
        path.chmod(0o666)
    else:
        os.chown(path, 4242, 4242)
    assert "compiled node.visibility" in ask(file, COUNTS)
