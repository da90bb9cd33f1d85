"""benchmarks/step_profile.py in miniature on this machine's CPU."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.torch_gpt import rank
from tests.torch_gpt.test_training import MODULES, SHAPE

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ALONE = [{"PYTHONPATH": str(MODULES), "OMP_NUM_THREADS": "1"}]


def test_a_steps_profile(tmp_path: Path) -> None:
    import megatron_mmap

    prefix = tmp_path / "text_document"
    with megatron_mmap.Writer(prefix) as writer:
        writer.add_document(np.random.default_rng(0).integers(0, 256, 4096).tolist())
    shape = SHAPE[: SHAPE.index("--split")]
    argv = [str(BENCHMARKS / "step_profile.py"), "--steps", "1", "--warm-up", "1", *shape]
    argv += ["--micro-batch-size", "2", "--global-batch-size", "2", "--num-layers", "1"]
    argv += ["--data-path", str(prefix)]
    status, out, err = rank.run_all([argv], ALONE, tmp_path)
    assert status == 0, err
    assert re.search(r"^step: \d+\.\d\d ms$", out, re.MULTILINE)
    percents = {
        name: float(percent)
        for percent, name in re.findall(r"^ +[\d.]+ +([\d.]+) +\d* +([a-z ,]+)$", out, re.MULTILINE)
    }
    assert {"matrix products", "attention", "elementwise and norms", "idle"} <= set(percents)
    assert sum(percents.values()) == pytest.approx(100, abs=3)
    assert "torch_gpt done steps=3" in out
