"""What nodes answer to doctor may be anything: what fits is judged, the rest is one sentence."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.facts.kinds import ENVIRONMENT
from node.facts.record import read
from node.schema import UnfitError
from runner.doctor.answer import Answer
from runner.doctor.differences import compare_nodes
from runner.doctor.judgement import Judgement, judge_probe
from runner.doctor.probe_output import PROBE_MARK, lines, of_node
from runner.doctor.probe_tests import TESTS
from runner.doctor.probing import torch_of
from runner.doctor.slow_figures import ProbeResult
from runner.doctor.table import measured_parts
from tests.budget import examples

HOSTS = ["n1", "n2", "n3"]
ESCAPE = "\x1b[2J\x1b]0;owned\x07"
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
ODD = st.sampled_from([[], {}, ["x"], {"a": "b"}, 10**400, -1, 1e300, ESCAPE, "9" * 5000, None])


def here() -> dict[str, Any]:
    """What this machine says of itself."""
    spec = {"root": "/nowhere", "time": {"offset_s": 0.0, "error_s": 0.0}}
    facts: dict[str, Any] = json.loads(json.dumps(read(spec), sort_keys=True))
    return facts


HERE = here()


def shown(answer: Answer) -> str:
    return json.dumps(answer.as_json(160))


def test_what_an_honest_node_says_is_kept_as_it_is() -> None:
    assert json.dumps(ENVIRONMENT.check(HERE, "n1")) == json.dumps(HERE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpu": {"devices": ["x"]}}, "gpu.devices[0] is 'x'; it must be a mapping"),
        ({"gpu": {"devices": {"0": 1}}}, "gpu.devices is a mapping; it must be a list"),
        ({"disk": {"free_mib": "much"}}, "disk.free_mib is 'much'; it must be a whole number"),
        ({"disk": {"free_mib": 10**400}}, "disk.free_mib is huge; it must be"),
        ({"time": {"offset_s": [1]}}, "time.offset_s is a list; it must be a number"),
        ({"cpu": []}, "cpu is a list; it must be a mapping"),
        ({"systems": {"a/b": {}}}, "systems['a/b'] has no torch"),
        ({"systems": {"a/b": {"torch": 2}}}, "systems['a/b'].torch is 2; it must be text"),
        ({"network": {"interfaces": {"eth0": {}}}}, "network.interfaces.eth0 has no carries"),
        ({"datasets": {"d": {"sha256": "x"}}}, "datasets.d.sha256 is 'x'; it must be a mapping"),
        ({"memory": {"total_mib": True}}, "memory.total_mib is true; it must be a whole number"),
        ({"cuda_toolkits": {"/usr": {}}}, "cuda_toolkits['/usr'] is a mapping; it must be text"),
    ],
)
def test_facts_of_another_shape_are_one_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UnfitError) as caught:
        ENVIRONMENT.check({**HERE, **change}, "n1:")
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


def test_facts_and_tools_words_bring_no_escape_sequence_to_the_screen() -> None:
    """GPU problem, names, versions: whatever a node says, doctor's text is plain."""
    odd = {
        **HERE,
        "gpu": {"driver": ESCAPE + "1", "problem": f"nvidia-smi: {ESCAPE}", "devices": []},
        "libraries": {f"libnccl.so{ESCAPE}": f"x{ESCAPE}"},
    }
    envs = {"n1": ENVIRONMENT.check(odd, "n1"), "n2": ENVIRONMENT.check(HERE, "n2")}
    answer = Answer("i", 0.0, ("n1", "n2"), envs=envs, comparison=compare_nodes(envs))
    text = answer.as_json(160)["text"]
    assert "GPU driver" in text
    assert all(line.isprintable() for line in text.splitlines())
    assert "\\u001b" not in shown(answer)


PLACES = [
    (section, name)
    for section, content in HERE.items()
    for name in (list(content) if isinstance(content, dict) else [""])
]


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(PLACES), st.one_of(ANYTHING, ODD))
def test_no_environment_that_fits_stops_the_comparison(place: tuple[str, str], odd: Any) -> None:
    section, name = place
    facts = {**HERE, section: {**HERE[section], name: odd} if name else odd}
    try:
        envs = {"n1": ENVIRONMENT.check(facts, "n1:"), "n2": HERE}
    except UnfitError as error:
        assert str(error).isprintable()  # noqa: PT017 - it may be none
        return
    answer = Answer("i", 0.0, ("n1", "n2"), envs=envs, comparison=compare_nodes(envs))
    assert shown(answer)
    torch_of(envs, "")


