"""Faults that are planted in the trainer still change what it learns, on this machine's CPU."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import learning

TRAIN = Path(__file__).parents[2] / "roles" / "torch_gpt" / "files" / "torch_gpt" / "train.py"
PROGRAM = Path(learning.__file__).with_name("learning_runs.py")
# From its text: to import it takes torch.
FAULTS = re.findall(r"(?m)^def (\w+)\(\) -> None:", PROGRAM.read_text())
SHAPE = ("--device", "cpu", "--num-layers", "1", "--hidden-size", "32")
FEW = (
    "--num-attention-heads",
    "2",
    "--seq-length",
    "32",
    "--vocab-size",
    "64",
    "--lr",
    "0.03",
    "--split",
    "1,0,0",
)
PLAIN = (
    "--split",
    "1,0,0",
    "--attention-backend",
    "math",
    "--cross-entropy-chunks",
    "0",
    "--log-interval",
    "1",
)
BATCHES = ("--micro-batch-size", "2", "--global-batch-size", "4", "--train-iters", "3")


def test_what_faults_stand_for_is_in_the_trainer() -> None:
    trainer = TRAIN.read_text()
    methods = re.findall(r'around\("(\w+)"', PROGRAM.read_text())
    assert set(methods) == {"one_pass", "loss", "batch"}
    assert all(f"    def {method}(self, " in trainer for method in methods)
    assert "\ndef learning_rate(step: int, options: Namespace) -> float:" in trainer


@pytest.mark.nightly("training")
def test_each_fault_changes_the_curves(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    learning.write_language(tmp_path / "text_document")
    argv = [*SHAPE, *FEW, *PLAIN, *BATCHES, "--data-path", str(tmp_path / "text_document")]
    runs = [
        {"argv": argv, "log": str(tmp_path / str(fault)), "fault": fault}
        for fault in (None, *FAULTS)
    ]
    subprocess.run([sys.executable, PROGRAM], input=json.dumps(runs), text=True, check=True)
    curves = {
        run["log"]: re.findall(r" loss=(\S+) grad_norm=(\S+)", Path(str(run["log"])).read_text())
        for run in runs
    }
    honest = curves.pop(str(tmp_path / "None"))
    assert len(honest) == 3
    assert [fault for fault in FAULTS if curves[str(tmp_path / fault)] == honest] == []
    assert len(FAULTS) == 11
