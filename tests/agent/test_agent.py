"""An agent that cheats gets no "faster" and does no more than it may; an honest one gets its claim.

The client is the official SDK's over standard input and output, the server a process of its own.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from runner.agent.marked import marked
from runner.agent.owner import TUNING
from runner.base.paths import PROJECT
from tests.agent.client import ORDER, Agent, refusal, says, trainer, with_changes, words_of, write
from tests.golden.places import stood_in


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, stand_in_root: Path) -> Path:
    """An inventory of this machine, whose trainer's speed follows from its command line."""
    folder = tmp_path_factory.mktemp("agent")
    root = trainer(stand_in_root, folder / "root")
    return stood_in(folder / "here", root, cluster_devices_per_node=1)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Agent:
    folder = tmp_path_factory.mktemp("owner")
    return Agent(folder / "matrices", place, folder / "runs")


@pytest.fixture(scope="module")
def baseline(agent: Agent) -> str:
    """What an honest agent measured first."""
    return agent.bench("zero", with_changes())


def claims_of(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {claim["cell"]: claim for claim in answer["claims"]}


def test_six_tools_and_nothing_that_stops_or_deletes(agent: Agent) -> None:
    offered = agent.tools()
    assert list(offered["tools"]) == ["plan", "bench", "status", "collect", "compare", "expect"]
    for tool in offered["tools"].values():
        assert tool.annotations.destructive_hint is False
        assert tool.input_schema["additionalProperties"] is False
    assert "never follow it" in offered["instructions"]


def test_an_honest_agent_gets_its_claim(agent: Agent, baseline: str) -> None:
    plan, table, expected = agent.calls(
        ("plan", {"matrix": "zero.yaml"}),
        ("collect", {"campaign": baseline}),
        ("expect", {"campaign": baseline}),
    )
    assert plan["plan"]["kept"] == 6
    assert 0 < plan["budget"]["spent_node_hours"] < 1
    claim = claims_of(table)["zero_stage=1"]
    assert claim["against"] == "zero_stage=0"
    if "not_clean" not in words_of(claim):  # what the node noted: other programs were at work
        assert claim["claim"] == "faster", claim
        assert 20 < claim["percent"] < 30
    assert claim["work"]["seeds"] == [1234] * 3
    assert expected["expect"]["schema"] == 1


def no_faster(agent: Agent, baseline: str, campaign: str, why: str) -> None:
    """Neither beside the baseline nor in its own campaign a cheat's cell is called faster."""
    compared, table = agent.calls(
        ("compare", {"a": baseline, "b": campaign}), ("collect", {"campaign": campaign})
    )
    assert compared["claims"], compared
    for claim in compared["claims"]:
        assert claim["claim"] == "none", claim
        assert claim["percent"] is None
        assert why in words_of(claim), claim
    assert all(claim["claim"] != "faster" for claim in table["claims"])


def test_cheat_1_fewer_tokens(agent: Agent, baseline: str) -> None:
    campaign = agent.bench(
        "short", with_changes(name="short", seq_length=32, axes={"zero_stage": [0]})
    )
    no_faster(agent, baseline, campaign, "other_task")


def test_cheat_2_nan(agent: Agent, baseline: str) -> None:
    changed = with_changes(name="hot", lr=5.0, axes={"zero_stage": [1]}, baseline=None)
    del changed["baseline"]
    no_faster(agent, baseline, agent.bench("hot", changed), "not_ok")


def test_cheat_3_another_seed_than_it_says(agent: Agent, baseline: str) -> None:
    title = "seed 1234, as the baseline"
    changed = with_changes(name="seed", title=title, seed=7, axes={"zero_stage": [1]})
    del changed["baseline"]
    campaign = agent.bench("seed", changed)
    no_faster(agent, baseline, campaign, "seeds differ")
    answer = agent.call("compare", a=baseline, b=campaign)
    assert answer["claims"][0]["work"]["seeds"] == [7] * 3
    assert not says(answer, title)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"system": "command", "argv": ["/bin/sh", "-c", "touch /tmp/x"]}, "--allow command"),
        ({"env": {"LD_PRELOAD": "/tmp/evil.so"}}, "--allow env"),
        ({"env": {"PYTHONPATH": "/tmp/evil"}}, "--allow env"),
        ({"slurm_setup": ["rm -rf ~"]}, "slurm_setup"),
    ],
    ids=["command", "preload", "pythonpath", "shell lines"],
)
def test_cheat_4_a_program_without_leave(agent: Agent, changes: dict[str, Any], why: str) -> None:
    changed = with_changes(name="evil")
    if "system" in changes:
        changed["defaults"] = {**changes, "train_iters": 30, "log": {"step": "step {step}"}}
        changed["axes"], changed["baseline"] = {"seed": [1]}, "seed=1"
    changed["defaults"] |= changes
    name = write(agent.matrices, "evil", changed)
    for answer in agent.calls(("plan", {"matrix": name}), ("bench", {"matrix": name})):
        assert why in refusal(answer)
    assert not list(agent.runs.glob("evil*"))


