"""Our programs that run on nodes: a package of small modules here, one Python text there.

    roles/<role>/files/<program>/__init__.py    what it is and how it is called
    roles/<role>/files/<program>/__main__.py    main(), which returns the exit code
    roles/<role>/files/<program>/*.py           the rest, imported by `from .name import ...`

A node has no checkout, and a program is to leave nothing there that it does not need, so that the
text of all its modules travels as one: on `python3 -c`, on standard input, or as one file. What is
not imported is not compiled.
"""

from __future__ import annotations

from pathlib import Path

IMPORTS = '''
import sys
from importlib.machinery import ModuleSpec


class Sent:
    """Imports the modules of SOURCES."""

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package="." not in name) if name in SOURCES else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__], module.__name__, "exec"), module.__dict__)


sys.meta_path.insert(0, Sent())
'''


def program(path: Path) -> str:
    """Python text that runs the program: its main(), whose return is the exit code.

    A program of one file is that file's text.
    """
    if path.is_file():
        return path.read_text("utf-8")
    name = path.name
    sources = {
        name if part.stem == "__init__" else f"{name}.{part.stem}": part.read_text("utf-8")
        for part in sorted(path.glob("*.py"))
    }
    run = f"\nif __name__ == '__main__':\n    from {name}.__main__ import main\n\n"
    return f"SOURCES = {sources!r}{IMPORTS}{run}    sys.exit(main())\n"


def loaded(folder: Path) -> str:
    """Python text after which the program's modules can be imported; PROGRAM is its text."""
    return f"PROGRAM = {program(folder)!r}\nexec(PROGRAM, {{'__name__': 'sent'}})\n"


def calling(folder: Path, module: str, call: str) -> str:
    """Python text that calls one function of a module, `call` being the whole expression."""
    return f"{loaded(folder)}from {folder.name}.{module} import {call.partition('(')[0]}\n{call}\n"
