"""roles/dataset's action plugin: from what each node said to what each is to do, as tables."""

from typing import Any

from roles.dataset.action_plugins.datasets import plan, sharing


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
    looked = said(a=("", 0), b=("x", 0), c=("x", 0)) | {"d": {}}
    addresses = {host: f"10.0.0.{host}" for host in looked}
    planned = plan(looked, ["d"])
    shares = sharing(planned, addresses)["shares"]
    assert list(shares) == ["b", "c", "a", "d"]
    assert shares["b"]["has"] == {"d": "x"} == shares["a"]["wants"]
    assert shares["b"]["wants"] == {} == shares["a"]["has"]
    assert shares["a"]["addresses"] == {host: f"10.0.0.{host}" for host in ("b", "c", "a", "d")}
    assert {
        each["me"]: (each["holders"], each["waiting"]) for each in shares.values()
    } == dict.fromkeys(shares, (["b", "c"], ["a", "d"]))
    assert len({each["token"] for each in shares.values()}) == 1
    assert sharing(planned, addresses)["shares"]["a"]["token"] != shares["a"]["token"]


def test_nobody_shares_where_all_have_the_same() -> None:
    looked = said(a=("x", 0), b=("x", 0))
    assert sharing(plan(looked, ["d"]), {})["shares"] == {}
