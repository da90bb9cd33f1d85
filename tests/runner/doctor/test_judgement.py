"""The probe's figures judged: slow devices, nodes and pairs; noise; what gave no result."""

import itertools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import PurePosixPath
from typing import Any

import pytest

from node import probe
from runner.base.grid import plain_text
from runner.doctor import probe_output, probing
from runner.doctor.judgement import Judgement, judge_probe, with_tries
from runner.doctor.probe_output import PROBE_MARK, lines
from runner.doctor.probe_tests import COLLECTIVES, DEVICE_TESTS, needed_checks
from runner.doctor.table import measured_parts
from runner.folder.attempt import Attempt
from tests.runner.builders import slurm_cluster, small_cluster

Line = dict[str, Any]


def around(value: float, noise: float = 0.005, seed: int = 0) -> list[float]:
    """Eight samples."""
    return [value * (1 + noise * random.Random(seed * 8 + n).uniform(-1, 1)) for n in range(8)]


def devices(
    values: dict[tuple[int, int], float], test: str = "matmul_bf16", **more: Any
) -> list[Line]:
    return [
        {"test": test, "node": node, "local": local, "rank": 0, "try": 1}
        | {"samples": around(value, more.get("noise", 0.005), seed)}
        for seed, ((node, local), value) in enumerate(values.items())
    ]


def pairs(values: dict[tuple[int, int], float], number: int = 1, noise: float = 0.01) -> list[Line]:
    return [
        {"test": "all_reduce", "scope": "pair", "nodes": list(pair), "try": number}
        | {"samples": around(value, noise, seed)}
        for seed, (pair, value) in enumerate(values.items())
    ]


def judged(said: list[Line], nodes: int = 4, each: int = 8, **more: Any) -> Judgement:
    hosts = [f"node{number}" for number in range(1, nodes + 1)]
    settings: dict[str, Any] = {"device": "cuda", "devices_per_node": each, "checks": ["devices"]}
    return judge_probe(said, hosts, **{**settings, **more})


def words(found: Judgement) -> list[str]:
    return [one.words for one in found.slow]


def healthy(nodes: int = 4, each: int = 8, spread: float = 0.02) -> dict[tuple[int, int], float]:
    rng = random.Random(7)
    places = itertools.product(range(nodes), range(each))
    return {place: 780 * (1 - spread * rng.random()) for place in places}


# --- devices --------------------------------------------------------------------------------------


def test_devices_within_5_percent_are_alike() -> None:
    assert words(judged(devices(healthy(spread=0.045)))) == []


def test_noise_in_which_nothing_slow_could_be_seen_is_no_result() -> None:
    """Of figures with 88 % of noise nobody can say "nothing slow": an answer is missing."""
    found = judged(devices(healthy(), noise=0.9))
    assert found.slow == ()
    assert found.unanswered  # exit code 2
    text = plain_text(measured_parts(found, 100), 100)
    assert "too noisy to tell" in text
    assert "stop what else runs on the nodes" in text
    assert "nothing slow" not in text
    assert "nothing can be told from it" in text
    calm = next(r for r in judged(devices(healthy(), noise=0.05)).rows if r.test == "matmul_bf16")
    assert calm.reason == ""


def test_a_node_is_named_instead_of_its_eight_devices() -> None:
    values = {place: value * (0.8 if place[0] == 1 else 1) for place, value in healthy().items()}
    found = judged(devices(values))
    assert [one.nodes for one in found.slow] == [("node2",)]
    assert "8 of its 8 devices" in found.slow[0].words


def test_a_device_that_is_fast_at_the_second_try_is_not_slow() -> None:
    values = healthy(1)
    once = devices({**values, (0, 4): 500})
    again = [{**line, "try": 2} for line in devices(values)]
    assert words(judged(once + again, nodes=1)) == []
    assert len(words(judged(once + [{**line, "try": 2} for line in once], nodes=1))) == 1


# --- the network ----------------------------------------------------------------------------------


def every_pair(nodes: int, value: float = 12.0) -> dict[tuple[int, int], float]:
    return dict.fromkeys(itertools.combinations(range(nodes), 2), value)


