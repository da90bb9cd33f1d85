"""What goes out has its escape, and nothing goes around it."""

import ast
import io
import json
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runner.base import escapes
from runner.base.console import Screen, one_line
from runner.base.escapes import (
    CsvCell,
    ExactLine,
    ExactWord,
    MarkdownText,
    ShellWord,
    TerminalLine,
    TerminalText,
    json_text,
)
from runner.base.grid import grid, plain_text
from runner.base.paths import PROJECT, TEMPLATES
from runner.base.streams import complain, guard, say

OBEYED = "\x1b]0;x\x07\x1b[2J\x9b2J\x9d0;y\x9c\x1bPq\x1b\\\u202e\u2066\u2028\x85\r\b\t\udcff"
TYPES = (TerminalText, TerminalLine, ShellWord, MarkdownText, CsvCell)


def shows(text: str) -> bool:
    """Nothing but printable characters and line breaks."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("kind", TYPES)
def test_no_type_holds_what_a_terminal_obeys(kind: Callable[[str], str]) -> None:
    for character in map(chr, range(0x11000)):
        assert shows(kind(f"a{character}b")), hex(ord(character))
    assert shows(kind(OBEYED))


@pytest.mark.parametrize("kind", TYPES)
def test_good_text_stays_and_nothing_is_escaped_twice(kind: Callable[[str], str]) -> None:
    for text in ("", "zero_stage=1,nodes=2", "–", "1754,↓31.3%"):
        assert kind(text) == text or kind is ShellWord
    for text in (OBEYED, "=1|*x* 'y'", "a\nb"):
        assert kind(kind(text)) == kind(text)


@pytest.mark.parametrize("kind", [ExactLine, ExactWord])
def test_of_what_is_executed_each_character_is_seen_and_none_looks_like_another(
    kind: Callable[[str], str],
) -> None:
    seen: dict[str, str] = {}
    for text in (*map(chr, range(0x11000)), "\U0001f600", "\\x1b", "$'\\x1b'", "\x1b", OBEYED):
        shown = kind(f"{text}b")
        assert all(" " <= letter <= "~" for letter in shown), text
        assert seen.setdefault(shown, text) == text
        assert kind(shown if isinstance(shown, ExactLine | ExactWord) else "") == shown
    assert kind("a/b=1") == "a/b=1"


def test_a_word_of_what_is_executed_is_what_bash_reads() -> None:
    for text in (
        OBEYED.replace("\udcff", ""),
        "it's $HOME",
        "$'\\x1b'",
        "\\",
        "",
        "\u3164ä\U0001f600",
    ):
        argv = ["bash", "-c", f"printf %s {ExactWord(text)}"]
        ran = subprocess.run(argv, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
        assert ran.stdout.decode() == text


def test_a_line_has_no_line_break_of_its_own() -> None:
    assert TerminalLine("ok\nFORGED  two") == "ok FORGED  two"
    assert TerminalText("ok\n  two") == "ok\n  two"


def test_of_a_whole_page_no_letter_is_left_out() -> None:
    """What begins a title of a window would else take the rest of the line with it."""
    assert TerminalText('<td title="\x1b]0;">a</td>') == '<td title=" ]0;">a</td>'


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("[x](javascript:alert(1))", r"\[x\](javascript:alert(1))"),
        ("![x](https://example.org/x.png)", r"!\[x\](https://example.org/x.png)"),
        ("<javascript:alert(1)>", r"\<javascript:alert(1)\>"),
        ("<img src=x onerror=alert(1)>", r"\<img src=x onerror=alert(1)\>"),
        ("&lt;script&gt; &#106; a & b", r"\&lt;script\&gt; \&#106; a & b"),
        ("a|b `c` *d* ~e~ _f_ g_h", r"a\|b \`c\` \*d\* \~e\~ \_f\_ g_h"),
        ("a\n\n# title", "a  # title"),
        ("# title", r"\# title"),
        ("- [ ] task", r"\- \[ \] task"),
        ("1. one", r"1\. one"),
        ("---", r"\---"),
        ("-1754,↓31.3% - 2", "-1754,↓31.3% - 2"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, escaped: str) -> None:
    assert MarkdownText(text) == escaped


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "' =1"),
        ("\r\n=1", "'  =1"),
        ("\uff1d1", "'\uff1d1"),
        ("a;=1", "a;'=1"),
        ("-1.5", "-1.5"),
        ("+1e-05", "+1e-05"),
        ("7", "7"),
        ("zero_stage=1", "zero_stage=1"),
        ("drift;wide_spread", "drift;wide_spread"),
    ],
)
def test_a_spreadsheet_computes_nothing_of_a_csv(text: str, cell: str) -> None:
    assert CsvCell(text) == cell


@pytest.mark.parametrize("text", [OBEYED.replace("\udcff", ""), "a\nb'c\\", "$(id)", "-x", ""])
def test_a_word_of_a_command_can_be_pasted(text: str) -> None:
    ran = subprocess.run(
        ["bash", "-c", f"printf %s {ShellWord(text)}"], capture_output=True, check=True
    )
    assert ran.stdout.decode() == text


def test_json_keeps_every_character_and_shows_none_that_is_obeyed() -> None:
    document = {"a": OBEYED, OBEYED: ["é – 😀 \U000e0001", math.nan, math.inf]}
    text = json_text(document)
    assert shows(text)
    assert "é – 😀" in text
    assert json.loads(text) == {"a": OBEYED, OBEYED: ["é – 😀 \U000e0001", None, None]}


def test_what_is_said_passes_the_door(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"one{OBEYED}\ntwo")
    complain(f"error: {OBEYED}\nFORGED")
    shown = capsys.readouterr()
    assert shows(shown.out + shown.err)
    assert len(shown.out.splitlines()) == 2
    assert len(shown.err.splitlines()) == 1


def test_a_traceback_passes_the_door(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.excepthook", None)
    monkeypatch.setattr("threading.excepthook", None)
    guard()
    import sys

    error = ValueError(OBEYED)
    sys.excepthook(ValueError, error, None)
    shown = capsys.readouterr().err
    assert "ValueError: " in shown
    assert shows(shown)


def test_a_screen_shows_text_as_text() -> None:
    """In tables, in live lines and as markup; the colours and the cursor are rich's own."""
    stream = io.StringIO()
    screen = Screen(file=stream, force_terminal=True, width=60, color_system="standard")
    table = Table(f"head{OBEYED}")
    table.add_row(OBEYED, Text(OBEYED))
    screen.print(f"[red]one[/red] :smile: {OBEYED}", Text(OBEYED), table, one_line(OBEYED, "red"))
    with Live(Text(OBEYED), console=screen):
        pass
    shown = stream.getvalue()
    assert "[red]one[/red] :smile:" in shown
    ours = re.sub(r"\x1b\[(?:\d+(?:;\d+)*m|\?25[lh])|\x1b\[[12]?[AKG]|\r", "", shown)
    assert shows(ours), ascii(ours)
    assert "\x1b[2J" not in shown


