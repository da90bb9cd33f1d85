"""What accept answers: pass or fail of nodes and cluster; resumption; losses; sizes; times."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.causes import Cause
from runner.__main__ import main
from runner.accept import stages
from runner.accept.acceptance import Acceptance, AcceptState, NodeFault, StageReport, current
from runner.accept.answer import answered, junit
from runner.accept.learned import GroupTraining, judge_losses, judge_round, judge_soak
from runner.accept.provider_page import page
from runner.accept.scope import STAGES, AcceptOptions, arguments, group_sizes, rounds_of_pairs
from runner.accept.session import EarlyEnd, Session, without_result
from runner.accept.training import chunks, matrix_of
from runner.base.errors import UserError
from runner.doctor.answer import Answer
from runner.doctor.differences import compare_nodes
from runner.doctor.judgement import Judgement
from runner.doctor.slow_figures import Figure, ProbeResult
from runner.study.showing import to_text
from runner.study.study import Answer as Answered
from runner.terms.cluster import Cluster
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.slurm import Slurm
from tests.documented_schemas import fits
from tests.runner.builders import small_cluster

HOSTS = ("n1", "n2", "n3", "n4")


def answer(*faults: NodeFault, engine: EngineSettings | None = None) -> Answered:
    reports = tuple(
        StageReport(stage, 0.0, 1.0, tuple(one for one in faults if one.stage == stage))
        for stage in STAGES
    )
    state = AcceptState(0.0, {"stages": list(STAGES)}, stages=reports)
    return answered("rack", HOSTS, state, engine=engine)


def summed_up(found: Answered) -> tuple[int, list[str], list[str]]:
    return found.exit_code, found.detail["healthy"], list(found.detail["failing"])


FAULT = NodeFault("links", "pair", ("n3",), "slow <b>", "look at its cable")


def test_a_cluster_without_a_fault_passes() -> None:
    good = answer()
    assert (good.exit_code, good.detail["healthy"], good.detail["leave_out"]) == (0, [*HOSTS], {})


def test_a_faulty_node_is_named_with_its_cure_and_left_out() -> None:
    found = answer(FAULT)
    assert summed_up(found) == (1, ["n1", "n2", "n4"], ["n3"])
    assert found.detail["leave_out"] == {"--limit": "all:!n3"}
    assert answer(FAULT, engine=JOB.engine).detail["leave_out"] == {"slurm_exclude": "n3"}
    text = to_text(found, "table")
    assert "  fault: n3: slow <b>\n  cure: look at its cable" in text
    assert "rack: fail: 3 of 4 nodes pass" in text
    assert '<failure message="slow &lt;b&gt;">' in junit(found, HOSTS)
    assert junit(found, HOSTS).count("<testcase") == len(STAGES) * 5


def test_what_could_not_be_tested_is_no_pass() -> None:
    state = AcceptState(0.0, {"stages": ["alike", "links"]})
    unproved = answered("rack", HOSTS, state)
    assert unproved.exit_code == 2
    assert "stage links has not ended" in unproved.detail["untested"]


BUSY = "n2: GPU 0 is in use by pid 4924 (python3) of root, 14 s old; end it, or wait for it"


def test_a_node_that_ends_a_run_for_all_is_at_fault() -> None:
    report = EarlyEnd(("n2",), "out of contact", Cause.NODE_LOST).report("links")
    (fault,) = report.faults
    assert fault.words == "n2 ended stage links for all: out of contact"
    assert (report.lost, report.unanswered) == (("n2",), ())
    (unnamed,) = EarlyEnd((), "it hangs").report("links").faults
    assert unnamed.nodes == ()
    assert EarlyEnd().report("links") == StageReport("links")


class Probing(Session):
    """A session whose measurements are given."""

    def __init__(self, folder: Path, cluster: Cluster, *judgements: Judgement) -> None:
        answer = Answer("rack", 0.0, HOSTS, envs={host: {} for host in HOSTS})
        rest: Any = (Acceptance(folder), cluster, None, None, None, answer)
        super().__init__(*rest, options=AcceptOptions(), state=AcceptState(0.0))
        self.given = list(judgements)

    def measured(self, checks: Sequence[str], title: str, without: Sequence[str]) -> Judgement:
        """Return the next one."""
        return self.given.pop(0)

    def probed(self) -> Answered:
        """Return the answer of an acceptance of stage devices alone."""
        state = AcceptState(0.0, {"stages": ["devices"]}).with_stage(self.probe([], "devices"))
        return answered("rack", HOSTS, state)


IN_USE = Judgement(
    (ProbeResult("matmul_fp32", (), reason=BUSY),),
    failed=BUSY,
    held_up=("n2",),
    cause=Cause.DEVICE_BUSY,
)
CLUSTER = small_cluster(4, 1)
JOB = replace(CLUSTER, engine=Slurm(nodes=4))


def test_a_node_whose_devices_others_use_is_neither_healthy_nor_faulty(tmp_path: Path) -> None:
    busy = Probing(tmp_path, CLUSTER, IN_USE, Judgement()).probed()
    assert summed_up(busy) == (2, ["n1", "n3", "n4"], [])
    assert busy.detail["untested"] == [f"stage devices: {BUSY}"]
    (cases,) = ElementTree.fromstring(junit(busy, HOSTS)).iter("testsuite")
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
    assert skipped == ["n2", "cluster"]


def test_many_nodes_that_others_use_do_not_end_a_stage(tmp_path: Path) -> None:
    every = [replace(IN_USE, failed=f"{host}: in use", held_up=(host,)) for host in HOSTS]
    busy = Probing(tmp_path, CLUSTER, *every).probed()
    assert summed_up(busy) == (2, [], [])


def test_nodes_of_a_job_that_one_node_ended_are_not_healthy(tmp_path: Path) -> None:
    busy = Probing(tmp_path, JOB, IN_USE).probed()
    assert summed_up(busy) == (2, [], [])
    assert busy.detail["untested"] == [f"stage devices: {BUSY}", "stage devices was not finished"]


def test_a_stage_gives_up_after_losing_many_nodes(tmp_path: Path) -> None:
    every = [replace(IN_USE, failed="x", held_up=(host,), cause=Cause.NODE_LOST) for host in HOSTS]
    lost = Probing(tmp_path, CLUSTER, *every).probed()
    assert summed_up(lost) == (1, [], [*HOSTS])


def row_of(test: str, *groups: tuple[str, ...], reason: str = "") -> ProbeResult:
    figures = tuple(Figure(nodes, None, ((10.0, 10.0),)) for nodes in groups)
    return ProbeResult(test, figures, 10.0, reason=reason)


ALL = row_of("all", (*HOSTS,))
ON_THREE = row_of("nccl_tests", ("n2",), ("n3",), ("n4",))
NO_SWITCHES = "comparison by switch, {}: it needs two known switches with as many nodes each"
NO_NCCL_TESTS = "nccl-tests, {}: no all_reduce_perf was found (docs/how-to/accept.md)"


@pytest.mark.parametrize(
    ("device", "rows", "left_out", "untested"),
    [
        ("cpu", [ALL], (), [NO_SWITCHES.format("all nodes")]),
        ("cpu", [ALL, row_of("switch", ("n1", "n2"), ("n3", "n4"))], (), []),
        ("cpu", [ALL, row_of("switch", ("n1",), ("n3",))], (), [NO_SWITCHES.format("n2, n4")]),
        ("cpu", [ALL], ("switch",), []),
        ("cpu", [], (), []),  # nothing was measured, and another line says why
        ("cuda", [ALL], (), [one.format("all nodes") for one in (NO_SWITCHES, NO_NCCL_TESTS)]),
        ("cuda", [ALL, ON_THREE], ("switch",), [NO_NCCL_TESTS.format("n1")]),
        ("cuda", [ALL, row_of("nccl_tests", ("n2",), reason="n1: no libnccl")], ("switch",), []),
        ("cuda", [ALL], ("switch", "nccl_tests"), []),
    ],
)
def test_links_say_what_no_node_could_measure(
    tmp_path: Path,
    device: str,
    rows: list[ProbeResult],
    left_out: tuple[str, ...],
    untested: list[str],
) -> None:
    cluster = replace(small_cluster(4, 2), device=device)
    session = Probing(tmp_path, cluster, Judgement(tuple(rows)))
    session.options = replace(session.options, left_out=left_out)
    assert [*stages.links(session).untested] == untested


def test_tests_without_a_result_share_a_line_for_each_reason() -> None:
    rows = [ProbeResult("to_device", (), reason=reason) for reason in ("no torch", BUSY)]
    rows.append(ProbeResult("from_device", (), reason="no torch"))
    assert without_result(rows, [BUSY]) == [
        "copy from host to device, copy from device to host: no torch"
    ]


@pytest.mark.parametrize("device", ["cpu", "cuda", "npu"])
def test_each_kind_of_device_has_a_matrix_that_trains(device: str) -> None:
    cluster = replace(small_cluster(2, 2), device=device)
    (cell,) = matrix_of(AcceptOptions(), cluster).cells
    assert cell.parameters["global_batch_size"] == 2 * cell.parameters["micro_batch_size"]


def test_an_acceptance_goes_on_unless_it_ended_or_another_is_asked_for(tmp_path: Path) -> None:
    first = current(tmp_path, {"quick": True})
    assert first.path == tmp_path / "1"
    first.save(AcceptState(1.0, {"quick": True}).with_stage(StageReport("alike", 1.0, 2.0)))
    again = current(tmp_path, {"quick": True})
    assert again.path == first.path
    assert again.state is not None
    assert again.state.report("alike") is not None
    assert again.state.report("links") is None
    assert current(tmp_path, {"quick": False}).path == tmp_path / "2"
    assert current(tmp_path, {"quick": True}, new=True).path == tmp_path / "2"
    first.save(AcceptState(1.0, {"quick": True}, ended_at=2.0))
    assert current(tmp_path, {"quick": True}).path == tmp_path / "2"
    assert Acceptance(tmp_path / "1").state is not None


def test_a_damaged_state_names_the_cure(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1/state.json").write_text('{"began_at": 1e999}')
    with pytest.raises(UserError, match=r"1: state\.json.* --new"):
        current(tmp_path, {})
    assert current(tmp_path, {}, new=True).path == tmp_path / "2"


def group(
    *hosts: str, rate: float = 100.0, losses: tuple[float, ...] = (8.0, 7.5)
) -> GroupTraining:
    return GroupTraining(hosts, (rate, rate * 1.01, rate * 0.99), losses)


def test_a_node_that_learns_something_else_is_named() -> None:
    others = [group(host) for host in HOSTS[:3]]
    (fault,) = judge_losses([*others, group("n4", losses=(8.0, 7.9))])
    assert fault.nodes == ("n4",)
    assert fault.words == "n4: loss 7.9 at step 2, the others 7.5"
    assert judge_losses(others) == []
    (nan,) = judge_losses([*others, group("n4", losses=(8.0, float("nan")))])
    assert nan.nodes == ("n4",)


def test_of_two_nodes_it_cannot_be_said_which_learns_wrongly() -> None:
    (fault,) = judge_losses([group("n1"), group("n2", losses=(8.0, 7.9))])
    assert fault.nodes == ()
    assert "it cannot be said which is right" in fault.words


def test_a_slow_node_of_those_that_train_alone_is_named() -> None:
    row, slow = judge_round([[*(group(h) for h in HOSTS[:3]), group("n4", rate=60.0)]], "cpu")
    assert [one.nodes for one in slow] == [("n4",)]
    assert (row["nodes"], row["reference"]) == (1, 100.0)


def test_a_node_that_is_slow_in_one_try_of_two_is_not_slow() -> None:
    disturbed = [*(group(h) for h in HOSTS[:3]), group("n4", rate=60.0)]
    assert judge_round([disturbed, [group(h) for h in HOSTS]], "cpu")[1] == []


def test_training_that_slows_down_is_told() -> None:
    rates = tuple(100.0 - number / 2 for number in range(100))
    assert judge_soak(GroupTraining(HOSTS, rates, ()), "cpu")
    assert not judge_soak(GroupTraining(HOSTS, (100.0, 101.0) * 50, ()), "cpu")


def test_groups_double_up_to_all_and_rounds_grow_with_the_logarithm() -> None:
    assert group_sizes(4) == [1, 2, 4]
    assert group_sizes(1) == [1]
    assert AcceptOptions(quick=True).group_sizes(64) == [1, 64]
    assert AcceptOptions(quick=True).group_sizes(1) == [1]
    assert AcceptOptions(left_out=("train_groups",)).group_sizes(4) == [1]
    assert AcceptOptions(left_out=("train_alone",)).group_sizes(4) == [2, 4]
    nodes = small_cluster(5, 1).nodes
    assert [[node.host for node in one] for one in chunks(nodes, 2)] == [["n1", "n2"], ["n3", "n4"]]
    assert [rounds_of_pairs(count) for count in (4, 64, 1024)] == [0, 7, 11]


def test_a_large_cluster_takes_little_longer() -> None:
    four, many = (sum(AcceptOptions().expected_s(count).values()) for count in (4, 1024))
    assert four < 600
    assert many < 4 * four


def test_the_page_holds_no_name_and_is_escaped() -> None:
    hosts = ("gpu-a17", "gpu-a18")
    fault = NodeFault("links", "pair", ("gpu-a18",), "gpu-a18: slow <b>", "ask 10.1.2.3")
    state = AcceptState(
        0.0, {"stages": list(STAGES)}, stages=(StageReport("links", 0, 1, (fault,)),)
    )
    text = page(answered("rack", hosts, state), Answer("rack", 0.0, hosts))
    assert "gpu-a" not in text
    assert "10.1.2.3" not in text
    assert "node2: slow &lt;b&gt;" in text


def test_swapped_names_are_told() -> None:
    envs = {"n1": {"hostname": "n2"}, "n2": {"hostname": "n1"}, "n3": {"hostname": "other"}}
    found = [one for one in compare_nodes(envs).findings if one.item == "host name"]
    assert [(one.nodes, one.value) for one in found] == [(("n1",), "n2"), (("n2",), "n1")]


def test_the_plan_asks_no_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accept", "--plan", "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "1024 nodes" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["--soak", "soon"],
        ["--leave-out", "memroy"],
        ["--marks", "no-such.yaml"],
        ["--node", "n9"],
        ["--matrix", "no-such.yaml"],
        ["--stage", "training", "--node", "localhost"],  # nothing would be tested
        ["--stage", "alike", "--soak", "1h"],
        ["--leave-out", "train_alone", "--leave-out", "train_groups"],
    ],
)
def test_a_mistake_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["accept", "--plan", *words])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    said = capsys.readouterr().err
    assert words[1] in said or words[-2] in said


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--quick", "--leave-out", "memory", "--leave-out", "node"],
        ["--soak", "2592000s"],
        ["--stage", "alike", "--stage", "training", "--soak", "1800s"],
        ["--quick", "--node", "localhost"],
        ["--node", "localhost", "--stage", "storage"],
    ],
)
def test_the_page_says_how_accept_was_called(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[AcceptOptions] = []

    def plan(options: AcceptOptions, nodes: int, device: str) -> Answered:
        planned.append(options)
        return Answered("accept", "plan", 0, "")

    monkeypatch.setattr("runner.accept.answer.planned", plan)
    assert main(["accept", "--plan", *words]) == 0
    again = arguments(planned[0].to_json())
    assert main(["accept", "--plan", *again]) == 0
    assert planned[0] == planned[1]
    assert sorted(again) == sorted(words)


def test_the_page_names_a_matrix_without_its_folder() -> None:
    options = AcceptOptions(matrix="/home/someone/my matrix.yaml").to_json()
    found = answered("rack", HOSTS, AcceptState(0.0, options))
    text = page(found, Answer("rack", 0.0, HOSTS))
    assert "accept -i INVENTORY --matrix &#39;my matrix.yaml&#39;<" in text
    assert "someone" not in text


def test_json_is_one_object() -> None:
    document = json.loads(to_text(answer(FAULT), "json"))
    fits(document, "accept")
    assert (document["verdict"], document["detail"]["healthy"]) == ("fail", ["n1", "n2", "n4"])


def test_a_fault_of_the_soak_is_one_of_stage_training_for_ci() -> None:
    fault = NodeFault("soak", "train_groups", (), "training slowed down", "look at the fans")
    reports = (StageReport("training", 0.0, 1.0, (fault,)),)
    found = answered("rack", HOSTS, AcceptState(0.0, stages=reports))
    assert '<testcase classname="training" name="cluster"><failure' in junit(found, HOSTS)
