"""The deepspeed launcher on real nodes: the first starts everything, the others wait and clean up.

Stand-ins at the outermost boundary: env/bin/deepspeed, which reads the hostfile and prints v1.1.5's
lines, and nvidia-smi. What the real launcher would start over ssh on the second node is started by
this test.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.systems.megatron_lm import FOLDER
from tests.cluster.fixtures import RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench, wait

pytestmark = pytest.mark.cluster

LAUNCHER = """#!{python} -IS
import os, sys, time
argv = sys.argv
hosts = open(argv[argv.index("--hostfile") + 1]).read().split("\\n")[:-1]
given = dict(line.rstrip("\\n").split("=", 1) for line in open(".deepspeed_env"))
print("HOSTS", hosts, "NOTE", given["NOTE"], flush=True)
steps = int(argv[argv.index("--train-iters") + 1])
until = os.environ["UNTIL"]
for step in range(10, steps + 1, 10):
    while step == steps and not os.path.exists(until):
        time.sleep(0.05)
    print(
        f" iteration {{step:8d}}/{{steps:8d}} | elapsed time per iteration (ms): 10.0 |"
        f" learning rate: 1.500E-04 | lm loss: {{9 - step / 20:.6E}} | loss scale: 1.0 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |",
        flush=True,
    )
"""


# Two idle devices, whatever is asked.
NVIDIA_SMI = """#!/bin/sh
case "$1" in *compute-apps*) ;; *) printf '0, GPU-0, 0, 16384\\n1, GPU-1, 0, 16384\\n' ;; esac
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """What setup would leave, with the stand-in; test nodes hide /tmp."""
    folder = ROOT / "build" / "deepspeed-stand-in"
    shutil.rmtree(folder, ignore_errors=True)
    home = folder / "systems" / "megatron_lm" / "v1.1.5"
    (home / "env" / "bin").mkdir(parents=True)
    program = home / "env" / "bin" / "deepspeed"
    python = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]  # CPython has it
    program.write_text(LAUNCHER.format(python=python))
    program.chmod(0o755)
    (home / "src" / FOLDER).mkdir(parents=True)
    (home / "src" / FOLDER / "pretrain_gpt2.py").write_text("")
    (home / "installed.json").write_text(json.dumps({"schema": 1, "identity": {"stand-in": "1"}}))
    data = folder / "datasets" / "default"
    data.mkdir(parents=True)
    names = [f"default_text_document.{end}" for end in ("bin", "idx")]
    for name in (*names, "vocab.json", "merges.txt"):
        (data / name).write_bytes(b"\0" * 10)
    sizes = dict.fromkeys(names, 10)
    facts = {"documents": 1000, "tokens": 10**8, "bytes": sizes, "sha256": {"stand-in": "1" * 64}}
    (data / "dataset.json").write_text(json.dumps(facts))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_the_second_node_waits_and_ends_what_carries_the_runs_mark(
    tmp_path: Path, real_nodes: RealNodes, root: Path, request: pytest.FixtureRequest
) -> None:
    variables = {"cluster_root": str(root), "cluster_device": "cuda", "cluster_devices_per_node": 2}
    group = real_nodes(2, variables=variables)
    for node in group.nodes:
        for program, text in (("/usr/bin/pdsh", ""), ("/usr/local/bin/nvidia-smi", NVIDIA_SMI)):
            node.exec(["tee", program], input=text, check=True)
            node.exec(["chmod", "755", program], check=True)
            request.addfinalizer(partial(node.exec, ["rm", program]))  # others' node afterwards
    until = root / "until"
    cell: dict[str, Any] = {
        **{"system": "megatron_lm", "nodes": 2, "devices_per_node": 2, "launcher": "deepspeed"},
        **{"deepspeed": "on", "train_iters": 40, "env": {"NOTE": "it's", "UNTIL": str(until)}},
    }
    bench = Bench(tmp_path, group.inventory, {"name": "waits", "defaults": cell})
    bench.start()
    log = "nodes/0000-*/launcher.log"
    assert bench.process is not None
    process = bench.process
    wait(
        lambda: (
            process.poll() is not None
            or any(
                b"iteration" in path.read_bytes() for path in bench.campaign.glob(f"*/*/*/{log}")
            )
        ),
        300,
        "the first line",
    )
    if process.poll() is not None:
        pytest.fail(bench.finish()[1])
    run = json.loads(next(bench.campaign.glob("*/*/*/run.json")).read_text())
    first, second = run["nodes"]
    assert second["argv"] == []
    jobs = [json.loads(each.read(f"{first['dir']}/job.json")) for each in group.nodes]
    assert jobs[0]["mark"] == jobs[1]["mark"]
    foreign = group.nodes[1].popen(
        ["env", f"PYTHON_TRAINBENCH_RUN={jobs[0]['mark']}", "sleep", "999"]
    )
    group.nodes[0].exec(["touch", str(until)], check=True)
    code, said = bench.finish(200)
    assert code == 0, said
    assert foreign.wait(60) != 0
    attempt = bench.attempt("")
    text = (attempt / "nodes" / f"0000-{first['host']}" / "launcher.log").read_text()
    assert f"'{group.nodes[0].address} slots=2', '{group.nodes[1].address} slots=2'" in text
    done = json.loads((attempt / "nodes" / f"0001-{second['host']}" / "done.json").read_text())
    assert (done["ended_by"], done["rc"], done["left"]) == ("exit", 0, 0)
    assert done["signalled"] >= 1
    assert bench.outcome("")["status"] == "ok"
