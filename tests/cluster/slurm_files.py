"""Slurm's configuration of a test cluster, as text: what a site's administrator writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

DEVICES = 2  # fake GPUs of a node: plain files, which Slurm counts and hands out all the same
CPUS = 8  # declared, whatever the machine has: several jobs fit on a node
MEMORY_MIB = 16000
MUNGE_KEY = "/etc/trainbench-munge.key"
# starts the daemons that are named after it
START = (str(Path(__file__).resolve().parent / "slurm.sh"), MUNGE_KEY)
JOBS_ENDED = "/var/log/slurm_jobcomp.log"
USER = "trainer"
UID = 20000

CGROUP_CONF = "CgroupPlugin=cgroup/v1\n"
GRES_CONF = f"Name=gpu File=/dev/fakegpu[0-{DEVICES - 1}]\n"

# What decides how fast a test gets its answer stands far below a site's values; what a client sees
# of a controller that is away (MessageTimeout) is Slurm's own.
DEFAULTS = {
    "AuthType": "auth/munge",
    "SlurmUser": "root",
    "StateSaveLocation": "/var/spool/slurmctld",
    "SlurmdSpoolDir": "/var/spool/slurmd",
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmdPidFile": "/run/slurmd.pid",
    "SlurmctldLogFile": "/var/log/slurmctld.log",
    "SlurmdLogFile": "/var/log/slurmd.log",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "MpiDefault": "none",
    "GresTypes": "gpu",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerCPU": 1000,
    "SlurmdParameters": "config_overrides",
    "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=1",
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
    "TopologyPlugin": "topology/tree",
    "JobAcctGatherType": "jobacct_gather/linux",
    "JobAcctGatherFrequency": 1,
    "JobCompType": "jobcomp/filetxt",
    "JobCompLoc": JOBS_ENDED,
    "AccountingStorageType": "accounting_storage/none",
    "MinJobAge": 300,
    "KillWait": 3,
    "SlurmdTimeout": 20,
    "ReturnToService": 2,
}
DATABASE = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageHost": "node1",
    "AccountingStorageTRES": "gres/gpu",
}


def slurm_conf(
    name: str, login: str, compute: Mapping[str, str], settings: Mapping[str, object]
) -> str:
    """slurm.conf; ``compute`` maps host to address, ``settings`` win over DEFAULTS.

    The first half of the nodes has the feature `fast` and is the partition `small`; jobs of `low`
    are preempted by those of other partitions.
    """
    hosts = list(compute)
    first, _ = halves(hosts)
    lines = [f"ClusterName={name}", f"SlurmctldHost={login}"]
    lines += [f"{key}={value}" for key, value in {**DEFAULTS, **settings}.items()]
    lines += [
        f"NodeName={host} NodeAddr={address} CPUs={CPUS} RealMemory={MEMORY_MIB}"
        f" Gres=gpu:{DEVICES} Feature={'fast' if host in first else 'slow'} State=UNKNOWN"
        for host, address in compute.items()
    ]
    every, few = ",".join(hosts), ",".join(first)
    lines += [
        f"PartitionName=main Nodes={every} Default=YES PriorityTier=10 PreemptMode=OFF",
        f"PartitionName=small Nodes={few} MaxTime=60 PriorityTier=10 PreemptMode=OFF",
        f"PartitionName=low Nodes={every} PriorityTier=1 PreemptMode=REQUEUE",
        f"PartitionName=high Nodes={every} PriorityTier=100 PreemptMode=OFF",
    ]
    return "\n".join(lines) + "\n"


def topology_conf(hosts: Sequence[str]) -> str:
    """Two leaf switches below one, each with half of the nodes."""
    leaves = [half for half in halves(hosts) if half]
    lines = [f"SwitchName=leaf{k} Nodes={','.join(half)}" for k, half in enumerate(leaves)]
    return "\n".join([*lines, f"SwitchName=top Switches=leaf[0-{len(leaves) - 1}]"]) + "\n"


def halves(hosts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The first half of the nodes, the larger one, and the second."""
    middle = (len(hosts) + 1) // 2
    return list(hosts[:middle]), list(hosts[middle:])
