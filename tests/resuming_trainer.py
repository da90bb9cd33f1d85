"""A small trainer that goes on from checkpoints, for any Python: a process a node, no torch.

It stands in for torch alone, whose start takes the time of a hundred of its steps: linear
regression by SGD with momentum, the gradients summed over the nodes' real connections to node
rank 0, which dies with any of them, as training does. Its lines are torch_gpt's. LIE in its
environment has it lose something when it goes on: `optimizer`, `data` or `step`. Real training that
goes on is proved by tests/torch_gpt/test_checkpoints.py and tests/on_nodes/test_goodput.py.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from pathlib import Path
from typing import Any

STARTED_AT = time.time()
SIZE, BATCH, RATE, MOMENTUM = 8, 8, 0.02, 0.9
LIE = os.environ.get("LIE", "")


def say(*words: str) -> None:
    """Print a line at once."""
    print("torch_gpt", *words, flush=True)


def sample(number: int) -> tuple[list[float], float]:
    """Return a sample's inputs and its target; no two are alike."""
    dice = random.Random(f"sample {number}")  # no secret
    inputs = [dice.gauss(0, 1) for _ in range(SIZE)]
    return inputs, sum(x * (i + 1) for i, x in enumerate(inputs)) + dice.gauss(0, 0.5)


def gradient(weights: list[float], first: int, rank: int, nodes: int) -> list[float]:
    """Return this node's part of a batch's gradient, and of its loss behind that."""
    total = [0.0] * (SIZE + 1)
    for number in range(first + rank, first + BATCH, nodes):
        inputs, target = sample(number)
        off = sum(w * x for w, x in zip(weights, inputs)) - target  # noqa: B905  # Python 3.8
        for i, x in enumerate(inputs):
            total[i] += 2 * off * x / BATCH
        total[SIZE] += off * off / BATCH
    return total


class Ring:
    """The sum over all nodes, by way of node rank 0."""

    def __init__(self, rank: int, nodes: int, address: str, port: int) -> None:
        self.rank, self.files = rank, list[Any]()
        if rank == 0:
            with socket.create_server(("", port)) as server:
                self.links = [server.accept()[0] for _ in range(nodes - 1)]
        else:
            self.links = [self.reach(address, port)]
        for link in self.links:
            link.settimeout(60)
        self.files = [link.makefile("rw") for link in self.links]

    @staticmethod
    def reach(address: str, port: int) -> socket.socket:
        until = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection((address, port), 5)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def sum(self, values: list[float]) -> list[float]:
        if self.rank:
            self.send(self.files[0], values)
            return self.hear(self.files[0])
        # In the order of arrival of the links: sums of floats would differ, so they are sorted.
        parts = sorted(self.hear(file) for file in self.files)
        total = [sum(each) for each in zip(values, *parts)]  # noqa: B905  # Python 3.8
        for file in self.files:
            self.send(file, total)
        return total

    @staticmethod
    def send(file: Any, values: list[float]) -> None:
        file.write(json.dumps(values) + "\n")
        file.flush()

    @staticmethod
    def hear(file: Any) -> list[float]:
        line = file.readline()
        if not line:
            raise OSError("another node has gone")
        return [float(each) for each in json.loads(line)]


def newest(folder: Path) -> dict[str, Any]:
    """Return the newest checkpoint, or the beginning."""
    found = sorted(folder.glob("step-*.json"))
    if not found:
        return {"iteration": 0, "weights": [0.0] * SIZE, "momentum": [0.0] * SIZE}
    state: dict[str, Any] = json.loads(found[-1].read_text())
    if LIE == "optimizer":
        state["momentum"] = [0.0] * SIZE
    if LIE == "data":
        state["data"] = 0
    if LIE == "step":
        state["iteration"] += 1
    return state


def save(folder: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint, durably, and say what it took."""
    began = time.perf_counter()
    text, path = json.dumps(state), folder / f"step-{state['iteration']:06d}.json"
    with open(folder / "partial", "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(folder / "partial", path)
    took = time.perf_counter() - began
    words = f"stall_s={took:.4f} durable_s={took:.4f} write_s={took:.4f} bytes={len(text)}"
    say("checkpoint", f"step={state['iteration']}", words)


def main(rank: int, nodes: int, address: str, port: int, folder: Path) -> None:
    """Train; STEPS, STEP_S and INTERVAL of the environment say how much."""
    steps, interval = int(os.environ["STEPS"]), int(os.environ.get("INTERVAL", "0"))
    loading = time.time()
    state = newest(folder)
    ring = Ring(rank, nodes, address, port)
    began = time.time()
    if rank == 0:
        took = f"start_s={began - STARTED_AT:.3f} load_s={began - loading:.3f} bytes=1"
        say("resumed", f"step={state['iteration']}", f"at={began:.3f}", took)
    weights, momentum = state["weights"], state["momentum"]
    behind = state["iteration"] - state.get("data", state["iteration"])
    clock = time.perf_counter()
    for step in range(state["iteration"] + 1, steps + 1):
        time.sleep(float(os.environ.get("STEP_S", "0.02")))
        *slopes, loss = ring.sum(gradient(weights, (step - 1 - behind) * BATCH, rank, nodes))
        for i, slope in enumerate(slopes):
            momentum[i] = MOMENTUM * momentum[i] + slope
            weights[i] -= RATE * momentum[i]
        if "WRITES" in os.environ:  # as caches and logs do: a full disk ends it
            Path(os.environ["TMPDIR"], "cache").write_bytes(b"." * (1 << 18))
        paused = 0.0
        if rank == 0 and interval and step % interval == 0 and step < steps:
            saving = time.perf_counter()
            save(folder, {"iteration": step, "weights": weights, "momentum": momentum})
            paused = time.perf_counter() - saving
        now = time.perf_counter()
        ms, clock = 1000 * (now - clock - paused), now
        if rank == 0:
            say(
                f"step={step}/{steps}",
                f"samples_per_s={1000 * BATCH / ms:.2f} step_time_ms={ms:.3f} loss={loss:.5f}",
                "grad_norm=1.0 skipped=0 nan=0 memory_used_mib=- memory_rss_mib=1.0",
                f"paused_ms={1000 * paused:.2f}",
            )


if __name__ == "__main__":
    try:
        own, of = int(sys.argv[1]), int(sys.argv[2])
        main(own, of, sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
    except OSError as error:
        sys.exit(f"torch_gpt error: lost contact with another node: {error}")
