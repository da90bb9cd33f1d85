"""One rank of the trainer in a process that has imported torch already.

Importing it takes most of a short run: multiprocessing's fork server does so once for all of them.
"""

import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# What the trainer imports, for the fork server: the first of them only when it is used.
import torch._dynamo
import torch.distributed.fsdp
import torch.distributed.optim
import torch.distributed.pipelining
import torch.distributed.tensor.parallel

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])
LIMIT_S = 500  # a busy machine takes minutes to compile a whole model


def run(argv: Sequence[str], environ: Mapping[str, str], out: Path, err: Path) -> None:
    """Be the program `argv`, with these variables besides, and what it prints in two files."""
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), stream)
    os.environ.update(environ)
    torch.set_num_threads(int(environ["OMP_NUM_THREADS"]))  # read when torch was loaded, before
    sys.argv = list(argv)
    sys.path[:0] = [str(Path(argv[0]).parent), *environ["PYTHONPATH"].split(os.pathsep)]
    runpy.run_path(argv[0], run_name="__main__")


def run_all(
    argvs: Sequence[Sequence[str]], places: Sequence[Mapping[str, str]], folder: Path
) -> tuple[int, str, str]:
    """Run a rank a place; the worst exit status, and what they printed."""
    out, err = folder / "out", folder / "err"
    for path in (out, err):
        path.touch()
    ranks = [
        FORKS.Process(target=run, args=(argv, place, out, err))
        for argv, place in zip(argvs, places, strict=True)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(LIMIT_S)
        process.kill()
    status = max(abs(process.exitcode or 0) for process in ranks)
    return status, out.read_text(), err.read_text()
