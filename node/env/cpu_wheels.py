"""Choose torch for nodes without GPUs: the small build, or the large one after a yes.

The torch of a package index for Linux on x86_64 needs the CUDA libraries: 3 GB to download and
4.8 GB on the disk of each node. PyTorch's own index has builds without them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from typing import TYPE_CHECKING

from node.files import write_text
from node.mirrors import mirrored

from .environment import EnvError, Environment
from .interpreter import clean

if TYPE_CHECKING:
    from .pins import Spec

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_TORCH = re.compile(r"torch==[\w.]+")
_CUDA = re.compile(r"(nvidia|cuda)-", re.IGNORECASE)
ASKING_S = 120  # for the metadata of one wheel


def cpu_index(spec: Spec) -> list[str]:
    """Return the line of pip's requirements file that names PyTorch's index of CPU builds."""
    address = mirrored(CPU_INDEX, spec["mirrors"].get("pip"))
    return [f"{'--find-links' if address.startswith('/') else '--extra-index-url'} {address}"]


def for_cpus(env: Environment, lines: list[str], indexes: list[str]) -> list[str]:
    """Return further lines that make pip choose torch without CUDA; none where it does anyway,
    where no torch is asked for, or on nodes with GPUs. Raises EnvError where only the large one can
    be had and nobody said yes.
    """
    pin = next((line for line in lines if _TORCH.fullmatch(line)), None)
    if not env.spec.get("cpu") or pin is None or "--no-index" in indexes:
        return []
    if not brings_cuda(env, [*indexes, pin]):
        return []
    more = cpu_index(env.spec)
    if brings_cuda(env, [*indexes, *more, pin]) is False:
        return more
    if env.spec.get("cuda_accepted"):
        return []
    raise EnvError(
        f"{pin} would install CUDA libraries on a node without GPUs (3 GB to download, 4.8 GB on"
        f" disk), because pip cannot get a build for CPUs from {CPU_INDEX} or its mirror. Set"
        " python_env_find_links to a page or folder with CPU wheels, set a mirror of that index in"
        " site_mirrors, or accept CUDA with `trainbench setup --yes` (`ci` and `bisect`: setup_yes:"
        " true in the inventory)"
    )


def brings_cuda(env: Environment, lines: list[str]) -> bool | None:
    """Return whether pip would choose a torch that needs CUDA; None where pip cannot say."""
    with tempfile.TemporaryDirectory(prefix="trainbench-pip-") as scratch:
        requirements, report = (
            os.path.join(scratch, file_name) for file_name in ("requirements.txt", "report")
        )
        write_text(requirements, "".join(f"{line}\n" for line in lines))
        argv = [env.python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        argv += [
            "--dry-run",
            "--ignore-installed",
            "--no-deps",
            "--retries",
            "0",
            "--timeout",
            "15",
        ]
        try:
            subprocess.run(
                [*argv, "--report", report, "-r", requirements],
                env=clean(env.spec["environment"]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=env.home,
                timeout=ASKING_S,
                check=True,
            )
            with open(report, encoding="utf-8") as file:
                (chosen,) = json.load(file)["install"]
            needs = chosen["metadata"].get("requires_dist", [])
            return any(_CUDA.match(requirement) for requirement in needs)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError):
            return None