def test_grids_are_as_wide_as_what_they_show() -> None:
    text = plain_text([grid(["a", "b"], [[OBEYED, "x"], ["y", "z"]], 60), OBEYED], 60)
    assert shows(text)
    rows = grid(["a", "b"], [[f"1{OBEYED}", "x"], ["2", "y"]], 60).splitlines()[-2:]
    assert rows[0].index("x") == rows[1].index("y")


# --- nothing goes around them ---------------------------------------------------------------------

AROUND = {
    "print": ("print(1)", "T201"),
    "pprint": ("import pprint\n\npprint.pprint(1)", "T203"),
    "sys.stdout": ("import sys\n\nsys.stdout.write('x')", "TID251"),
    "sys.stderr": ("from sys import stderr\n\nstderr.write('x')", "TID251"),
    "rich": ("from rich.console import Console\n\nConsole().print('x')", "TID251"),
    "rich.print": ("import rich\n\nrich.print('x')", "TID251"),
    "csv": ("import csv\n\ncsv.writer(open('x'))", "TID251"),
    "html": ("from html import escape\n\nescape('x')", "TID251"),
    "markup": ("from markupsafe import Markup\n\nMarkup(f'<b>{1}</b>')", "S704"),
    "templates": ("import jinja2\n\njinja2.Environment(autoescape=False)", "S701"),
}


@pytest.mark.parametrize("way", AROUND)
def test_the_linter_finds_what_goes_around(way: str) -> None:
    text, rule = AROUND[way]
    argv = ["ruff", "check", "--no-cache", "--output-format=json", "--stdin-filename"]
    ran = subprocess.run(
        [*argv, "runner/tables/new.py", "-"], input=text, capture_output=True, text=True,
        cwd=PROJECT, check=False,
    )  # fmt: skip
    assert rule in {each["code"] for each in json.loads(ran.stdout)}


# File: the rules that it may leave out, each for a reason on its line.
LEFT_OUT = {
    "runner/base/console.py": {"TID251"},  # the console that escapes is rich's
    "runner/plan/script.py": {"S701"},  # shell text
    "runner/archive/publication.py": {"S701", "S704"},  # Markdown: finalize escapes
    "runner/report/templating.py": {"S704"},  # our own script
    "runner/report/svg.py": {"S704"},  # what matplotlib drew
}


def modules() -> list[Path]:
    return sorted((PROJECT / "runner").rglob("*.py"))


def test_no_other_file_is_let_off() -> None:
    rules = {each for _, each in AROUND.values()}
    let_off = {}
    for path in modules():
        codes = re.findall(r"# noqa: ([A-Z0-9, ]+)", path.read_text(encoding="utf-8"))
        named = {code.strip() for each in codes for code in each.split(",")} & rules
        if named:
            let_off[path.relative_to(PROJECT).as_posix()] = named
    assert let_off == LEFT_OUT


def calls(path: Path) -> list[Any]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_csv_is_written_in_one_place() -> None:
    places = {
        path.name
        for path in modules()
        for call in calls(path)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "to_csv"
    }
    assert places - {"formats.py"} == {"text.py"}


def test_no_instance_is_made_without_its_escape() -> None:
    """Neither by str.__new__ or a cast, nor by adding to one and calling it escaped."""
    kinds = {kind.__name__ for kind in TYPES} | {"Markup"}
    for path in modules():
        for call in calls(path):
            cast = isinstance(call.func, ast.Name) and call.func.id == "cast"
            new = isinstance(call.func, ast.Attribute) and call.func.attr == "__new__"
            names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
            assert not (cast and names & kinds), path
            assert not (new and names & kinds), path


def test_the_templates_of_pages_escape() -> None:
    for path in TEMPLATES.glob("*.html.j2"):
        assert not re.search(r"\|\s*safe\b|{%-?\s*autoescape", path.read_text(encoding="utf-8"))


def test_every_type_is_listed() -> None:
    documented = escapes.__doc__ or ""
    assert all(f"`{kind.__name__}`" in documented for kind in TYPES)
