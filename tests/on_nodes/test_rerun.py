"""A stranger's run on real nodes: what was shown as escapes is what each node is given."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import RealNodes
from tests.golden.test_bundle import command
from tests.on_nodes.campaign import Bench

pytestmark = pytest.mark.cluster

HIDDEN = "a\x1b]0;echo hidden\x07\u202eb\u200b"
SCRIPT = 'printf "VALUE=%s\\n" "$VALUE"; for s in 1 2 3 4 5; do echo step $s; sleep 0.1; done'
DEVICES = {"cluster_devices_per_node": 1}
MATRIX: dict[str, Any] = {
    "name": "theirs",
    "defaults": {
        **{"system": "command", "nodes": 2, "devices_per_node": 1, "cwd": "/etc/ssh"},
        **{"argv": ["/bin/sh", "-c", SCRIPT, "{master_addr}"], "log": {"step": r"step (\d+)"}},
        "env": {"VALUE": "good"},
    },
    "time_limit_s": 480,
}


def test_a_bundles_cell_runs_on_other_nodes_as_it_was_shown(
    tmp_path: Path, real_nodes: RealNodes
) -> None:
    theirs = real_nodes(2, variables={"cluster_root": "/opt/theirs", **DEVICES})
    bench = Bench(tmp_path, theirs.inventory, MATRIX)
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    bundle = tmp_path / "theirs.tar.gz"
    words = ("publish", str(bench.campaign), "--anyway", "-o", str(bundle))
    assert command(*words, folder=tmp_path).returncode == 0
    shutil.unpack_archive(bundle, tmp_path / "x", filter="data")
    (run,) = (tmp_path / "x").glob("*/*/repeat1/attempt1")
    content = json.loads((run / "run.json").read_text())
    content["cell"]["env"]["VALUE"] = HIDDEN
    (run / "run.json").write_text(json.dumps(content))

    mine = real_nodes(
        2, variables={"cluster_root": "/opt/mine", "cluster_env": {"OWN": "1"}, **DEVICES}
    )
    runs = tmp_path / "mine-runs"
    again = ("rerun", str(run), "-i", str(mine.inventory), "--runs", str(runs))
    refused = command(*again, folder=tmp_path)
    assert refused.returncode == 2
    assert not runs.exists()
    done = command(*again, "--yes", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.partition("rerun against")[0]
    assert refused.stdout == shown
    assert "  env  VALUE=$'a\\x1b]0;echo hidden\\x07\\u202eb\\u200b'\n" in shown
    assert "    env OWN: recorded nothing, here 1\n" in shown
    logs = sorted(runs.glob("rerun-theirs-*/*/repeat1/attempt1/nodes/*/launcher.log"))
    assert len(logs) == 2
    for log in logs:
        assert f"VALUE={HIDDEN}\n".encode() in log.read_bytes()
    now = json.loads(next(runs.glob("rerun-*/*/repeat1/attempt1/run.json")).read_text())
    assert [node["dir"].split("/runs/")[0] for node in now["nodes"]] == ["/opt/mine"] * 2
