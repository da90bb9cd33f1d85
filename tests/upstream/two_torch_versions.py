"""`ci` on nanoGPT with two versions of torch, on two real nodes that share their folder.

    TRAINBENCH_MIRRORS=<folder> python -m tests.upstream.two_torch_versions --keep FOLDER
    ... --base 2.13.0 --head 2.14.1 --pairs 8

Both versions are built side by side from the package index; one without a wheel for processors
brings CUDA libraries (3 GB). The command is killed after its third run, and the same one goes on.
Prints the comment that a pull request would get, and how long each part took. Root.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from runner.folder import names
from tests.cluster import Cluster
from tests.on_nodes.small_trainer import commit, commits_of, variables
from tests.upstream.mirrors import git
from tests.upstream.test_nanogpt import matrix, prepare

KILLED_AFTER = 3  # runs
ITERATIONS = 1000
# Each evaluation makes one step slow, and 60 steps take a second.
OPTIONS = {"--max_iters": ITERATIONS, "--eval_interval": ITERATIONS}


def perf(trainer: Path, base: str, pairs: int, revision: str) -> dict[str, Any]:
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
        "torch": {"version": base},
        "requirements": ["numpy==2.4.6"],
        "source": {"repository": ".", "commit": revision},
    }
    return {
        **{key: content[key] for key in ("name", "warmup_iters")},
        "pins": {"trainer": pin},
        "defaults": {**defaults, "argv": argv, "pin": "trainer", "batch_size": 8},
        "repeats": pairs,
    }


def repository(folder: Path, base: str, pairs: int) -> None:
    """Lay nanoGPT out with its data and the matrix, committed."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    prepare(folder)
    git(folder, "checkout", "-q", "-b", "main")
    git(folder, "add", "--force", "data/own")
    commit(folder, 1, {})
    content = perf(folder, base, pairs, commits_of(folder)[-1])
    commit(folder, 2, {"perf.yaml": yaml.safe_dump(content)})


def main() -> int:
    """Exit code: that of `ci`."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.upstream.two_torch_versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--base", default="2.13.0")
    parser.add_argument("--head", default="2.14.1")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--keep", type=Path, required=True, help="for runs and the comment")
    chosen = parser.parse_args()
    keep = chosen.keep.resolve()
    keep.mkdir(parents=True, exist_ok=True)
    with Cluster(2) as cluster:
        trainer = cluster.shared / "nanoGPT"
        repository(trainer, chosen.base, chosen.pairs)
        more = {
            "cluster_root_shared": True,
            "setup_yes": True,  # torch with CUDA libraries, where there is no other
            "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"},
        }
        root = str(cluster.shared / "root")
        cluster.write_inventory(keep / "nodes", variables={**variables(root), **more})
        runs, comment = keep / "runs", keep / "comment.md"
        words = ["--base", f"torch=={chosen.base}", "--head", f"torch=={chosen.head}"]
        where = ["-i", str(keep / "nodes"), "--runs", str(runs), "--markdown", str(comment)]
        argv = [*(sys.executable, "-m", "runner", "ci", str(trainer / "perf.yaml")), *words, *where]

        def ended() -> int:
            return len(list(runs.glob(f"*/*/repeat*/attempt*/{names.OUTCOME}")))

        began = time.monotonic()
        with subprocess.Popen(argv, start_new_session=True) as process:
            while ended() < KILLED_AFTER and process.poll() is None:
                time.sleep(0.1)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        killed_s, before = time.monotonic() - began, ended()
        code = subprocess.run(argv, check=False).returncode
        print(comment.read_text() if comment.exists() else "no comment was written")
        print(f"killed after {before} runs and {killed_s:.0f} s, builds included;"
              f" {ended()} runs in {time.monotonic() - began:.0f} s, exit code {code}")  # fmt: skip
    return code


if __name__ == "__main__":
    sys.exit(main())
