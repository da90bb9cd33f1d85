"""Command line: ``python -m tests.cluster --help``."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from . import registry
from .cluster import Cluster, remove, sweep
from .inventory import parse_variables, read_variables
from .node import Node
from .slurm import SlurmCluster
from .system import ClusterError, RefusedError, missing

DEFAULT_NAME = "main"
DESCRIPTION = """\
Real test nodes on this one machine: each has an address, a hostname, a file system, a process
table and an sshd of its own. Needs root on Linux. Nothing of the machine is changed, and `down`
leaves no trace.
"""
EXAMPLES = """\
examples:
  python -m tests.cluster up --nodes 4 --var devices_per_node=1
  ansible -i DIR/inventory nodes -m ping      DIR is what `up` and `status` print
  ssh -F DIR/ssh_config node2
  python -m tests.cluster exec node3 -- hostname
  python -m tests.cluster down

exit codes: 0 done; 1 it went wrong; 2 the command line or this machine does not allow it;
130 Ctrl-C. `exec` gives the command's own.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    main = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    name_help = f"the cluster's name: up to 9 small letters and digits (default: {DEFAULT_NAME})"

    up = commands.add_parser("up", help="bring nodes up and write an inventory for them")
    up.add_argument("--nodes", type=int, default=4, help="how many (default: 4)")
    up.add_argument("--name", default=DEFAULT_NAME, help=name_help)
    up.add_argument(
        "--dir", type=Path, help="new or empty folder for keys, inventory and the nodes' disks; "
        "`down` removes it (default: a folder in /var/tmp)"
    )  # fmt: skip
    up.add_argument(
        "--upper-size-mib", type=int, help="keep each node's disk in memory, with this size, "
        "so that it can be full (default: on this machine's disk)"
    )  # fmt: skip
    up.add_argument("--memory-mib", type=int, help="limit each node's memory (default: no limit)")
    kind = up.add_mutually_exclusive_group()
    kind.add_argument(
        "--gpus", action="store_true", help="share this machine's NVIDIA GPUs out over the nodes"
    )
    kind.add_argument(
        "--slurm", action="store_true", help="with Slurm: --nodes compute nodes, and a login node "
        "with the controller before them"
    )  # fmt: skip
    up.add_argument(
        "--var", action="append", default=[], metavar="KEY=VALUE",
        help="variable for the inventory's group_vars/all, its value in YAML; repeatable",
    )  # fmt: skip
    up.add_argument("--var-file", type=Path, help="more of them, in YAML; --var wins")

    down = commands.add_parser("down", help="remove a cluster without a trace")
    which = down.add_mutually_exclusive_group()
    which.add_argument("--name", default=DEFAULT_NAME, help=name_help)
    which.add_argument(
        "--mine", action="store_true", help="every cluster that this checkout brought up"
    )
    which.add_argument("--all", action="store_true", help="every cluster of this machine")

    commands.add_parser("status", help="show the clusters and how their nodes are")

    execute = commands.add_parser("exec", help="run a command in a node, as root and without ssh")
    execute.add_argument("--name", default=DEFAULT_NAME, help=name_help)
    execute.add_argument("node", help="node1, node2, ...")
    execute.add_argument("argv", nargs=argparse.REMAINDER, help="the command, after --")

    login = commands.add_parser("login", help="be a user on a Slurm cluster's login node")
    login.add_argument("--name", default=DEFAULT_NAME, help=name_help)
    login.add_argument("argv", nargs=argparse.REMAINDER, help="a command, after --; default: bash")
    return main


def up(options: argparse.Namespace) -> int:
    """Bring a cluster up, or say that it is up."""
    variables = {**read_variables(options.var_file), **parse_variables(options.var)}
    sweep(options.name)
    record = registry.load(options.name)
    if record is not None:
        if record.checkout != registry.CHECKOUT:
            whose = record.checkout or "another checkout"
            raise RefusedError(
                f"cluster {record.name} belongs to {whose}: give this one another name (--name)"
            )
        if record.owner is not None:
            raise RefusedError(f"cluster {record.name} belongs to process {record.owner.pid}")
        wanted = options.nodes + options.slurm  # the login node is one more
        slurm = record.slurm_conf.exists()
        if (record.nodes, slurm) != (wanted, options.slurm):
            raise RefusedError(
                f"cluster {record.name} is up already with {record.nodes} nodes"
                f"{' and Slurm' if slurm else ''}, not {wanted}"
                f"{' and Slurm' if options.slurm else ''}: remove it first "
                f"(down --name {record.name})"
            )
        print(f"cluster {record.name} is up already; nothing of it was changed")
        teach(Cluster.load(record.name))
        return 0
    kind = SlurmCluster if options.slurm else Cluster
    made = kind(
        options.nodes,
        name=options.name,
        directory=options.dir,
        upper_size_mib=options.upper_size_mib,
        memory_mib=options.memory_mib,
        gpus=Path("/dev") if options.gpus else None,
        variables=variables,
    )
    cluster = made.cluster if isinstance(made, SlurmCluster) else made
    try:
        made.up(stay=True)
        teach(cluster)
    except (KeyboardInterrupt, SystemExit):
        if cluster.nodes:  # complete, but its user does not know it
            cluster.down()
        raise
    return 0


