"""job.sh as text: what stands in for what only a job knows, and what no shell may take for its own.

tests/on_slurm/test_by_hand.py gives it to sbatch.
"""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.launch.slurm.by_hand import job_by_hand
from runner.plan.make import make_run
from runner.terms.engines.slurm import Slurm
from runner.terms.run import Run
from tests.runner.builders import slurm_cluster, small_matrix
from tests.runner.launch.slurm.test_job_script import ATTEMPT


def planned(nodes: int = 2) -> Run:
    matrix = small_matrix(defaults={"nodes": nodes}, time_limit_s=90)
    cluster = slurm_cluster(nodes)
    return make_run(matrix, matrix.cells[0], cluster, campaign="m-rack", folder=ATTEMPT)


def script(run: Run, **keys: Any) -> str:
    return job_by_hand(replace(Slurm(nodes=4), **keys), run)


def test_what_only_the_job_knows_is_a_variable() -> None:
    text = script(planned(), partition="gpu")
    assert "#SBATCH --partition=gpu\n" in text
    assert "--comment" not in text
    joined = text.replace("\\\n    ", "")
    assert '--node_rank "$SLURM_NODEID" --master_addr "$MASTER_ADDR"' in joined
    assert "{" not in text.partition("run_node() {")[2].partition("\n}")[0].replace("${", "")
    assert str(ATTEMPT) not in text


def test_nodes_that_do_the_same_are_written_once() -> None:
    assert len(script(planned(64))) < len(script(planned(2))) + 50


def test_nodes_that_differ_are_told_apart() -> None:
    run = planned(3)
    odd = replace(run.nodes[2], argv=("odd", "{node_addr_1}"), env={"ODD": "1"})
    text = script(replace(run, nodes=(*run.nodes[:2], odd)))
    assert "  0)\n" in text
    assert "  2)\n    export ODD=1\n" in text
    assert "sed -n 2p" in text


def test_a_single_node_and_no_setup_passes_shellcheck(tmp_path: Path) -> None:
    for nodes in (1, 3):
        path = tmp_path / f"{nodes}.sh"
        path.write_text(script(planned(nodes)))
        subprocess.run(["shellcheck", "-S", "warning", path], check=True)
