"""tune on real nodes: killed in the middle of a search, the same command goes on.

The trainer is the stand-in (tests/stand_in.py).
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.fixtures import RealNodes

pytestmark = pytest.mark.cluster

MATRIX: dict[str, Any] = {
    "name": "short",
    "defaults": {
        **{"system": "torch_gpt", "model": "gpt2-tiny", "global_batch_size": 16},
        **{"train_iters": 20, "devices_per_node": 1, "nodes": 2, "env": {"STEP_S": "0.05"}},
    },
    "tune": {
        "knobs": {"micro_batch_size": [2, 8], "zero_stage": [0, 1]},
        **{"objective": "memory", "memory_loss_percent": 50},  # the race is short
    },
}


def over(campaign: Path) -> set[Path]:
    """Return the runs of a campaign that have ended."""
    return {path.parent for path in campaign.rglob("outcome.json")}


def killed_and_resumed(argv: list[str], campaign: Path) -> dict[str, Any]:
    """Kill a search after its second run, go on, and return the answer; nothing ran twice."""
    first = subprocess.Popen(argv, start_new_session=True, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 600
    while len(over(campaign)) < 2 and first.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = {path: (path / "outcome.json").read_bytes() for path in over(campaign)}
    assert len(before) >= 2
    ran = subprocess.run(
        [*argv, "--format", "json"], capture_output=True, text=True, timeout=900, check=False
    )
    answer: dict[str, Any] = json.loads(ran.stdout)
    found = answer["detail"]
    assert all((path / "outcome.json").read_bytes() == held for path, held in before.items())
    all_runs = over(campaign)
    codes = {"winner": 0, "default_kept": 3}
    assert ran.returncode == codes[answer["verdict"]], ran.stderr
    assert found["winner"]
    assert (campaign / "winner.yaml").is_file()
    again = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
    assert again.returncode == ran.returncode, again.stderr
    assert answer["sentence"] in again.stdout
    assert over(campaign) == all_runs
    return answer


def test_killed_in_the_middle_it_goes_on(
    tmp_path: Path, real_nodes: RealNodes, stand_in_root: Path
) -> None:
    variables = {"cluster_root": str(stand_in_root), "cluster_devices_per_node": 2}
    group = real_nodes(2, variables=variables)
    matrix = tmp_path / "short.yaml"
    matrix.write_text(yaml.safe_dump(MATRIX))
    runs = tmp_path / "runs"
    where = ["-i", str(group.inventory), "--runs", str(runs), "--no-measure"]
    argv = [sys.executable, "-m", "runner", "tune", str(matrix), *where]
    answer = killed_and_resumed(argv, runs / f"short-{group.inventory.name}")
    assert {one["state"] for one in answer["tables"][1]["rows"]} <= {
        *("winner", "finalist", "tried", "ended early", "not tried"),
    }
