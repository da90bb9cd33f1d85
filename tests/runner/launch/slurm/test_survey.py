"""What doctor makes of what the nodes of an allocation said; tests/on_slurm asks real ones."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.folder.checkup import Checkup
from runner.launch.slurm import survey as module
from runner.launch.slurm.queue import Queue
from runner.launch.slurm.step import Allocation
from runner.terms.engines.slurm import Slurm
from tests.runner.builders import slurm_cluster

CLUSTER = slurm_cluster(3, env={"NCCL_SOCKET_IFNAME": "=ib0", "NCCL_DEBUG": "INFO"})


def asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *answering: str
) -> tuple[Checkup, Any, Sequence[str]]:
    """Ask n1 to n4 where these answer: the checkup, what was found, and the step's argv."""
    steps: list[Sequence[str]] = []

    def start(step: Sequence[str], secrets: object, said: Path) -> subprocess.Popen[bytes]:
        steps.append(step)
        for host in answering:
            (folder / "env" / f"{host}.json").write_text('{"env": null}')
        (folder / "slurm.out").write_text("1: cannot open /proc\nsrun: error: n2: task 1: Exited\n")
        return subprocess.Popen(["true"])

    monkeypatch.setattr(module, "start", start)
    assert isinstance(CLUSTER.engine, Slurm)
    allocation = Allocation(CLUSTER, CLUSTER.engine, Queue(), {}, 17, ("n1", "n2", "n3", "n4"))
    checkup = Checkup(folder)
    found = module.survey(allocation, CLUSTER.engine, checkup, lambda: False)
    return checkup, found, steps[0]


def test_as_many_nodes_are_asked_as_a_run_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkup, found, step = asked(tmp_path, monkeypatch, "n1", "n3")
    assert found.hosts == ("n1", "n2", "n3")
    assert checkup.asked
    assert {host: node.lost for host, node in checkup.asked.nodes.items()} == {
        **{"n1": False, "n3": False},
        "n2": True,
    }
    assert "cannot open /proc" in str(checkup.node("n2").unreachable)
    assert {"--jobid=17", "--nodelist=n1,n2,n3", "--nodes=3"} <= set(step)
    told = json.loads(step[-1])["arguments"]
    assert told["read"] == {"root": "/opt/tb", "interfaces": ["=ib0"]}
    assert told["expected"] == {"device": "cpu", "devices": 2}
    assert told["folder"] == str(tmp_path / "env")


def test_where_no_node_answers_it_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"the nodes n1,n2,n3 could not be asked: .*open /proc"):
        asked(tmp_path, monkeypatch)