@pytest.mark.parametrize("nodes", [3, 4, 5, 8])
def test_a_slow_node_is_named_by_all_its_pairs(nodes: int) -> None:
    values = {pair: 1.2 if 2 in pair else value for pair, value in every_pair(nodes).items()}
    alone = {pair: value for pair, value in values.items() if pair in ((0, 2), (1, 2), (0, 1))}
    said = pairs(values) + pairs(alone, 2)
    found = judged(said, nodes=nodes, checks=["network"])
    assert [one.nodes for one in found.slow] == [("node3",)]
    assert f"90% below 12, {nodes - 1} of its {nodes - 1} pairs" in found.slow[0].words


def test_one_slow_pair_is_named_with_both_nodes() -> None:
    values = {**every_pair(5), (1, 3): 6.0}
    said = pairs(values) + pairs({(1, 3): 6.1, (0, 1): 12.0}, 2)
    found = judged(said, nodes=5, checks=["network"])
    assert [one.nodes for one in found.slow] == [("node2", "node4")]
    assert found.slow[0].words.startswith("node2 with node4: all-reduce of pairs of nodes ")
    assert found.slow[0].words.endswith("50% below 12")


def test_a_pair_that_is_slow_only_while_others_talk_is_a_note() -> None:
    values = {**every_pair(4), (1, 3): 6.0}
    said = pairs(values) + pairs({(1, 3): 12.1, (0, 1): 12.0}, 2)
    found = judged(said, nodes=4, checks=["network"])
    assert found.slow == ()
    assert "node2 with node4" in found.notes[0]
    assert "they share a switch or a link" in found.notes[0]


def test_two_nodes_have_nothing_to_compare_their_pair_with() -> None:
    said = [{"test": "all_reduce", "scope": "all", "nodes": [0, 1], "try": 1, "samples": [1.0]}]
    found = judged(said, nodes=2, each=1, checks=["network"])
    assert [row.test for row in found.rows] == ["all"]
    assert found.slow == ()
    assert "two nodes are one pair" in found.notes[0]


# --- no result ------------------------------------------------------------------------------------


def shown(found: Judgement) -> str:
    return plain_text(measured_parts(found, 80), 80)


def test_why_nothing_was_measured_is_said_once_and_whole() -> None:
    why = "localhost: node_busy: campaign quickstart-local, cell a, runs there since 12:00; wait"
    said = shown(judged([], nodes=1, failed=why))
    assert " ".join(said.split()).count(why) == 1
    assert f"no result: {why}" in " ".join(said.split())
    assert "nothing could be measured with" in said
    assert "slow" not in said
    assert said.count("no result") == 1 + len(DEVICE_TESTS["cuda"])
    some = " ".join(shown(judged(devices(healthy()), failed=why)).split())
    assert "no result of matrix product fp32, matrix product tf32, matrix product fp16" in some
    assert f"memory bandwidth: {why}" in some
    assert "nothing slow in what was measured" in some


def test_lines_are_found_in_a_log_with_others_and_a_torn_end() -> None:
    mark = PROBE_MARK
    log = f'Warning\n{mark}{{"step": "a"}}\nx {mark}{{"step": "b"}}\n{mark}{{"st'
    assert lines(log.encode()) == [{"step": "a"}, {"step": "b"}]
    assert probe_output.step(lines(log.encode())) == "b"


def test_the_answer_is_data_and_a_table() -> None:
    found = judged(devices(healthy(1)), nodes=1, failed="it ended")
    content = json.loads(json.dumps(found.as_json()))
    assert [test["unit"] for test in content["tests"]] == [*["TFLOP/s"] * 4, "GB/s"]
    figure = content["tests"][2]["figures"][0]
    assert (figure["nodes"], figure["device"], figure["slow"]) == (["node1"], 0, False)


# --- the probe's own pure part --------------------------------------------------------------------


@pytest.mark.parametrize("nodes", range(2, 18))
def test_a_tournament_has_every_pair_once_and_nobody_twice_a_round(nodes: int) -> None:
    found = probe.rounds(nodes)
    assert len(found) == (nodes - 1 if nodes % 2 == 0 else nodes)
    played = [pair for pairs in found for pair in pairs]
    assert sorted(played) == list(itertools.combinations(range(nodes), 2))
    for one in found:
        members = [node for pair in one for node in pair]
        assert len(members) == len(set(members))


