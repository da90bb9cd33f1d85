"""A dry run on Slurm, whole, in both modes: tests/golden/slurm/<mode>.txt.

`python -m tests.golden.test_slurm_dry_run` writes the files again. Nothing is asked of Slurm: its
programs are not even on the PATH.
"""

import json
import re
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from tests.golden.places import inventory

HERE = Path(__file__).parent / "slurm"
LOGIN = {"nodes": {"hosts": {"login": {"ansible_connection": "local"}}}}
MATRIX = {
    "defaults": {"system": "torch_gpt", "nodes": 2, "devices_per_node": 2, "constraint": "ib"},
    "axes": {"zero_stage": [0, 1]},
    "repeats": 3,
    "time_limit_s": 600,
}
MODES = ("job", "allocation")
SCRIPT = ("--script", "--only", "zero_stage=1")


def said(folder: Path, mode: str, *options: str) -> str:
    """What `bench --dry-run` says, without what differs from one checkout to the next."""
    place = inventory(
        folder / "rack",
        LOGIN,
        cluster_root="/shared/tb",
        cluster_engine="slurm",
        cluster_device="cuda",
        slurm_mode=mode,
        slurm_nodes=4,
        slurm_partition="gpu",
        slurm_gpus_per_node=2,
    )
    matrix: dict[str, Any] = json.loads(json.dumps(MATRIX))
    if mode == "allocation":
        del matrix["defaults"]["constraint"]
    else:
        matrix["defaults"]["slurm_setup"] = ["module load cuda/12.4", "source env.sh"]
    (folder / "m.yaml").write_text(json.dumps(matrix))
    argv = ["bench", "--matrix", str(folder / "m.yaml"), "-i", str(place), "--dry-run"]
    with redirect_stdout(StringIO()) as output:
        assert main([*argv, "--runs", str(folder / "runs"), *options]) == 0
    assert not (folder / "runs").exists()
    text = output.getvalue().replace(str(folder.resolve()), "/shared")
    # What names the run by its folder is another one wherever the tests run.
    text = re.sub(r'("sha256": ")[0-9a-f]{64}', r"\1SHA", text)
    return re.sub(r"(programs/|trainbench-run-)[0-9a-f]{12,16}", r"\1SHA", text)


@pytest.mark.parametrize("mode", MODES)
def test_a_dry_run_shows_what_slurm_would_be_given(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = said(tmp_path, mode)
    golden = HERE / f"{mode}.txt"
    assert text == golden.read_text(encoding="utf-8"), (
        "run: python -m tests.golden.test_slurm_dry_run"
    )


def test_a_script_to_run_by_hand(tmp_path: Path) -> None:
    text = said(tmp_path, "job", *SCRIPT)
    assert text == (HERE / "script.txt").read_text(encoding="utf-8"), (
        "run: python -m tests.golden.test_slurm_dry_run"
    )


def test_a_script_is_of_one_cell_and_of_a_dry_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError):
        said(tmp_path, "job", "--script")
    error = capsys.readouterr().err
    assert "--script prints one cell, and 2 are chosen; choose one, such as --only" in error
    argv = ["bench", "--matrix", str(tmp_path / "m.yaml"), "-i", str(tmp_path / "rack"), "--script"]
    assert main(argv) == 2
    assert "add --dry-run" in capsys.readouterr().err


def test_as_json_it_says_the_same(tmp_path: Path) -> None:
    plans = json.loads(said(tmp_path, "allocation", "--format", "json"))
    assert len(plans) == 2
    for plan in plans:
        assert plan["slurm"]["script"].startswith("#!/bin/bash\n#SBATCH --job-name=m-rack\n")
        assert plan["slurm"]["step"][:2] == ["srun", "--jobid={job_id}"]
        assert plan["run_dir"].startswith("/shared/runs/m-rack/zero_stage=")
        assert "{master_port}" in plan["nodes"][1]["argv"]


if __name__ == "__main__":
    for each in MODES:
        with tempfile.TemporaryDirectory() as made:
            (HERE / f"{each}.txt").write_text(said(Path(made), each), encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        (HERE / "script.txt").write_text(said(Path(made), "job", *SCRIPT), encoding="utf-8")
