"""roles/dataset's action plugin: from what each node said to what each is to do, as tables."""

from typing import Any

from plugins.datasets import recorded
from plugins.sharing import shared
from roles.dataset.action_plugins.datasets import plan


def said(**identities: tuple[str, int]) -> dict[str, Any]:
    return {
        host: {"datasets": {"d": {"fault": "", "identity": identity, "begun": begun}}}
        for host, (identity, begun) in identities.items()
    }


def test_nothing_to_do_where_all_have_the_same() -> None:
    found = plan(said(a=("x", 0), b=("x", 0)), ["d"])
    assert found == {"make": [], "maker": "", "identity": {"d": "x"}, "gives": {}, "gets": {}}


def test_what_no_node_has_is_made_where_most_of_it_lies() -> None:
    found = plan(said(a=("", 0), b=("", 7), c=("", 3)), ["d"])
    assert (found["make"], found["maker"]) == (["d"], "b")
    assert plan(said(a=("", 0), b=("", 0)), ["d"])["maker"] == "a"


def test_a_node_with_another_dataset_gets_the_first_nodes() -> None:
    found = plan(said(a=("", 0), b=("x", 0), c=("y", 0), d=("x", 0)), ["d"])
    assert found["gives"] == {"b": ["d"], "d": ["d"]}
    assert found["gets"] == {"a": ["d"], "c": ["d"]}


def test_a_few_give_however_many_have_it() -> None:
    hosts = {f"n{i}": ("x", 0) for i in range(50)} | {"late": ("", 0)}
    assert len(plan(said(**hosts), ["d"])["gives"]) == 4


def test_a_node_that_said_nothing_gets_it() -> None:
    looked = {**said(a=("x", 0)), "b": {}}
    assert plan(looked, ["d"])["gets"] == {"b": ["d"]}


def test_who_shares_is_told_of_the_others_and_of_its_own_part() -> None:
    planned = plan(said(a=("", 0), b=("x", 0), c=("x", 0)) | {"d": {}, "e": {}}, ["d"])
    addresses = {host: f"10.0.0.{host}" for host in "abcdef"}
    told = shared(planned, addresses)
    assert list(told["addresses"]) == ["b", "c", "a", "d", "e"]
    assert told["addresses"]["a"] == "10.0.0.a"
    assert told["identity"] == {"d": "x"}
    assert (list(told["gives"]), list(told["gets"])) == (["b", "c"], ["a", "d", "e"])
    assert shared(planned, addresses)["token"] != told["token"]


def test_of_a_dataset_only_the_addresses_without_a_stated_checksum_may_be_recorded() -> None:
    inputs = [
        {"file": "a", "address": "https://a", "sha256": "recorded"},
        {"file": "b", "address": "https://b", "sha256": "0" * 64},
    ]
    assert recorded({"d": {"inputs": inputs}, "mine": None}) == {"d": ["https://a"], "mine": []}


def test_nobody_shares_where_all_have_the_same() -> None:
    planned = plan(said(a=("x", 0), b=("x", 0)), ["d"])
    assert (planned["gives"], planned["gets"]) == ({}, {})
