"""What sampling a node once a second costs it: the sampler's own CPU time, children included.

    python -m benchmarks.sampling [--device cpu|cuda|npu] [--seconds 30]

The sampler runs as the supervisor starts it, twice: shortly, and for so many seconds longer. The
difference of their CPU times is what sampling costs; the short one is what starting it costs. The
aim is under 1 % of a core.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from plugins.program import command, message

SAMPLER = "sampler:sample"
SHORT_S = 1.5
AIM = 0.01


def cpu_s(device: str, seconds: float) -> tuple[float, int]:
    """CPU seconds of a sampler that lived so long, children that ended included; lines written."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "samples.csv"
        spec = {"device": device, "path": str(out)}
        argv = [sys.executable, "-I", "-S", *command(SAMPLER), message(SAMPLER, spec)]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        if os.WTERMSIG(status) != signal.SIGKILL:
            raise SystemExit(f"the sampler for {device} ended by itself; is its tool installed?")
        process.returncode = -signal.SIGKILL
        return used.ru_utime + used.ru_stime, len(out.read_bytes().splitlines())


def main() -> int:
    """Measure and print; 1 where the aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "npu"))
    parser.add_argument("--seconds", type=float, default=30.0)
    chosen = parser.parse_args()
    start, _ = cpu_s(chosen.device, SHORT_S)
    whole, lines = cpu_s(chosen.device, SHORT_S + chosen.seconds)
    share = (whole - start) / chosen.seconds
    print(f"{chosen.device}: {share:.3%} of a core at 1 Hz, {start * 1000:.0f} ms to start")
    print(f"{lines} lines; load average {os.getloadavg()[0]:.1f}")
    return int(share > AIM)


if __name__ == "__main__":
    sys.exit(main())