def test_bus_bandwidth_does_not_depend_on_how_many_take_part() -> None:
    """A ring of n processes with links of B bytes/s needs 2 (n - 1) / n x size / B seconds."""
    for n in (2, 8, 64):
        taken = 2 * (n - 1) / n * 1e9 / 25e9
        assert probe.bus_bandwidth(10**9, taken, n) == pytest.approx(25.0)


def test_suspects_are_the_slowest_with_as_many_to_compare() -> None:
    values = {"a": 10.0, "b": 9.9, "c": 5.0, "d": 6.0, "e": 10.1}
    slow, rest = probe.suspects(values, 1)
    assert (slow, len(rest)) == (["c"], 1)
    assert rest[0] in "abe"
    assert probe.suspects({"a": 1.0}, 3) == ([], [])
    assert probe.suspects({"a": 1.0, "b": 0.98}, 3) == ([], [])


# --- the plan -------------------------------------------------------------------------------------


def env(**torch: str | None) -> dict[str, Any]:
    return {"systems": {name.replace("__", "/"): {"torch": one} for name, one in torch.items()}}


def test_the_newest_torch_of_torch_gpt_that_all_nodes_have() -> None:
    one = env(torch_gpt__a="2.9.1", torch_gpt__b="2.13.0+cpu", torch_gpt__c="2.14.0", libai__x=None)
    two = env(torch_gpt__a="2.9.1", torch_gpt__b="2.13.0+cpu", apex__z="3.0")
    assert probing.torch_of({"n1": one, "n2": two}, "place") == ("torch_gpt/b", "")


def test_no_torch_is_a_reason_that_names_the_node() -> None:
    pin, reason = probing.torch_of(
        {"n1": env(torch_gpt__a="2.9.1"), "n2": env(libai__x=None)}, "pl ace"
    )
    assert pin == ""
    assert "no environment of n2" in reason
    assert "; `python -m runner setup --tags software -i 'pl ace'` installs the" in reason
    other = probing.torch_of({"n1": env(torch_gpt__a="1"), "n2": env(torch_gpt__b="1")}, "place")
    assert other[1].startswith("no system with torch is on every node")


def test_every_node_starts_one_probe_with_the_clusters_variables() -> None:
    cluster = small_cluster(3, devices=8, device="cuda", env={"NCCL_SOCKET_IFNAME": "=ib0"})
    orders = probing.plan(cluster, cluster.nodes, "torch_gpt/torch-2.13", ["network"], number=4)
    run = orders.to_json()
    assert run["run_id"] == "doctor-rack/4"
    for rank, node in enumerate(run["nodes"]):
        home = "/opt/tb/systems/torch_gpt/torch-2.13"
        python, program, spec = node["argv"]
        assert (python, program) == (f"{home}/env/bin/python3", f"{node['dir']}/probe.py")
        assert node["env"]["NCCL_SOCKET_IFNAME"] == "=ib0"
        told = json.loads(spec)
        assert (told["node"], told["hosts"], told["processes"]) == (rank, ["n1", "n2", "n3"], 8)
        assert (told["address"], told["device"]) == ("10.0.0.1", "cuda")
        assert "def rounds" in node["files"]["probe.py"]
    ports = [node["ports"] for node in run["nodes"]]
    assert ports[0] == (json.loads(run["nodes"][0]["argv"][2])["port"],)
    assert ports[1:] == [(), ()]
    again = probing.plan(cluster, cluster.nodes, "torch_gpt/x", ["network"], number=4, port_try=1)
    assert again.nodes[0].ports != ports[0]


def test_on_slurm_a_node_is_told_what_only_its_job_knows() -> None:
    cluster = slurm_cluster(2)
    folder = PurePosixPath("/shared/runs/.doctor/rack/probe1")
    orders = probing.plan(cluster, cluster.nodes, "torch_gpt/x", [], number=1, folder=folder)
    last = orders.nodes[1]
    assert last.dir == f"{folder}/nodes/0001-rank1"
    told = json.loads(last.argv[2])
    assert (told["address"], told["port"]) == ("{master_addr}", "{master_port}")


