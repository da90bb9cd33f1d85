"""Real test nodes on one Linux machine, as root.

A node is a network namespace on a bridge of its own cluster, plus mount, UTS, IPC, PID and
cgroup namespaces over an overlay of ``/``: its own address, hostname, process table, /tmp, /run,
/dev/shm and sshd.  What is installed in one node shows neither in another nor on the machine.

    with Cluster(nodes=4, variables={"devices_per_node": 2}) as cluster:
        subprocess.run(["ansible", "-i", str(cluster.inventory), "nodes", "-m", "ping"])
        cluster.nodes[3].link(False)

By hand: ``python -m tests.cluster --help``.  In pytest: ``tests/cluster/fixtures.py``.  With Slurm
on them: ``tests/cluster/slurm.py``.

What a node is not: a security boundary (its root can reach the machine), nor a machine with a
kernel and a clock of its own.  The node sees the machine's files through the overlay; a path that
a node looked up before the machine created it may stay "not there" for that node, so create what
nodes shall share (a virtual environment, say) before the cluster is up, or copy it over ssh.
"""

from .cluster import Cluster
from .node import Node
from .system import ClusterError

__all__ = ["Cluster", "ClusterError", "Node"]
