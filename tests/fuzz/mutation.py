"""Inputs made wrong: bytes, lines and JSON values, by a seeded chance alone."""

import copy
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

RAW = "\ue000"  # begins a text of JSON that stands for what json.dumps would not write
RAWS = (
    *("9" * 5000, "-" + "9" * 400, "1e999", "-1e999", "NaN", "-Infinity", "1e308", "1 2"),
    *("[" * 100_000 + "]" * 100_000, '{"a":' * 20_000 + "1" + "}" * 20_000, "", "\x00", "'"),
)
TEXTS = (
    *("", " ", "x", "0", "1.5", "-1", "nan", "inf", "1e999", "9" * 400, "null", "true", "no"),
    *("../../../x", "/etc/passwd", "..", ".", "a/b", "x/../..", "a\\b", "~", "-rf", "--help"),
    *("\x00", "\x1b[2J\x1b]0;owned\x07", "\x9b31m", "\r\n", "a\nb", "\u2028", "\u202e"),
    *("=cmd|' /C calc'!A0", "+1", "@x", "[x](javascript:alert(1))", "<script>", "|a|b|", "`x`"),
    *("{{ 7*7 }}", "{% for %}", "$(touch /tmp/x)", "`id`", "%s%n", "100 MiB", "x" * 3000),
    *("\u0663", "\ud800", "\ufeff"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, -0.0, 2**31, 2**63, -(2**63) - 1, 10**30, 1e308, 5e-324),
    *([], {}, [[]], [None], {"": None}, ["x"], [{}], {"a": {"a": {}}}, list(range(1000))),
)
BYTES = (
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\r", b"\n", b"\r\n", b"\x1b[2J", b"\x9b"),
    *(b"|", b" | ", b": ", b"/", b"=", b",", b"[", b"]", b"(", b")", b"-", b".", b"e", b"%", b" "),
    *(b"9" * 5000, b"9" * 19, b"-1", b"0", b"nan", b"inf", b"1e999", b"1e308", b"0x10", b"1_000"),
    *("\u0663\u0664".encode(), "\u2028".encode(), b"\xef\xbb\xbf", b"\xb2", b"\x85", b"\t"),
)
NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def some(chance: random.Random, things: Sequence[bytes]) -> bytes:
    """One of them."""
    return things[chance.randrange(len(things))]


def mutated(data: bytes, chance: random.Random, words: Sequence[bytes] = BYTES) -> bytes:
    """A few changes of bytes, lines and numbers. `words` are put in; they may be the grammar's."""
    for _ in range(chance.choice((1, 1, 2, 3, 5, 8))):
        data = chance.choice(CHANGES)(data, chance, words)
    return data


def _flip(data: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _put_in(data: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + some(chance, chance.choice((words, BYTES))) + data[at:]


def _cut(data: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    first = chance.randrange(len(data) + 1)
    return data[:first] + data[first + chance.choice((1, 2, 7, 40, 1000)) :]


def _cut_off(data: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] if chance.random() < 0.7 else data[at:]


def _number(data: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    numbers = list(NUMBER.finditer(data))
    if not numbers:
        return data
    where = chance.choice(numbers)
    other = chance.choice(numbers)[0] if chance.random() < 0.3 else some(chance, BYTES)
    return data[: where.start()] + other + data[where.end() :]


def _lines(data: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    what = chance.randrange(4)
    if what == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif what == 1:
        lines.insert(first, lines[second])
    elif what == 2:
        del lines[first]
    else:
        lines[first] += lines[second]
    return b"\n".join(lines)


def _repeat(data: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(data) + 1)
    piece = data[at : at + chance.choice((1, 1, 3, 20))] or b" "
    times = chance.choice((2, 10, 100, 1000, 10_000)) if chance.random() < 0.9 else 200_000
    return data[:at] + piece * min(times, 400_000 // len(piece)) + data[at:]


CHANGES: tuple[Callable[[bytes, random.Random, Sequence[bytes]], bytes], ...] = (
    *(_flip, _put_in, _put_in, _cut, _cut_off, _number, _number, _lines, _lines, _repeat),
)


# --- JSON -----------------------------------------------------------------------------------------


def odd(chance: random.Random) -> Any:
    """A value that nobody expects."""
    what = chance.random()
    if what < 0.2:
        return RAW + str(chance.randrange(len(RAWS)))
    return chance.choice(TEXTS) if what < 0.6 else copy.deepcopy(chance.choice(VALUES))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each (container, key) in a value of JSON."""
    entries: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        part = todo.pop()
        keys = (
            part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        )
        for key in keys if isinstance(part, dict | list) else ():
            entries.append((part, key))
            todo.append(part[key])
    return entries


def mutated_json(value: Any, chance: random.Random) -> bytes:
    """A value of JSON with a few of its parts made wrong, or its text."""
    value = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        entries = places(value)
        if not entries or chance.random() < 0.03:
            value = odd(chance)
            continue
        holder, key = chance.choice(entries)
        what = chance.randrange(8)
        if what == 0:
            del holder[key]
        elif what == 1 and isinstance(holder, dict):
            name = chance.choice(TEXTS)
            holder[name] = holder.pop(key)
        elif what == 2:
            other, place = chance.choice(entries)
            holder[key] = json.loads(json.dumps(other[place]))
        elif what == 3:
            holder[key] = [holder[key]] if chance.random() < 0.5 else {"x": holder[key]}
        else:
            holder[key] = odd(chance)
    data = text(value)
    return mutated(data, chance) if chance.random() < 0.1 else data


def text(value: Any) -> bytes:
    """JSON with what stands for raw texts put in."""
    written = json.dumps(value, ensure_ascii=False)
    for number in range(len(RAWS) - 1, -1, -1):
        mark = f'"{RAW}{number}"'
        if mark in written:
            written = written.replace(mark, RAWS[number])
    return written.encode("utf-8", "surrogatepass")