def test_the_probes_own_error_comes_before_the_launchs(tmp_path: Any) -> None:
    attempt = Attempt(tmp_path, "doctor", 1, 1)
    said = [{"error": "RuntimeError: torch 2.1+cpu sees 0 cuda devices", "node": 1}]
    assert probing.failed(attempt, said, ["n1", "n2"], "") == (
        "n2: RuntimeError: torch 2.1+cpu sees 0 cuda devices"
    )
    assert probing.failed(attempt, [], ["n1"], "it was killed") == "it was killed"
    (tmp_path / "halt").write_text(
        json.dumps({"host": "n1", "cause": "node_busy", "message": "n1: another run holds it"})
    )
    assert probing.failed(attempt, [], ["n1"], "") == "n1: another run holds it"


# --- what a campaign's figures are held against ---------------------------------------------------


def test_the_matrix_products_of_nodes_whose_devices_all_have_one_are_kept() -> None:
    found = judged(devices({(0, 0): 700, (0, 1): 720, (1, 1): 690}), 2, 2)
    (product,) = found.products(5.0).nodes["node1"]
    assert (product.arithmetic, product.at) == ("bf16", 5.0)
    assert product.tflop_per_s == pytest.approx((700, 720), rel=0.01)
    assert set(found.products(5.0).nodes) == {"node1"}


def test_a_product_of_too_much_noise_is_none() -> None:
    assert judged(devices({(0, 0): 700}, noise=0.5), 1, 1).products(5.0).nodes == {}


def test_a_check_whose_tests_are_all_left_out_is_not_made() -> None:
    checks = ["network", "collectives"]
    assert needed_checks(checks, ["all_gather", "all_to_all"]) == checks
    assert needed_checks(checks, COLLECTIVES) == ["network"]
    assert needed_checks(["devices", "products"], ["sustained"]) == ["devices", "products"]


@pytest.mark.parametrize(("nodes", "each"), [(1, 2), (2, 1)])
def test_collectives_are_judged_wherever_there_are_two_devices(nodes: int, each: int) -> None:
    line = {"nodes": list(range(nodes)), "try": 1, "samples": around(280)}
    said: list[Line] = [{"test": test, "scope": test, **line} for test in COLLECTIVES]
    found = judged(said, nodes, each, checks=["collectives"])
    assert [row.test for row in found.rows] == [*COLLECTIVES]
    assert all(row.figures for row in found.rows)
    assert judged([], 1, 1, checks=["collectives"]).rows == ()


def test_another_try_loses_no_fault_and_no_reason() -> None:
    line = {"test": "nccl_tests", "scope": "nccl_tests", "try": 1}

    def said(rates: dict[int, float], wrong: int = 0) -> list[Line]:
        figures = [
            {**line, "node": node, "nodes": [node], "samples": [rate, rate]}
            for node, rate in rates.items()
        ]
        wrong_line = {**line, "node": 1, "nodes": [1], "samples": [340.0], "wrong": wrong}
        return [*figures, *[wrong_line] * bool(wrong), {**line, "node": 3, "error": "no libnccl"}]

    checks = ["nccl_tests"]
    first = judged(said({0: 344.0, 1: 345.0, 2: 170.0}, wrong=7), checks=checks)
    assert {part.nodes for part in first.slow} == {("node2",), ("node3",)}
    again = with_tries(first, judged([], checks=checks), checks, "cuda")
    assert again.slow == first.slow
    well = judged(said({0: 344.0, 1: 345.0, 2: 343.0}), checks=checks)
    again = with_tries(first, well, checks, "cuda")
    assert [part.nodes for part in again.slow] == [("node2",)]  # wrong elements stay a fault
    assert [row.reason for row in again.rows] == ["node4: no libnccl"]
    later = with_tries(well, first, checks, "cuda")
    assert [part.words for part in later.slow] == ["node2: nccl-tests found 7 wrong elements"]


def test_a_node_speaks_as_no_other_node() -> None:
    said = [{"test": "correct", "node": 9, "nodes": [1], "digest": "a"}, {"error": "x", "node": 0}]
    own = probe_output.of_node(said, 1)
    assert [line["node"] for line in own] == [1]
    assert judged(list(map(dict, own)), checks=["products"]).slow == ()


