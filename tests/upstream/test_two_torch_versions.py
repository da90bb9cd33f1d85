"""`ci` on nanoGPT with two versions of torch, on two real nodes that share their folder.

Both versions are built side by side from the package index; one without a wheel for processors
brings CUDA libraries (3 GB). The command is killed after its third run, and the same one goes on.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.folder import names
from tests.cluster.fixtures import RealNodes
from tests.on_nodes.small_trainer import commit, commits_of, variables
from tests.upstream.mirrors import git
from tests.upstream.nano_gpt import matrix, prepare

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("upstream", by_day="downloads"),
    pytest.mark.timeout(2400),
]
BASE, HEAD, PAIRS = "2.13.0", "2.14.1", 4
KILLED_AFTER = 3  # runs
ITERATIONS = 1000
# Each evaluation makes one step slow, and 60 steps take a second.
OPTIONS = {"--max_iters": ITERATIONS, "--eval_interval": ITERATIONS}


def perf(trainer: Path, revision: str) -> dict[str, Any]:
    """nanoGPT's matrix with one cell, whose pin set has torch and that commit in it."""
    content = matrix(trainer)
    defaults = content["defaults"]
    for key in ("cwd", "environment"):  # the pin set has the tree and its Python
        del defaults[key]
    options = [word.partition("=")[0] for word in defaults["argv"]]
    argv = [
        f"{option}={OPTIONS[option]}" if option in OPTIONS else word
        for option, word in zip(options, defaults["argv"], strict=True)
    ]
    pin = {
        "torch": {"version": BASE},
        "requirements": ["numpy==2.4.6"],
        "source": {"repository": ".", "commit": revision},
    }
    return {
        **{key: content[key] for key in ("name", "warmup_iters")},
        "pins": {"trainer": pin},
        "defaults": {**defaults, "argv": argv, "pin": "trainer", "batch_size": 8},
        "repeats": PAIRS,
    }


def repository(folder: Path) -> None:
    """Lay nanoGPT out with its data and the matrix, committed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    prepare(folder)
    git(folder, "checkout", "-q", "-b", "main")
    git(folder, "add", "--force", "data/own")
    commit(folder, 1, {})
    content = perf(folder, commits_of(folder)[-1])
    commit(folder, 2, {"perf.yaml": yaml.safe_dump(content)})


def test_killed_it_goes_on_and_writes_its_comment(real_nodes: RealNodes, tmp_path: Path) -> None:
    group = real_nodes(2)
    trainer = group.cluster.shared / "nanoGPT"
    repository(trainer)
    more = {
        "cluster_root_shared": True,
        "setup_yes": True,  # torch with CUDA libraries, where there is no other
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"},
    }
    everything = {**variables(str(group.cluster.shared / "root")), **more}
    inventory = real_nodes(2, variables=everything).inventory
    runs, comment = tmp_path / "runs", tmp_path / "comment.md"
    words = ["--base", f"torch=={BASE}", "--head", f"torch=={HEAD}"]
    where = ["-i", str(inventory), "--runs", str(runs), "--markdown", str(comment)]
    argv = [*(sys.executable, "-m", "runner", "ci", str(trainer / "perf.yaml")), *words, *where]

    def ended() -> int:
        return len(list(runs.glob(f"*/*/repeat*/attempt*/{names.OUTCOME}")))

    with subprocess.Popen(argv, start_new_session=True) as process:
        while ended() < KILLED_AFTER and process.poll() is None:
            time.sleep(0.1)
        assert process.poll() is None, "it ended before its third run"
        os.killpg(process.pid, signal.SIGKILL)
    again = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert again.returncode in (0, 1, 3), again.stderr
    assert ended() >= 2 * PAIRS
    assert "torch" in comment.read_text()
