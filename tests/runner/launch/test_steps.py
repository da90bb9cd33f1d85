"""A playbook's steps as lines, from what it says of itself."""

from runner.commands.playbook_options import _code
from runner.launch.playbook import PlaybookEnd
from runner.launch.steps import Steps
from runner.terms.progress import Told


def shown(steps: Steps, *told: Told) -> list[str]:
    return [line for at, said in enumerate(told) for line in steps.take(said, at)]


def result(step: str, host: str, status: str, words: str = "") -> Told:
    return Told("result", step=step, host=host, status=status, words=words)


def test_a_line_a_step_and_node() -> None:
    steps = Steps()
    lines = shown(
        steps,
        Told("begin", count=2),
        Told("play", step="Check the inventory"),
        Told("task", step="validate", host="a", words="Refuse what cannot work"),
        result("validate", "a", "ok"),
        result("validate", "b", "ok"),
        Told("play", step="Put the systems on the nodes"),
        result("torch_gpt", "a", "changed"),
        result("torch_gpt", "a", "changed"),
        result("torch_gpt", "b", "failed", "the disk is full\nmake room"),
        Told("end"),
    )
    assert [line.split() for line in lines] == [
        ["validate", "a", "ok", "0:01"],
        ["validate", "b", "ok", "0:02"],
        ["torch_gpt", "a", "2", "changes", "0:01"],
        ["torch_gpt", "b", "failed", "0:02"],
        ["the", "disk", "is", "full"],
        ["make", "room"],
    ]
    assert (steps.plays, steps.begun, steps.changes, steps.complete) == (2, 2, 2, True)
    assert steps.failed == {"b": "torch_gpt"}


def test_what_a_change_is_stands_below_its_line() -> None:
    lines = shown(Steps(), result("conda", "a", "changed", "/opt/conda (1.2 GiB)"), Told("end"))
    assert [line.split() for line in lines] == [
        ["conda", "a", "1", "change", "0:00"],
        ["/opt/conda", "(1.2", "GiB)"],
    ]


def test_a_play_without_results_says_nothing() -> None:
    told = (Told("play", step="NPUs"), Told("play", step="Engines"), Told("end"))
    assert shown(Steps(), *told) == []


def test_what_goes_on_names_who_does_it_and_what_is_downloaded() -> None:
    steps = Steps()
    wheel = "torch-2.13.0-cp311.whl"
    shown(
        steps,
        *(Told("task", step="torch_gpt", host=f"n{n}", words="Download a wheel") for n in range(6)),
        *(Told("task", host=f"n{n}", words=wheel) for n in range(5)),
    )
    assert steps.now == f"torch_gpt  n0 and 4 more: {wheel}; n5: Download a wheel"


def test_a_failure_of_many_lines_is_cut_and_what_was_told_is_not_said_twice() -> None:
    why = "\n".join(f"line {n}" for n in range(12))
    lines = shown(
        Steps(),
        Told("text", words="line 0\nline 1"),
        result("verify", "a", "failed", why),
        Told("end"),
    )
    assert [line.strip() for line in lines[5:]] == [
        *(f"line {n}" for n in range(2, 10)), "and 2 more lines in Ansible's output",
    ]  # fmt: skip


def test_text_for_a_person_is_shown_as_it_is() -> None:
    assert shown(Steps(), Told("text", words="the nodes are alike\n")) == [
        "", "the nodes are alike", "",
    ]  # fmt: skip


def test_a_wrong_inventory_is_no_failed_node() -> None:
    """`setup` ends with exit code 2 then, and with 1 of a node."""
    for status, refused in (("refused", True), ("failed", False), ("unreachable", False)):
        steps = Steps()
        lines = shown(steps, result("validate", "a", status, "cluster_root is x"), Told("end"))
        assert (steps.refused, steps.failed) == (refused, {"a": "validate"})
        assert lines[0].split()[:3] == ["validate", "a", status]
        assert _code(PlaybookEnd(2, steps, 1.0)) == (2 if refused else 1)
