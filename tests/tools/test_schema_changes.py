"""Which change of a JSON schema breaks a reader: tools/schema-changes."""

import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_loader = SourceFileLoader("schema_changes", str(ROOT / "tools" / "schema-changes"))
_spec = spec_from_loader("schema_changes", _loader)
assert _spec is not None
tool = module_from_spec(_spec)
_loader.exec_module(tool)


def schema(number: int | None = 1, required: tuple[str, ...] = ("a",), **kinds: Any) -> Any:
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    if number is not None:
        properties["schema"] = {"const": number}
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (schema(a="string"), schema(a="string", b="number"), []),
        (schema(a="string", b="number"), schema(a="string"), [".b is gone"]),
        (schema(a="string"), schema(a=["string", "null"]), [".a may be null"]),
        (schema(a=["string", "null"]), schema(a="string"), []),
        (schema(a="number"), schema(a="integer"), []),
        (schema(a="integer"), schema(a="number"), [".a may be number"]),
        (schema(a="string"), schema(required=(), a="string"), [".a may be left out"]),
        (schema(a="string"), schema(2, b="number"), []),
        (schema(None, a="string"), schema(None, b="string"), []),
        (
            schema(None, a=["string", "null"]),
            schema(None, a="string"),
            [".a is no longer accepted as null"],
        ),
        (schema(None, a="string"), schema(None, ("a", "b"), a="string"), [".b is required"]),
    ],
)
def test_what_is_incompatible(before: Any, now: Any, words: list[str]) -> None:
    assert list(tool.incompatible(before, now)) == words


def test_words_and_items_are_compared_too() -> None:
    before = {
        "properties": {
            "schema": {"const": 1},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        },
        "$defs": {"row": {"properties": {"of": {"enum": ["a", None]}}}},
    }
    now = {
        "properties": {
            "schema": {"const": 1},
            "rows": {
                "type": "array",
                "items": {"properties": {"of": {"enum": ["a", "b", None]}}},
            },
        }
    }
    assert list(tool.incompatible(before, now)) == ['.rows[].of may be "b"']


def test_the_tool_runs_in_a_repository(tmp_path: Path) -> None:
    script = ROOT / "tools" / "schema-changes"
    done = subprocess.run([script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "not compared" in done.stdout
