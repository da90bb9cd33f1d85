"""A trainer's folder with its matrix in it: the campaign grows with that, and nothing else may.

bench, Ansible, the supervisor and the trainer (a script) are real, on this machine.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.golden.places import stood_in

TRAINER = """\
import sys, time
for step in range(1, 4):
    time.sleep(0.05)
    print(f"step={step} loss={1 / step:.3f} samples/s={sys.argv[1]}", flush=True)
"""


def test_it_grows_and_a_changed_program_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINER)
    inventory = stood_in(tmp_path / "here", tmp_path / "root", cluster_devices_per_node=1)

    def bench(*batches: int) -> subprocess.CompletedProcess[str]:
        python = os.path.realpath(sys.executable)
        matrix = {
            "name": "m",
            "defaults": {
                **{"system": "command", "nodes": 1, "devices_per_node": 1, "cwd": str(folder)},
                **{"argv": [python, "train.py", "{batch}"]},
                "log": {"step": r"step=(?P<iteration>\d+) loss=(?P<loss>\S+)"},
            },
            "axes": {"batch": list(batches)},
        }
        (folder / "matrix.yaml").write_text(json.dumps(matrix))
        words = ["bench", str(folder / "matrix.yaml"), "-i", str(inventory)]
        argv = [sys.executable, "-m", "runner", *words, "--runs", str(tmp_path / "runs")]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400)

    first = bench(8)
    assert first.returncode == 0, first.stderr
    grown = bench(8, 16)
    assert grown.returncode == 0, grown.stderr
    assert "2 runs, 1 already done" in grown.stderr
    (folder / "train.py").write_text(TRAINER + "# another one\n")
    refused = bench(8, 16, 32)
    assert refused.returncode == 2, refused.stderr
    assert "(train.py changed)" in refused.stderr