def teach(cluster: Cluster) -> None:
    """Show the cluster and how to use it."""
    show(cluster)
    name = "" if cluster.name == DEFAULT_NAME else f" --name {cluster.name}"
    print("use it:")
    if cluster.record.slurm_conf.exists():
        teach_slurm(SlurmCluster.load(cluster.name), name)
        return
    print(f"  ansible -i {shlex.quote(str(cluster.inventory))} nodes -m ping")
    print(f"  ssh -F {shlex.quote(str(cluster.directory / 'ssh_config'))} node1")
    print(f"  python -m tests.cluster exec{name} node1 -- hostname")
    print(f"  python -m tests.cluster down{name}")


def teach_slurm(slurm: SlurmCluster, name: str) -> None:
    """Show how to use the login node."""
    login = f"python -m tests.cluster login{name}"
    inventory, runs = shlex.quote(str(slurm.inventory)), shlex.quote(f"{slurm.shared}/runs")
    print(f"  {login}                    # a shell of an ordinary user on the login node")
    print(f"  {login} -- sinfo")
    print(f"  {login} -- squeue")
    print(f"  {login} -- ansible-playbook -i {inventory} playbooks/setup.yml")
    print(f"  {login} -- python -m runner bench -i {inventory} --runs {runs} --matrix matrix.yaml")
    print(f"  python -m tests.cluster exec{name} node1 -- scontrol show node   # as root")
    print(f"  python -m tests.cluster down{name}")


def show(cluster: Cluster) -> None:
    """Say where the cluster is and how its nodes are."""
    record = cluster.record
    owner = "" if record.owner is None else f", belongs to process {record.owner.pid}"
    print(f"cluster {cluster.name}: {record.nodes} nodes{owner}")
    for node in cluster.nodes:
        print(f"  {node.hostname}  {node.address}  {', '.join(node.faults()) or 'up'}")
    if record.slurm_conf.exists():
        slurm = SlurmCluster.load(cluster.name)
        states = [f"{host} {state}" for host, state in sorted(slurm.states().items())]
        print(f"Slurm: {', '.join(states) or 'the controller does not answer'}")
        print(f"inventory: {slurm.inventory}")
    else:
        print(f"inventory: {cluster.inventory}")
    print(f"shared folder: {cluster.shared}")
    reason = cluster.no_internet
    print("internet: " + ("through this machine" if reason is None else f"none ({reason})"))


def down(options: argparse.Namespace) -> int:
    """Remove one cluster or all."""
    chosen = going(options, registry.records())
    for record in chosen:
        remove(record)
        print(f"cluster {record.name} is gone")
    if not chosen:
        whose = "" if options.all else " of this checkout" if options.mine else f" {options.name}"
        print(f"no cluster{whose} is up")
    return 0


def going(options: argparse.Namespace, found: list[registry.Record]) -> list[registry.Record]:
    """Those of the machine's clusters that `down` is to remove."""
    if options.all:
        return found
    if options.mine:
        return [record for record in found if record.checkout == registry.CHECKOUT]
    return [record for record in found if record.name == options.name]


def status() -> int:
    """Show all clusters."""
    found = registry.records()
    for record in found:
        show(Cluster.load(record.name))
        if record.owner is not None and not record.owner_alive:
            print("  its owner is dead: the next `up`, or `down --all`, removes it")
    if not found:
        print("no cluster is up")
    return 0


def execute(options: argparse.Namespace) -> int:
    """Run a command in a node with this terminal."""
    cluster = Cluster.load(options.name)
    by_name: dict[str, Node] = {node.hostname: node for node in cluster.nodes}
    if options.node not in by_name:
        raise RefusedError(f"cluster {cluster.name} has no {options.node}: {', '.join(by_name)}")
    argv = command(options)
    if not argv:
        raise RefusedError(f"exec {options.node}: which command? (exec {options.node} -- hostname)")
    return attend(by_name[options.node].popen(argv, stdin=sys.stdin, text=False))


def login(options: argparse.Namespace) -> int:
    """Run a command, or a shell, as a user on the login node with this terminal."""
    slurm = SlurmCluster.load(options.name)
    terminal = {"TERM": os.environ.get("TERM", "dumb")}
    argv = command(options) or ["bash"]
    return attend(slurm.popen(argv, env=terminal, stdin=sys.stdin, text=False))


def command(options: argparse.Namespace) -> list[str]:
    """The words after our own "--": REMAINDER keeps it, nargs="+" drops the command's as well."""
    argv: list[str] = options.argv
    return argv[1:] if argv[:1] == ["--"] else argv


def attend(process: subprocess.Popen[Any]) -> int:
    """Wait for a command that has this terminal; returns its exit code."""
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:
            # the terminal sent it to the command too; it decides whether it ends
            continue


def main() -> int:
    """Run one command; returns the exit code."""
    options = parser().parse_args()

    def terminate(_number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, terminate)
    try:
        lacking = missing()
        if lacking:
            raise RefusedError(lacking)
        if options.command == "up":
            return up(options)
        if options.command == "down":
            return down(options)
        if options.command == "status":
            return status()
        return login(options) if options.command == "login" else execute(options)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, RefusedError) else 1
    except subprocess.SubprocessError as error:
        print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was begun is removed", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