def test_the_switch_whose_nodes_are_slow_is_named_by_its_nodes() -> None:
    line = {"test": "all_reduce", "scope": "switch", "try": 1}
    groups = [([0, 1, 2, 3, 4, 5], 40.0), ([6, 7, 8, 9, 10, 11], 21.0)]
    said = [{**line, "nodes": nodes, "samples": around(rate)} for nodes, rate in groups]
    (slow,) = judged(said, 12, checks=["switches"]).slow
    assert slow.nodes == tuple(f"node{number}" for number in range(7, 13))
    assert slow.words == (
        "node7 with node8 with node9 with node10 and 2 more: all-reduce of the nodes of a switch"
        " 21 GB/s bus, 48% below 40"
    )
    assert judged([], 12, checks=["switches"]).rows == ()


def test_a_node_whose_cores_others_have_is_busy_and_not_slow() -> None:
    """In all of its tries; one in which it had them counts, and so does another node's slowness."""
    slow_nodes = {(node, 0): 0.9 if node in (1, 2) else 2.0 for node in range(4)}
    said = devices(slow_nodes, "matmul_fp32")
    busy = {"test": "matmul_fp32", "node": 1, "local": 0, "try": 1, "busy": 0.43}
    asked: dict[str, Any] = {"each": 1, "device": "cpu"}
    assert words(judged(said, **asked))[0].startswith("node2 device 0: matrix product fp32 0.9")
    found = judged([*said, busy, {**busy, "busy": 0.2}], **asked)
    assert [part.nodes for part in found.slow] == [("node3",)]
    row = found.rows[0]
    assert row.reason == (
        "busy, not slow: node2, where other work had the cores and threads waited 43% of their"
        " time; stop it and measure again"
    )
    assert (row.noisy, found.unanswered) == (True, True)
    assert [figure["busy"] for figure in found.as_json()["tests"][0]["figures"]] == [0, 0.43, 0, 0]
    again = [{**line, "try": 2} for line in said]
    assert len(judged([*said, busy, *again], **asked).slow) == 2
    more = judged([{**line, "try": 1} for line in said], **asked)
    assert len(with_tries(found, more, ["matmul_fp32"], "cpu").slow) == 2


def test_a_group_with_a_busy_node_is_not_slow() -> None:
    said = [
        {"test": "all_reduce", "scope": "node", "nodes": [node], "samples": around(speed)}
        for node, speed in enumerate((0.37, 0.9, 0.9))
    ]
    busy = {"test": "all_reduce", "scope": "node", "nodes": [0], "node": 0, "busy": 0.5}
    asked: dict[str, Any] = {"nodes": 3, "each": 2, "device": "cpu", "checks": ["network"]}
    assert [part.nodes for part in judged(said, **asked).slow] == [("node1",)]
    found = judged([*said, busy], **asked)
    assert (found.slow, "busy, not slow: node1," in found.rows[0].reason) == ((), True)


@pytest.mark.parametrize(
    ("ran", "waited", "worked", "idle", "share"),
    [
        (0.5, 0.5, 2.0, 0.0, 0.5),  # another process has as much
        (0.5, 0.5, 1.5, 0.5, 0.0),  # a quota: cores were idle meanwhile
        (1.0, 1.0, 2.0, 0.0, 0.0),  # its own processes are more than the cores
        (1.0, 0.0, 2.0, 0.0, 0.0),
        (0.05, 0.05, 2.0, 0.0, 0.0),  # a thread that hardly wanted to run
    ],
)
def test_waiting_for_others_is_busy(
    ran: float, waited: float, worked: float, idle: float, share: float
) -> None:
    """Of two processes on two cores, in a second."""
    before = {"7": (5, 5)}, [100, 100]
    after = (
        {"7": (5 + int(ran * 1e9), 5 + int(waited * 1e9))},
        [100 + int(worked * 100), 100 + int(idle * 100)],
    )
    assert probe.busy(before, after, 1.0, 2) == pytest.approx(share)
    assert probe.busy(({}, [0, 0]), ({}, [0, 0]), 1.0, 2) == 0.0  # the kernel does not say


def test_a_core_that_others_want_is_seen() -> None:
    """On one core, with another process that never rests."""
    usable = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            for pid in (0, other.pid):
                os.sched_setaffinity(pid, {min(usable)})
            before, until = probe.load(), time.perf_counter() + 2
            while time.perf_counter() < until:
                pass
            share = probe.busy(before, probe.load(), 2.0, 1, os.sysconf("SC_CLK_TCK"))
        finally:
            os.sched_setaffinity(0, usable)
            other.kill()
    assert share > probe.BUSY
