"""What comes from outside is checked in one place: types, ranges, lengths, depth, patterns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node import parsing, schema, validated_text
from node.schema import UnfitError
from runner.base.dataclass_schema import read, shape
from runner.folder.stored import UnreadableError, load

NODE = schema.Fields(
    {"host": validated_text.HostName, "ranks": schema.List(schema.Whole(0, 9), most=3)},
    {"note": (schema.Words(most=5), "")},
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "n1 is nested too deep"),
        ("9" * 5_000, "n1 is not JSON: a number of 5000 digits"),
        ('{"host": NaN}', "n1 is not JSON: NaN is not a number"),
        ("1e400", "n1 is not JSON: the number 1e400 is too large or too long"),
        ("{", "n1 is not JSON"),
        (b"\xff\xfe\x00", "n1 is not JSON"),
        ("[]", "n1 is a list; it must be a mapping"),
        ("{}", "n1 has no host"),
        ('{"host": 1}', "n1: host is 1; it must be a node's name"),
        ('{"host": "-oProxyCommand=x"}', "n1: host is '-oProxyCommand=x'; it must be"),
        ('{"host": "n2\\nHost *"}', "n1: host is 'n2\\nHost *'; it must be"),
        ('{"host": "n", "ranks": [true]}', "n1: ranks[0] is true; it must be a whole number"),
        ('{"host": "n", "ranks": [1, 10]}', "n1: ranks[1] is 10; it must be 0 to 9"),
        ('{"host": "n", "ranks": [1,1,1,1]}', "n1: ranks has 4 items; it may have 0 to 3"),
    ],
)
def test_what_does_not_fit_is_one_printable_sentence(text: str | bytes, said: str) -> None:
    with pytest.raises(UnfitError) as caught:
        parsing.parse(text, NODE, "n1")
    assert str(caught.value).startswith(said)
    assert str(caught.value).isprintable()


def test_what_fits_comes_back_without_what_nobody_asked_for() -> None:
    text = '{"host": "n1", "ranks": [1], "note": "a\\u001b[2Jb c d", "x": [[1]]}'
    assert parsing.parse(text, NODE) == {"host": "n1", "ranks": [1], "note": "ab c"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_fits_or_is_unfit(value: Any) -> None:
    kinds = (NODE, schema.Plain(), schema.AnyOf(schema.Whole(), schema.Text()), shape(Noun))
    for kind in kinds:
        words = ""
        try:
            kind.check(value, "n1")
        except UnfitError as error:
            words = str(error)
        assert words.isprintable()


@pytest.mark.parametrize("name", ["../x", "a/../b", "/a", "a//b", "a/", ".", "a\nb", "", 1, None])
def test_a_path_that_leaves_its_folder_cannot_be_made(name: Any) -> None:
    with pytest.raises(UnfitError):
        validated_text.InsidePath(name)
    with pytest.raises(UnfitError):
        validated_text.FileName(name)


def test_a_path_inside_can() -> None:
    for name in ("a", "a/b.c", ".a/..b", "…/ü"):
        assert validated_text.InsidePath(name) == name


class _Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    host: validated_text.HostName


@dataclass(frozen=True)
class Noun:
    whole: int
    number: Annotated[float, schema.Number(0, 1)]
    items: tuple[Inner, ...]
    env: Mapping[str, str]
    colour: _Colour
    mode: Literal["a", "b"]
    note: str | None = None


def test_a_dataclass_says_itself_what_json_may_hold() -> None:
    content = {"whole": 1, "number": 1, "items": [{"host": "n"}], "env": {"A": "b"}}
    noun = read(Noun, {**content, "colour": "red", "mode": "a", "younger": 1})
    assert noun == Noun(
        1, 1.0, (Inner(validated_text.HostName("n")),), {"A": "b"}, _Colour.RED, "a"
    )
    assert isinstance(noun.items[0].host, validated_text.HostName)
    with pytest.raises(UnfitError, match=r"number is 2; it must be 0 to 1"):
        read(Noun, {**content, "number": 2, "colour": "red", "mode": "a"})
    required = shape(Noun).json_schema()["required"]
    assert required == ["whole", "number", "items", "env", "colour", "mode"]


def test_a_file_that_is_not_there_is_none_and_another_is_one_sentence(tmp_path: Path) -> None:
    assert load(tmp_path / "x.json", NODE) is None
    (tmp_path / "x.json").write_text(json.dumps({"host": "../n", "ranks": []}))
    with pytest.raises(UnreadableError, match=r"x\.json: host is '\.\./n'; it must be"):
        load(tmp_path / "x.json", NODE)
    (tmp_path / "d").mkdir()
    with pytest.raises(UnreadableError, match="is not a plain file"):
        load(tmp_path / "d", NODE)