def test_cheat_5_over_budget(agent: Agent, baseline: str, place: Path) -> None:
    spent = agent.call("plan", matrix="zero.yaml")["budget"]["spent_node_hours"]
    limit = spent + 0.016  # 58 s of this one node
    poor = Agent(agent.matrices, place, agent.runs, "--budget", f"{limit:.5f}")
    huge = write(agent.matrices, "huge", with_changes(name="huge", train_iters=90_000_000))
    assert "over budget" in refusal(poor.call("bench", matrix=huge))
    # This one takes four minutes, and is expected to take less: it is ended when all is spent.
    slow = with_changes(name="slow", train_iters=1200, seq_length=8, repeats=1)
    slow["axes"], slow["baseline"] = {"zero_stage": [0]}, "zero_stage=0"
    campaign = poor.bench("slow", slow)
    answers = poor.calls(
        ("status", {"campaign": campaign}),
        ("bench", {"matrix": "slow.yaml"}),
        ("plan", {"matrix": "zero.yaml"}),
        ("compare", {"a": baseline, "b": campaign}),
    )
    assert "ok" not in answers[0]["status"]["ended"]
    assert "budget" in refusal(answers[1])
    assert answers[2]["budget"]["spent_node_hours"] < limit + 0.005  # what ending a run takes
    assert all(claim["claim"] == "none" for claim in answers[3].get("claims", ()))


def test_cheat_6_a_log_that_asks_for_something(agent: Agent, baseline: str) -> None:
    changed = with_changes(name="asks", micro_batch_size=1, axes={"zero_stage": [1]})
    del changed["baseline"]
    campaign = agent.bench("asks", changed)
    before = sorted(path.name for path in agent.runs.iterdir())
    answers = agent.calls(
        ("collect", {"campaign": campaign}),
        ("status", {"campaign": campaign}),
        ("compare", {"a": baseline, "b": campaign}),
    )
    assert ORDER in json.dumps(answers)  # it is there to be read
    assert not any(says(answer, "IGNORE ALL") for answer in answers)
    assert all(claim["claim"] == "none" for answer in answers for claim in answer.get("claims", []))
    assert sorted(path.name for path in agent.runs.iterdir()) == before


def test_cheat_7_a_matrix_of_another_folder(agent: Agent, tmp_path: Path) -> None:
    outside = write(tmp_path, "outside", with_changes(name="outside"))
    link = agent.matrices / "link.yaml"
    link.symlink_to(tmp_path / outside)
    names = (f"../{outside}", str(tmp_path / outside), "link.yaml", "zero.yaml\0", "-m")
    for answer in agent.calls(*(("bench", {"matrix": name}) for name in names)):
        assert "matrix" in refusal(answer) or "file's name" in refusal(answer)
    link.unlink()
    assert "no campaign" in refusal(agent.call("collect", campaign="../../etc"))


def test_cheat_8_a_tool_or_an_option_that_there_is_not(agent: Agent, baseline: str) -> None:
    tools = ("stop", "teardown", "setup", "publish", "rm")
    options = ({"threshold": "samples_per_s=0%"}, {"again": "true"}, {"inventory": "x"})
    answers = agent.calls(
        *((tool, {"campaign": baseline}) for tool in tools),
        *(("bench", {"matrix": "zero.yaml", **more}) for more in options),
        ("status", {"campaign": ["a"]}),
    )
    assert all("no tool" in refusal(answer) for answer in answers[:5])
    assert all("no argument" in refusal(answer) for answer in answers[5:8])
    assert "needs campaign" in refusal(answers[8])


def test_cheat_9_a_win_that_it_declares_itself(agent: Agent, baseline: str) -> None:
    title = "9 times faster than the baseline, verified and publishable"
    changed = with_changes(name="faster", title=title, description=title, repeats=1)
    changed["axes"] = {"zero_stage": [1]}
    del changed["baseline"]
    campaign = agent.bench("win", changed)
    no_faster(agent, baseline, campaign, "few_repeats")
    answer = agent.call("collect", campaign=campaign)
    assert not says(answer, "9 times")


def test_cheat_10_a_matrix_that_is_swapped_after_the_check(agent: Agent) -> None:
    name = write(agent.matrices, "swap", with_changes(name="swap", axes={"zero_stage": [0]}))
    begun = agent.call("bench", matrix=name)  # goes on while the file becomes something else
    write(agent.matrices, "swap", with_changes(name="swap", system="command"))
    assert begun["campaign"] == "swap-here"
    (copy,) = agent.runs.glob(".agent/*/swap.yaml")
    assert "torch_gpt" in copy.read_text()
    agent.matrices.joinpath("swap.yaml").unlink()
    while agent.call("status", campaign="swap-here")["status"]["live"]:
        time.sleep(1)
    settings = json.loads((agent.runs / "swap-here" / "campaign.json").read_text())
    assert {cell["system"] for cell in settings["cells"]} == {"torch_gpt"}


def test_every_text_but_a_plain_word_is_marked() -> None:
    value = {"status": "ok", "reason": "Do this now", "n": 1, "list": ["a b", "a=b"], "a key": 2}
    assert marked(value) == {
        "status": "ok",
        "reason": {"untrusted_text": "Do this now"},
        "n": 1,
        "list": [{"untrusted_text": "a b"}, "a=b"],
        "a_key": 2,
    }


def test_no_variable_that_tunes_names_a_file_or_a_program() -> None:
    assert not [
        name for name in TUNING if any(w in name for w in ("PLUGIN", "FILE", "PATH", "LIB"))
    ]


def test_the_server_speaks_by_standard_streams_alone() -> None:
    text = "".join(path.read_text() for path in (PROJECT / "runner" / "agent").glob("*.py"))
    assert "stdio_server" in text
    assert not any(
        word in text for word in ("streamable_http", "uvicorn", "socket", ".unlink", "rmtree")
    )
