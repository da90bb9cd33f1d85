"""Real Slurm on test nodes: node1 is the login node with the controller, the others compute.

    with SlurmCluster(nodes=4) as slurm:
        slurm.run(["sbatch", "--wait", "--wrap", "srun hostname"], check=True)
        slurm.run(["python", "-m", "runner", "bench", "-i", str(slurm.inventory), ...])

Commands of ``run`` are an ordinary user's (`trainer`), whose home lies on the shared folder; so are
jobs, which Slurm starts as whoever submitted them.  munge and Slurm are Debian's own; partitions,
features and fake GPUs stand in slurm_files.py.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .cluster import Cluster
from .inventory import interpreter, write_local_inventory
from .node import ENVIRONMENT, Node
from .setup import CHECKOUT
from .slurm_database import checked, start_database
from .slurm_files import (
    CGROUP_CONF,
    DATABASE,
    DEVICES,
    GRES_CONF,
    JOBS_ENDED,
    MUNGE_KEY,
    START,
    UID,
    USER,
    slurm_conf,
    topology_conf,
)
from .system import ClusterError, RefusedError, wait_for, which

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
READY_S = 30.0
QUIET_S = 2.0  # what jobs that end may take to go, and cancelled ones
CANCEL_S = 10.0


def lacks_slurm() -> str | None:
    """What this machine lacks for Slurm, as one sentence; None when nothing."""
    lacking = [program for program in PROGRAMS if which(program) is None]
    return f"Slurm needs {', '.join(lacking)}: run tools/system-packages" if lacking else None


class SlurmCluster:
    """``nodes`` compute nodes and a login node; other options as Cluster's.

    ``settings`` are lines of slurm.conf that win over slurm_files.DEFAULTS.  ``database`` brings
    slurmdbd up, too (its packages are installed in the login node, from the network).
    """

    def __init__(
        self,
        nodes: int = 4,
        *,
        settings: Mapping[str, object] | None = None,
        database: bool = False,
        variables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Check the options; nothing is made before ``up``."""
        self.cluster = Cluster(nodes + 1, **options)
        self._settings = {**(settings or {}), **(DATABASE if database else {})}
        self._database = database
        self._variables = dict(variables or {})

    @classmethod
    def load(cls, name: str) -> SlurmCluster:
        """The one that is up under this name; raises ClusterError when none is."""
        found = cls.__new__(cls)
        found.cluster = Cluster.load(name)
        if not found.cluster.record.slurm_conf.exists():
            raise RefusedError(f"cluster {name} has no Slurm: remove it first (down --name {name})")
        found._variables = {}
        return found

    @property
    def login(self) -> Node:
        """The login node: the controller runs there, jobs do not."""
        return self.cluster.nodes[0]

    @property
    def compute(self) -> list[Node]:
        """The nodes that jobs run on."""
        return self.cluster.nodes[1:]

    @property
    def shared(self) -> Path:
        """The shared folder; the user's, at the same path on every node and here."""
        return self.cluster.shared

    @property
    def inventory(self) -> Path:
        """An inventory folder for the Slurm engine, on the shared folder."""
        return self.shared / "inventory"

    def __enter__(self) -> SlurmCluster:
        return self.up()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    # Up and down

    def up(self, *, stay: bool = False) -> SlurmCluster:
        """Bring nodes and Slurm up, and wait until every node is idle; ``stay`` as Cluster's."""
        lacking = lacks_slurm()
        if lacking:
            raise RefusedError(lacking)
        self.cluster.up(stay=stay)
        try:
            os.chown(self.shared, UID, UID)
            (self.shared / "home").mkdir()
            os.chown(self.shared / "home", UID, UID)
            self.cluster.record.slurm_conf.write_text(self._slurm_conf())
            for node in self.cluster.nodes:
                self._prepare(node)
            self.write_inventory(self.inventory)
            if self._database:
                start_database(self.login)
            self.start_daemons()
            self.until_idle()
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """Remove the cluster without a trace."""
        self.cluster.down()

    def _prepare(self, node: Node) -> None:
        """Write what a site's administrator would: the user, the key, Slurm's configuration."""
        root = Path(f"/proc/{node.pid}/root")
        for file, line in (
            ("passwd", f"{USER}:x:{UID}:{UID}::{self.shared}/home:/bin/bash\n"),
            ("group", f"{USER}:x:{UID}:\n"),
        ):
            with (root / "etc" / file).open("a") as out:
                out.write(line)
        # a checkout or a Python below /root: the user may pass, in the node's own layer alone
        for path in (CHECKOUT, Path(interpreter()).parent):
            for parent in [*path.parents, path]:
                mode = (root / str(parent)[1:]).stat().st_mode
                (root / str(parent)[1:]).chmod(mode | 0o011)
        (root / "etc/slurm").mkdir(exist_ok=True)
        (root / "etc/slurm/cgroup.conf").write_text(CGROUP_CONF)
        (root / "etc/slurm/gres.conf").write_text(GRES_CONF)
        hosts = [each.hostname for each in self.compute]
        (root / "etc/slurm/topology.conf").write_text(topology_conf(hosts))
        (root / "etc/slurm/slurm.conf").write_text(self.cluster.record.slurm_conf.read_text())
        # the user's: `sacct -c` opens it for writing, whoever asks
        (root / JOBS_ENDED[1:]).touch()
        os.chown(root / JOBS_ENDED[1:], UID, UID)
        key = root / MUNGE_KEY[1:]
        key.touch(mode=0o600)
        key.write_bytes(self._munge_key())

    def _munge_key(self) -> bytes:
        file = self.cluster.directory / "munge.key"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_bytes(secrets.token_bytes(128))
        return file.read_bytes()

    def _slurm_conf(self) -> str:
        addresses = {node.hostname: node.address for node in self.compute}
        login = f"{self.login.hostname}({self.login.address})"
        return slurm_conf(f"tb{self.cluster.name}", login, addresses, self._settings)

    def start_daemons(self) -> None:
        """Start what does not run of Slurm."""
        jobs = []
        for node in self.cluster.nodes:
            daemons = ["munged", "slurmctld" if node is self.login else "slurmd"]
            start = [*START, *daemons]
            jobs.append(node.popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
        for node, job in zip(self.cluster.nodes, jobs, strict=True):
            said = job.communicate(timeout=READY_S)[1]
            if job.returncode != 0:
                raise ClusterError(f"{node.hostname}: Slurm did not start: {said.strip()}")

    def until_idle(self) -> None:
        """Wait until every compute node is idle; raises ClusterError."""
        if not wait_for(lambda: set(self.states().values()) == {"idle"}, READY_S, 0.05):
            raise ClusterError(f"Slurm's nodes are not idle: {self.states()}")

    def write_inventory(self, folder: Path, variables: Mapping[str, Any] | None = None) -> Path:
        """Write an inventory of the login node alone, for the Slurm engine; returns the folder."""
        values = {
            "cluster_engine": "slurm",
            "cluster_root": str(self.shared / "root"),
            "cluster_scratch": "/scratch",
            "cluster_devices_per_node": DEVICES,
            "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0"},
            "setup_privileged": False,
            "slurm_nodes": len(self.compute),
            "slurm_gpus_per_node": DEVICES,
        }
        values.update({**self._variables, **(variables or {})})
        return write_local_inventory(folder, "login", values)

    # Work

    def argv(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> list[str]:
        """The command as the user runs it from the checkout, for ``login.exec``, ``enter``."""
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}",
            "HOME": f"{self.shared}/home",
            "USER": USER,
            "LOGNAME": USER,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            **(env or {}),
        }
        become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        words = [f"{name}={value}" for name, value in environment.items()]
        # a change of user clears the wish to die with the caller: say it again
        return [*become, "--pdeathsig", "KILL", "env", "-i", f"--chdir={CHECKOUT}", *words, *argv]

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """Run a command on the login node as the user; further options as Node.exec's."""
        return self.login.exec(self.argv(argv, env), **options)

    def popen(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a command on the login node as the user; further options as Node.popen's."""
        return self.login.popen(self.argv(argv, env), **options)

    def slurm(self, *argv: str) -> str:
        """Run one of Slurm's commands as its administrator; raises ClusterError where it fails."""
        return str(checked(self.login.exec(argv)).stdout)

    def states(self) -> dict[str, str]:
        """The state of each compute node as sinfo prints it; {} without a controller."""
        done = self.login.exec(["sinfo", "-h", "-p", "main", "-N", "-o", "%N %T"])
        return dict(line.split() for line in done.stdout.splitlines())

    def jobs(self) -> list[str]:
        """Jobs that are queued, run or end, one line each: id, name, state."""
        return self.slurm("squeue", "-h", "-o", "%i %j %T").splitlines()

    # Faults

    def controller_down(self) -> None:
        """Stop the controller: commands get no answer (after 9 s), jobs run on.

        It writes down what it knows; a killed one takes jobs that ended just before for running.
        """
        self.slurm("scontrol", "shutdown", "slurmctld")
        gone = wait_for(lambda: self.login.exec(["pidof", "slurmctld"]).returncode != 0, READY_S)
        if not gone:
            raise ClusterError("slurmctld does not end")

    def controller_up(self) -> None:
        """Start the controller again, which knows its jobs from its state folder."""
        checked(self.login.exec([*START, "munged", "slurmctld"]))
        if not wait_for(lambda: bool(self.states()), READY_S, 0.05):
            raise ClusterError("slurmctld does not answer")

    def node_up(self, node: Node) -> None:
        """Give a node its power and its daemons back, and the controller the node."""
        node.boot()
        self.start_daemons()
        self._resume([node.hostname])

    def _resume(self, hosts: Sequence[str]) -> None:
        # refused for a node that came back by itself
        self.login.exec(["scontrol", "update", f"nodename={','.join(hosts)}", "state=resume"])

    def node_down(self, node: Node) -> None:
        """Cut a node's power, and let the controller know, as a site's health check would."""
        node.kill()
        words = [f"nodename={node.hostname}", "state=down", "reason=power cut"]
        self.slurm("scontrol", "update", *words)

    def configure(self, **settings: object) -> None:
        """Change lines of slurm.conf (MinJobAge=2, say) until ``heal``."""
        lines = self.cluster.record.slurm_conf.read_text().splitlines(keepends=True)
        kept = [line for line in lines if line.partition("=")[0] not in settings]
        self._reconfigure("".join([*kept, *(f"{key}={v}\n" for key, v in settings.items())]))

    def _reconfigure(self, text: str) -> None:
        for node in self.cluster.nodes:
            if node.pid is not None:
                Path(f"/proc/{node.pid}/root/etc/slurm/slurm.conf").write_text(text)
        self.slurm("scontrol", "reconfigure")

    def heal(self) -> list[str]:
        """Undo every fault, end jobs and processes; returns what was left running, in words."""
        self.cluster.revive()
        self.start_daemons()
        self.controller_up()
        wait_for(lambda: not self.jobs(), QUIET_S, 0.05)
        left = [f"job {line}" for line in self.jobs()]
        if left:
            self.slurm("scancel", *(line.split()[1] for line in left))
            wait_for(lambda: not self.jobs(), CANCEL_S, 0.05)
        left += [
            f"{host}: pid {pid}: {' '.join(argv)}"
            for host, processes in self.cluster.heal().items()
            for pid, argv in processes
        ]
        conf = Path(f"/proc/{self.login.pid}/root/etc/slurm/slurm.conf")
        if conf.read_text() != self.cluster.record.slurm_conf.read_text():
            self._reconfigure(self.cluster.record.slurm_conf.read_text())
        odd = [host for host, state in self.states().items() if state != "idle"]
        self._resume(odd)
        self.until_idle()
        return left
