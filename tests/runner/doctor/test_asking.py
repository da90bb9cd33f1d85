"""What doctor leaves behind of a measurement. Whole doctors are in tests/golden and tests/roles."""

import io
from pathlib import Path
from typing import Any

import pytest

from runner.base.console import Screen
from runner.doctor import probing
from runner.doctor.answer import Answer
from runner.doctor.asking import Asking
from runner.doctor.differences import Finding, NodeComparison
from runner.doctor.items import SPOILS
from runner.doctor.judgement import judge_probe
from runner.folder.checkup import checkup_of
from runner.folder.products import load_products
from runner.launch.interrupts import Interrupts
from runner.launch.ssh.ssh_engine import SshEngine
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.slurm import Slurm
from runner.terms.engines.ssh import Ssh
from tests.runner.builders import small_cluster


def test_what_the_probe_measured_is_kept_for_campaigns_on_the_same_inventory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = small_cluster(1, 1)
    line: dict[str, Any] = {"test": "matmul_fp32", "node": 0, "local": 0, "rank": 0, "try": 1}
    judged = judge_probe(
        [{**line, "samples": [0.5, 0.5, 0.5]}],
        ["n1"],
        device="cpu",
        devices_per_node=1,
        checks=["devices"],
    )
    monkeypatch.setattr(probing, "torch_of", lambda envs, inventory: ("torch_gpt/torch-2.13", ""))
    monkeypatch.setattr(probing, "launch", lambda *rest: judged)
    checkup, engine = checkup_of(tmp_path, cluster.label), SshEngine(cluster, tmp_path)
    answer, screen = Answer("rack", 0.0, ("n1",), envs={"n1": {}}), Screen(file=io.StringIO())
    Asking(checkup, cluster, engine, Interrupts(), screen, answer).measure(["devices"])
    (product,) = load_products(checkup_of(tmp_path, cluster.label).path).nodes["n1"]
    assert (product.arithmetic, product.tflop_per_s) == ("fp32", (0.5,))


ODD = NodeComparison(
    findings=(Finding("MTU", SPOILS, ("n2",), "1300", "1400", "it spoils"),), differences=()
)


@pytest.mark.parametrize(
    ("engine", "nodes", "line"),
    [
        (Ssh(), ("n1", "n2"), None),
        (Slurm(nodes=2), ("n1", "n2"), "n2"),
        (Slurm(nodes=2, exclude="n[7-9]"), ("n1", "n2"), "n[7-9],n2"),
        (Slurm(nodes=2), ("n2",), None),  # all there are: it is no node's own
    ],
)
def test_what_is_odd_is_a_line_for_a_slurm_inventory(
    engine: EngineSettings, nodes: tuple[str, ...], line: str | None
) -> None:
    answer = Answer("rack", 0.0, nodes, comparison=ODD, engine=engine)
    assert answer.as_json(80).get("slurm_exclude") == line
