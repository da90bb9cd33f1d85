"""Golden text of what nodes run, written as differences from one of them.

The first node of a system in a file is written whole; rank 0 of another cell by its differences
from that node, and a higher rank by its differences from rank 0 of its cell.

    ~LINE   replaces the next line that begins with the same option, variable or key
    -LINE   the next such line is missing
    +LINE   is added after the line that was last spoken of
     LINE   is there as well; it says where the lines below it are looked for, and added
"""

import re
from collections.abc import Callable
from difflib import SequenceMatcher

Lines = list[str]
NODE = re.compile(r"((?:=== (\w+): .*\n)?--- .*\n)((?:(?!=== |--- ).*\n)*)")


def shorten(text: str) -> str:
    """Write nodes by their differences."""
    return _each_node(text, lambda base, node: (node, _differences(base, node)))


def expand(text: str) -> str:
    """Write nodes whole that `shorten` wrote."""
    return _each_node(text, lambda base, node: 2 * (_applied(base, node),))


def _each_node(text: str, rewritten: Callable[[Lines, Lines], tuple[Lines, Lines]]) -> str:
    """Write the second of what is returned for a node; the first is the node whole."""
    out, first, rank_0 = "", dict[str, Lines](), Lines()
    for head, system, body in NODE.findall(text):
        whole = written = body.splitlines()
        base = first.get(system) if system else rank_0
        if base is not None:
            whole, written = rewritten(base, written)
        if system:
            rank_0 = whole
            first.setdefault(system, whole)
        out += head + "".join(f"{line}\n" for line in written)
    return out


def _beginning(line: str) -> str:
    return re.sub(r"(\s*(?:env \w+=|[\w.]+=|\S+)).*", r"\1", line)


def _next(base: Lines, place: int, mark: str, line: str) -> int:
    """Find the line from there on that a line of differences speaks of."""
    key = _beginning if mark == "~" else str
    return [key(each) for each in base].index(key(line), place)


def _applied(base: Lines, differences: Lines) -> Lines:
    lines, place = Lines(), 0
    for mark, line in ((each[0], each[1:]) for each in differences):
        if mark != "+":
            at = _next(base, place, mark, line)
            lines += base[place:at]
            place = at + 1
        lines += [line] * (mark != "-")
    return lines + base[place:]


def _differences(base: Lines, node: Lines) -> Lines:
    out, place = Lines(), 0

    def speak(mark: str, line: str, at: int) -> None:
        nonlocal place
        while _next(base, place, mark, line) != at:
            skip = next(n for n in range(at - 1, -1, -1) if _next(base, place, " ", base[n]) == n)
            out.append(f" {base[skip]}")
            place = skip + 1
        out.append(mark + line)
        place = at + 1

    keys, node_keys = ([_beginning(line) for line in lines] for lines in (base, node))
    for kind, a, b, c, d in SequenceMatcher(None, keys, node_keys, False).get_opcodes():
        for at in range(a, b):
            if kind != "equal":
                speak("-", base[at], at)
            elif base[at] != node[c + at - a]:
                speak("~", node[c + at - a], at)
        if kind == "insert" and place != a:
            speak(" ", base[a - 1], a - 1)
        out += [f"+{line}" for line in node[c:d] if kind != "equal"]
    return out