@pytest.mark.parametrize(
    "version", ["9" * 5_000, "\u00b2.1", "", "...", "2.13+cu", "\u0663.\u0664"]
)
def test_any_version_of_torch_can_be_ranked(version: str) -> None:
    """Digits that `int` refuses, or too many of them, ended doctor."""
    pins = {"a/b": {"torch": version or None}, "torch_gpt/c": {"torch": "2.1"}}
    assert torch_of({"n1": {"systems": pins}}, "") == ("torch_gpt/c", "")


# --- the probe's lines ----------------------------------------------------------------------------


def line(**facts: Any) -> bytes:
    return f"{PROBE_MARK}{json.dumps(facts)}\n".encode()


def judged(log: bytes) -> Judgement:
    checks = ["devices", "network"]
    found = judge_probe(lines(log), HOSTS, device="cpu", devices_per_node=2, checks=checks)
    assert json.dumps(found.as_json())
    measured_parts(found, 80)
    return found


def row(found: Judgement, test: str) -> ProbeResult:
    return next(each for each in found.rows if each.test == test)


@pytest.mark.parametrize(
    "log",
    [
        b"TRAINBENCH_DOCTOR " + b"[" * 100_000,
        b'TRAINBENCH_DOCTOR {"test": "memory", "node": 0, "samples": [1' + b"0" * 400 + b"]}",
        line(test="memory", node=0, samples=["x"]),
        line(test="memory", node=0, samples=[-1.0]),
        line(test="memory", node=0, samples=[0.0, 0.0, 3.0]),
        line(test="memory", node=7, samples=[1.0]),
        line(test="memory", node="0", samples=[1.0]),
        line(test="memory", samples=[1.0]),
        line(test="memory", node=0),
        line(test="memory", node=0, **{"try": [1]}, samples=[1.0]),
        line(test={"a": 1}, node=0, samples=[1.0]),
        line(test="all_reduce", scope="pair", nodes=[0, 9], samples=[1.0]),
        line(test="all_reduce", scope="pair", nodes=["a"], samples=[1.0]),
        line(test="all_reduce", scope="pair", nodes={}, samples=[1.0]),
        line(test="all_reduce", scope="pair", samples=[1.0]),
        line(error=["x"], node=0),
        line(step={"a": [ESCAPE]}),
        b"TRAINBENCH_DOCTOR []\nTRAINBENCH_DOCTOR 1\nTRAINBENCH_DOCTOR \xff\xfe",
    ],
)
def test_a_line_that_the_probe_does_not_print_is_no_figure(log: bytes) -> None:
    """A 400-digit number, a rank that there is not, samples whose median is zero ended doctor."""
    found = judged(log)
    assert not any(each.figures for each in found.rows)
    assert found.unanswered


def test_words_of_the_probe_are_plain_and_short() -> None:
    found = judged(line(test="memory", node=1, error=ESCAPE + "no" + "x" * 10_000))
    reason = row(found, "memory").reason
    assert reason.startswith("n2: nox")
    assert len(reason) < 600
    assert reason.isprintable()


def test_a_node_speaks_of_itself_alone() -> None:
    """Else one could call another slow."""
    log = line(test="memory", node=0, samples=[1.0]) + line(
        test="all_reduce", scope="pair", nodes=[0, 2], samples=[1.0]
    )
    assert len(of_node(lines(log), 0)) == 2
    assert len(of_node(lines(log), 2)) == 1
    assert of_node(lines(log), 1) == []
    assert len(of_node(lines(line(step="x")), 1)) == 1


FIELDS = {
    "test": st.sampled_from([*TESTS, "all_reduce", "x"]) | ANYTHING,
    "scope": st.sampled_from(["node", "all", "pair"]) | ANYTHING,
    "node": st.integers(-1, 4) | ANYTHING,
    "nodes": st.lists(st.integers(-1, 4), max_size=3) | ANYTHING,
    "local": st.integers(0, 2) | ANYTHING,
    "try": st.integers(0, 3) | ANYTHING,
    "samples": st.lists(st.floats(0, 10), max_size=4) | ANYTHING | ODD,
}
LINES = st.lists(st.fixed_dictionaries({}, optional=FIELDS), max_size=12)


@settings(max_examples=examples(150), deadline=None)
@given(LINES)
def test_no_line_stops_the_judgement(objects: list[dict[str, Any]]) -> None:
    began = time.process_time()
    judged(b"".join(line(**each) for each in objects))
    assert time.process_time() - began < 5
