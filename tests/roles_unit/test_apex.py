"""roles/apex's action plugin: who builds a wheel, and who is given it."""

from typing import Any

import pytest

from roles.apex.action_plugins.wheels import plan

WHEEL = {"name": "apex.whl", "sha256": "ab"}


def look(key: str, wheel: bool = False) -> dict[str, Any]:
    return {"key": key, "wheel": WHEEL if wheel else {}}


@pytest.mark.parametrize(
    ("looked", "everywhere", "keepers", "building", "lacking"),
    [
        ({"a": look("x"), "b": look("x")}, False, "aa", "a", "b"),
        ({"a": look("x"), "b": look("x", True)}, False, "bb", "", "a"),
        ({"a": look("x"), "b": look("y")}, False, "ab", "ab", ""),
        ({"a": look("x"), "b": look("x")}, True, "ab", "ab", ""),
        ({"a": look("x", True), "b": look("x", True)}, False, "aa", "", ""),
    ],
)
def test_alike_nodes_share_one_wheel(
    looked: dict[str, Any], everywhere: bool, keepers: str, building: str, lacking: str
) -> None:
    plans = {host: plan(looked, {}, host, everywhere) for host in looked}
    assert "".join(each["keeper"] for each in plans.values()) == keepers
    assert "".join(host for host, each in plans.items() if each["build"]) == building
    assert "".join(host for host, each in plans.items() if each["lacking"]) == lacking


def test_what_was_built_is_given() -> None:
    looked = {"a": look("x"), "b": look("x")}
    assert plan(looked, {}, "b", False)["wheel"] == {}
    assert plan(looked, {"a": {"wheel": WHEEL}}, "b", False)["wheel"] == WHEEL
