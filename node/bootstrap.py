"""Import the modules that came with a program, and run it. First of all texts in a message.

A message is JSON: `sources` (a module's name to its text) or `file` (where such a mapping is on
this node; `sha256` is its checksum), `entry` (module:function) and `arguments`, which the function
gets; `environment` are further variables, which are on no command line. BOOT reads it from standard
input, or from its second argument; the first is for listings of the node's processes. Nothing is
imported from the working folder, which may be anyone's. What nobody imports is not compiled.

Python 3.6, too: an environment's own Python runs what checks it.
"""

import json
import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Dict, List, Optional

BOOT = """\
import sys
sys.path[:] = filter(None, sys.path)
import json, types
job = json.loads(sys.argv[2]) if sys.argv[2:] else json.load(sys.stdin)
if "file" in job:
    text = open(job["file"], "rb").read()
    if "sha256" in job and __import__("hashlib").sha256(text).hexdigest() != job["sha256"]:
        sys.exit("%s is not what was left there; remove it, and start again" % job["file"])
    job["sources"] = json.loads(text.decode())
sent = sys.modules["node.bootstrap"] = types.ModuleType("node.bootstrap")
exec(job["sources"]["node.bootstrap"], sent.__dict__)
sys.exit(sent.run(job))
"""
FILE = "modules.json"  # how a program calls SOURCES that it leaves for what is asked afterwards
SOURCES = {}  # type: Dict[str, str]  # what came
CODE = {}  # type: Dict[str, Any]  # of that, what is compiled already


class Sent:
    """Import the modules of SOURCES."""

    def find_spec(
        self, name: str, path: "Any" = None, target: "Any" = None
    ) -> "Optional[ModuleSpec]":
        """Return the spec of a module that came; None for any other."""
        if name not in SOURCES:
            return None
        package = any(module.startswith(name + ".") for module in SOURCES)
        return ModuleSpec(name, self, is_package=package)  # type: ignore[arg-type]  # duck-typed

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: "ModuleType") -> None:
        """Compile and run the module's text."""
        name = module.__name__
        code = CODE.get(name) or compile(SOURCES[name], name, "exec")
        exec(code, module.__dict__)  # noqa: S102  # as import does


def run(job: "Dict[str, Any]") -> int:
    """Run a message's program; return the exit code."""
    os.environ.update(job.get("environment", {}))
    SOURCES.update(job["sources"])
    CODE.update(compiled(job.get("file")))
    sys.meta_path.insert(0, Sent())
    module, _, function = job["entry"].partition(":")
    serve = import_module("node.answer").serve
    return int(serve(getattr(import_module(module), function), job["arguments"]))


def compiled_path(file: str) -> str:
    """Return where the modules of a file are, compiled by this very Python."""
    return "%s.%s" % (file, sys.implementation.cache_tag)


def compiled(file: "Optional[str]") -> "Dict[str, Any]":
    """Return the modules that a program before us compiled (node/compiled.py); none for none.

    They are beside the file with the texts. What another user wrote, or can, is compiled again.
    Compiling takes half of what a node needs to begin.
    """
    if not file:
        return {}
    try:
        handle = os.open(compiled_path(file), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as stream:
            status = os.fstat(handle)
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return {}
            magic, code = marshal.load(stream)  # noqa: S302  # as said above
    except (OSError, EOFError, ValueError, TypeError):
        return {}
    return code if magic == MAGIC_NUMBER else {}


def command(entry: str) -> "List[str]":
    """Return what follows a Python on the command line of a program."""
    return ["-c", BOOT, entry]


def message(entry: str, arguments: "Any", file: str = "") -> str:
    """Return a message that hands a program on, with the modules that came here or are in a file.

    The program's module, which nobody may import here, is named in SENDS of the module that asks.
    """
    carried = {"file": file} if file else {"sources": SOURCES}  # type: Dict[str, Any]
    return json.dumps(dict(carried, entry="node." + entry, arguments=arguments))
