"""What the nodes of an allocation are: each says it into the checkup's folder, which they share."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePosixPath

from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.checkup import Checkup
from runner.folder.stored import SCHEMA, write_json
from runner.launch.engine import Surveyed
from runner.launch.slurm import handover
from runner.launch.slurm.job_script import srun_argv
from runner.launch.slurm.program import PYTHON, argv, leave
from runner.launch.slurm.step import Allocation, start
from runner.terms.engines.slurm import Slurm

SAY = "facts.survey:leave"
SAY_S = 600.0  # each tool that a node asks has half a minute
INTERFACES = "SOCKET_IFNAME"  # ends the names of variables that choose some


def survey(
    allocation: Allocation, slurm: Slurm, checkup: Checkup, cancelled: Callable[[], bool]
) -> Surveyed:
    """Ask each node of an allocation what it is, as far as a run may have it."""
    hosts, cluster = allocation.hosts[: slurm.nodes], allocation.cluster
    node, folder = cluster.nodes[0], checkup.path.resolve()
    (folder / names.ENVS).mkdir(mode=0o700, exist_ok=True)
    interfaces = [value for name, value in cluster.env.items() if name.endswith(INTERFACES)]
    spec = {
        "folder": str(folder / names.ENVS),
        "read": {"root": str(node.root), "interfaces": interfaces},
        "expected": {"device": cluster.device, "devices": node.devices},
    }
    leave(SAY, folder)
    output = folder / names.SUBMIT_OUTPUT
    output.unlink(missing_ok=True)
    step = srun_argv(
        slurm,
        len(hosts),
        argv(PYTHON, SAY, folder, spec),
        job_id=allocation.job_id,
        nodelist=hosts,
        output=PurePosixPath(output),
        overlap=True,
    )
    until = time.monotonic() + SAY_S
    with start(step, {}, output) as process:
        while process.poll() is None:
            if cancelled() or time.monotonic() > until:
                process.terminate()  # srun ends its step
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
    message = handover.last_words(RunFolder(folder)) or "it said nothing"
    silent = [host for host in hosts if not (folder / names.ENVS / names.of_host(host)).exists()]
    if len(silent) == len(hosts):
        raise UserError(f"the nodes {','.join(hosts)} could not be asked: {message}")
    for host in silent:
        write_json(folder / names.ENVS / names.of_host(host), {"unreachable": message})
    facts_by_host = {host: {"lost": host in silent, "failures": []} for host in hosts}
    write_json(
        folder / names.ASKED,
        {"schema": SCHEMA, "at": time.time(), "roles": [], "nodes": facts_by_host},
    )
    return Surveyed(hosts, message)
