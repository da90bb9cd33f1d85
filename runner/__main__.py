"""The command line: `trainbench COMMAND` or `python -m runner COMMAND`."""

import argparse
import errno
import itertools
import os
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from node.printable import printable
from node.program_output import FULL, full_disk
from node.schema import UnfitError
from runner import __version__
from runner.base.errors import UserError
from runner.base.escapes import TerminalLine
from runner.base.paths import not_installed
from runner.base.program_name import CALLED
from runner.base.questions import ask_nobody
from runner.base.streams import complain, forgive, guard, nobody_reads, open_closed, say_json
from runner.commands import (
    about,
    accept,
    bench,
    bisect,
    ci,
    collect,
    compare,
    completion,
    demo,
    docs,
    doctor,
    expect,
    export,
    history,
    import_,
    init,
    matrices,
    parse,
    publish,
    setup,
    status,
    stop,
    systems,
    teardown,
    tune,
    verify,
)
from runner.terms.printed_answers import ErrorAnswer

MOST_LETTERS = 4_000  # of an error's sentence
_TOO_MANY = (errno.EMFILE, errno.ENFILE)  # open files
_as_json: list[bool] = []  # whether this command line asks for JSON
# In the order of --help.
COMMANDS = (
    *(demo, init, setup, verify, doctor, accept, bench, tune, status, stop, collect, compare),
    *(
        ci,
        bisect,
        expect,
        history,
        export,
        publish,
        parse,
        import_,
        systems,
        matrices,
        docs,
    ),
    *(teardown, completion, about),
)
BY_NAME = {module.__name__.rpartition(".")[2].rstrip("_"): module for module in COMMANDS}


class Parser(argparse.ArgumentParser):
    """A parser that complains as the rest does. `commands` are its subcommands' parsers."""

    commands: Mapping[str, argparse.ArgumentParser]

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit with code 2."""
        if _as_json:
            say_json(ErrorAnswer(error=(printable(message),), exit_code=2))
        super().error(TerminalLine(message))


def parser() -> Parser:
    """Return the parser of the whole command line."""
    top = Parser(
        prog=CALLED,
        description="From bare nodes to a comparison table of distributed GPT training.",
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_parser(commands)
    top.commands = commands.choices
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    forgive()
    words = sys.argv[1:] if arguments is None else arguments
    _as_json[:] = [True] if wants_json(words) else []
    try:
        _check_text(words)
        top = parser()
        if "_ARGCOMPLETE" in os.environ:  # a shell asks what may stand next; this answers and exits
            import argcomplete

            argcomplete.autocomplete(top)
        chosen = _parse(top, words)
        if chosen.non_interactive:
            ask_nobody()
        return int(BY_NAME[chosen.command].run(chosen))
    except (UserError, UnfitError) as error:
        return _refused(error.sentences if isinstance(error, UserError) else [str(error)])
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("runner", "node"):
            raise  # a fault of ours
        return _refused([not_installed(f"the Python package {error.name}")])
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            nobody_reads()
            return 0
        return _refused([_os_error_sentence(error, words)])
    except KeyboardInterrupt:
        complain("stopped")
        return 130


def _parse(top: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; what a command does not know is refused with that command's usage."""
    chosen, unknown = top.parse_known_args(arguments)
    if unknown:
        help_line = f"{CALLED} {chosen.command} --help"
        top.commands[chosen.command].error(
            f"unknown argument {unknown[0]}; `{help_line}` lists all that it takes"
        )
    return chosen


def _os_error_sentence(error: OSError, arguments: Sequence[str]) -> str:
    """Return what an operation of the system failed on, and the cure."""
    reason = error.strerror or str(error)
    if error.errno in _TOO_MANY or reason == "out of pty devices":  # CPython's pty.py, no errno
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"{reason}; a process may open {limit} files here: allow more, as `ulimit -n 4096`"
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in FULL:
        where = f"{where}{full_disk(*_folders_written_to(error, arguments))}: "
    return f"{where}{reason}; make room or rights there, or name another folder with --runs"


def _folders_written_to(error: OSError, arguments: Sequence[str]) -> list[str]:
    """Return the file that an error names, else all folders that a command line may have written
    to: `write` says not which.
    """
    if error.filename:
        return [str(error.filename)]
    values = (value for argument in arguments for value in (argument, argument.partition("=")[2]))
    paths = [os.path.abspath(value) for value in values if value]
    folders = [folder for path in paths for folder in (path, os.path.dirname(path))]
    usual = (str(Path.cwd()), tempfile.gettempdir(), str(Path.home()))
    return [*usual, *filter(os.path.isdir, folders)]


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether a command line asks for JSON, be it whole or not."""
    pairs = itertools.pairwise(arguments)
    return "--format=json" in arguments or ("--format", "json") in pairs


def _refused(sentences: Sequence[str]) -> int:
    """Say why nothing was done; the exit code."""
    lines = [_sentence(sentence) for sentence in sentences]
    if _as_json:
        say_json(ErrorAnswer(error=tuple(lines), exit_code=2))
    for sentence in lines:
        complain(f"error: {sentence}")
    return 2


def _check_text(words: Sequence[str]) -> None:
    """Refuse a path that is not text, which no file of a campaign could hold. Raises UserError."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UserError(
                f"{word!a} on the command line is not text in UTF-8; give the file or folder"
                " another name"
            ) from None


def _sentence(text: str) -> str:
    """Return an error's sentence as a terminal may have it; what it names may be of any length."""
    half = MOST_LETTERS // 2
    text = text if len(text) <= MOST_LETTERS else f"{text[:half]} [...] {text[-half:]}"
    return printable(text)


def command() -> int:
    """Run the command of this process's command line; the exit code."""
    open_closed()
    guard()
    return main()


if __name__ == "__main__":
    sys.exit(command())
