"""A stand-in for torch_gpt's environment: its `python3` is a small script that acts as told.

Stands in for torch alone, at the boundary where the supervisor execs the launcher: what plans,
launches, tails, ends and collects is real. It prints torch_gpt's lines, and misbehaves as the
variable ACT of the cell's `env` says. Real training is proved by tests/on_nodes/test_training.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from runner.systems.common.pins import pins

# Where test nodes see it (they hide /tmp). A worker of the tests has its own: install makes it
# anew, which must not happen under another one's runs.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
FOLDER = Path(__file__).parents[1] / "build" / "stand-in" / WORKER
TRAINER = """#!{python} -IS
import os, signal, subprocess, sys, time
act = os.environ.get("ACT", "")
argv = sys.argv
if "-c" in argv:  # on Slurm the environment's Python runs the node's supervisor, too
    os.execv("{python}", ["{python}", *argv[1:]])
rank = int(argv[argv.index("--node_rank") + 1])
mine = rank == int(os.environ.get("ACT_RANK", "0"))
steps = int(argv[argv.index("--train-iters") + 1])
step_s = float(os.environ.get("STEP_S", "0.01"))
if act == "show":
    print("ARGV", repr(argv[1:]), flush=True)
    print("VALUE", repr(os.environ.get("VALUE")), flush=True)
if act == "events":
    board = os.path.dirname(os.readlink("/proc/self/fd/1")) + "/tensorboard"
    os.makedirs(board, exist_ok=True)
    with open(board + "/events.out.tfevents.1.host", "wb") as events:
        events.write(bytes(range(256)))
    os.symlink("/etc/passwd", board + "/tfevents.link")
if "HF_TOKEN" in os.environ:
    print("TOKEN of", len(os.environ["HF_TOKEN"]), "letters", flush=True)
if act == "no_step":
    sys.exit(0)
if act == "fail_first" and mine:
    print("torch_gpt error: the stand-in was told to fail", file=sys.stderr, flush=True)
    sys.exit(1)
if act == "daemon":
    subprocess.Popen(["setsid", "sleep", "1000"], env={{}})
if act == "orphan" and mine:
    subprocess.Popen(["sleep", "1000"])
if act == "rubbish":
    os.write(1, bytes(range(256)) * 4096 + b"\\x1b[2J\\r")
if act == "flood" and mine:
    line = "x" * 1023 + "\\n"
    for _ in range(int(os.environ["FLOOD_MIB"])):
        sys.stdout.write(line * 1024)
for step in range(1, steps + 1):
    time.sleep(step_s)
    if mine and act == "exit_3" and step == 3:
        print("ValueError: the stand-in failed at step 3", file=sys.stderr, flush=True)
        sys.exit(3)
    if mine and act == "segfault" and step == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if mine and act == "orphan" and step == 3:
        os._exit(5)
    if mine and act == "eat" and step == 3:
        eaten = [bytearray(1 << 20) for _ in range(1 << 14)]
    while act == "wait" and step == 3 and not os.path.exists(os.environ["WAIT_FOR"]):
        time.sleep(0.02)
    if act == "hang_one" and step == 3 and not mine:
        time.sleep(1000)  # as in a collective that one rank never joins
    if (act == "hang" or act == "hang_one" and mine) and step == 3:
        child = subprocess.Popen(["sleep", "1000"])
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    if rank == 0:
        loss = 8.0 / (1 + step / 10)
        print(
            f"torch_gpt step={{step}}/{{steps}} samples_per_s={{16 / step_s:.2f}}"
            f" step_time_ms={{step_s * 1000:.2f}} loss={{loss:.5f}} grad_norm=1.0 lr=1e-3"
            " skipped=0 nan=0 memory_allocated_mib=- memory_used_mib=100.0",
            flush=True,
        )
"""


def install(root: Path, python: str) -> None:
    """Put the stand-in and a tiny dataset where setup would put the real ones. `python` runs it."""
    shutil.rmtree(root, ignore_errors=True)
    pin = next(iter(pins("torch_gpt")))
    home = root / "systems" / "torch_gpt" / pin
    (home / "src").mkdir(parents=True)
    (home / "src" / "train.py").write_text("# the stand-in's trainer is env/bin/python3\n")
    program = home / "env" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text(TRAINER.format(python=python))
    program.chmod(0o755)
    (home / "installed.json").write_text(json.dumps({"schema": 1, "identity": {"stand-in": "1"}}))
    data = root / "datasets" / "default"
    data.mkdir(parents=True)
    sizes = {"default_text_document.bin": 2000, "default_text_document.idx": 42}
    for name, size in sizes.items():
        (data / name).write_bytes(b"\0" * size)
    sums = {name: hashlib.sha256(b"\0" * size).hexdigest() for name, size in sizes.items()}
    manifest = {"documents": 1000, "tokens": 1_000_000, "bytes": sizes, "sha256": sums}
    (data / "dataset.json").write_text(json.dumps(manifest))
