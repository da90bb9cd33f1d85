"""slurm_setup and slurm_teardown on real Slurm, with Debian's environment-modules on each node."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runner.folder import names
from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import SlurmBench, chown, user_folder

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.nightly("slurm", by_day="row"),
    pytest.mark.skipif(
        not os.path.exists("/etc/profile.d/modules.sh"),
        reason="there is no environment-modules: tools/system-packages",
    ),
]

SAY = "for s in 1 2 3 4 5; do echo step $s; done; greet; echo NOTE=$NOTE TOP=$HF_TOKEN SEEN=$SEEN"
MODULE = """\
#%Module
prepend-path PATH {folder}/bin
setenv NOTE from-the-module
"""


def campaign(
    slurm: SlurmCluster, name: str, *, cells: dict[str, Any] | None = None, **more: Any
) -> SlurmBench:
    """Two nodes that print what a module gave them; the module is the user's own."""
    folder = user_folder(slurm, name)
    (folder / "modules").mkdir()
    (folder / "modules" / "greeting").write_text(MODULE.format(folder=folder))
    (folder / "bin").mkdir()
    (folder / "bin" / "greet").write_text("#!/bin/sh\necho greetings from $(hostname)\n")
    (folder / "bin" / "greet").chmod(0o755)
    matrix = {
        "name": name,
        "defaults": {
            **{"system": "command", "nodes": 2, "devices_per_node": 1, "cwd": str(folder)},
            **{"argv": ["bash", "-c", SAY], "log": {"step": r"step (\d+)"}, **(cells or {})},
        },
    }
    bench = SlurmBench(slurm, folder, matrix, more)
    chown(folder)
    return bench


def attempt(bench: SlurmBench) -> Path:
    return next(bench.campaign.glob(names.ATTEMPTS))


@pytest.mark.parametrize("mode", ["job", "allocation"])
def test_the_trainer_gets_what_a_module_sets(slurm_cluster: SlurmCluster, mode: str) -> None:
    name = f"modules-{mode}"
    folder = slurm_cluster.shared / "home" / name
    use = f"module use {folder}/modules"
    load = ["module load greeting", "export HF_TOKEN=hf_secret SEEN=$NOTE"]
    leave = [f"echo $NOTE $SLURM_NODEID > {folder}/left-$(hostname)"]
    keys: dict[str, Any] = {
        "slurm_setup": [use, *load],
        "slurm_teardown": leave,
        "slurm_mode": mode,
    }
    bench = campaign(slurm_cluster, name, **keys)
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    run = attempt(bench)
    for rank, host in ((0, "node2"), (1, "node3")):
        (node,) = run.glob(f"nodes/000{rank}-*")
        log = (node / names.LOG).read_text()
        assert f"greetings from {host}" in log
        assert "NOTE=from-the-module TOP=hf_secret SEEN=from-the-module" in log
        started = json.loads((node / names.STARTED).read_text())
        assert started["env"]["NOTE"] == "from-the-module"
        assert started["env"]["PATH"].startswith(f"{folder}/bin:")
        assert "hf_secret" not in (node / names.STARTED).read_text()
        assert (folder / f"left-{host}").read_text() == f"from-the-module {rank}\n"
    assert json.loads((run / names.RUN).read_text())["setup"] == [use, *load]


def test_a_line_that_fails_ends_the_run_by_name(slurm_cluster: SlurmCluster) -> None:
    bench = campaign(slurm_cluster, "nomodule", slurm_setup=["true", "module load no-such/9"])
    ran = bench.run()
    assert ran.returncode == 1, ran.stdout + ran.stderr
    outcome = json.loads((attempt(bench) / names.OUTCOME).read_text())
    assert (outcome["status"], outcome["cause"]) == ("did_not_run", "setup_failed")
    assert "slurm_setup: `module load no-such/9` ended with exit code 1: " in outcome["reason"]
    assert "Unable to locate a modulefile for 'no-such/9'" in outcome["reason"]


def test_a_cells_lines_are_in_place_of_the_inventorys(slurm_cluster: SlurmCluster) -> None:
    cells = {"slurm_setup": ["export PATH=$PWD/bin:$PATH NOTE=own"]}
    bench = campaign(slurm_cluster, "own-lines", cells=cells, slurm_setup=["false"])
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for log in attempt(bench).glob(f"nodes/*/{names.LOG}"):
        assert "NOTE=own " in log.read_text()
