"""`python -m runner init`: an inventory of machines of one's own, written from what they answer."""

import argparse
from pathlib import Path

from runner.base.options import Commands, new_command
from runner.base.questions import can_ask
from runner.terms.cluster import DEVICES
from runner.terms.printed_answers import EnrolledNode, InitAnswer

DESCRIPTION = """\
Write an inventory of your own: the machines are asked over ssh, in one exec each, what they have.

  python -m runner init                                   asks for the hosts
  python -m runner init inventory/mine --hosts gpu01=10.0.0.11 gpu02=10.0.0.12 --user train
  python -m runner init inventory/mine --hosts 'node[01-16]'         as Slurm expands it
  python -m runner init inventory/mine --hostfile hostfile           DeepSpeed's: host slots=8
  python -m runner init inventory/mine --slurm gpu --account a1      on Slurm: jobs in a partition
  python -m runner init inventory/mine --nodes-of gpu                a partition's nodes, over ssh
  python -m runner init inventory/here --hosts localhost --device cpu

ssh must work without prompts (key login), now and later. A host key that is not known yet
is shown by its fingerprint, and recorded after a yes (--record-host-keys says it beforehand). What
the machines answer is checked before it is written. Devices are what nvidia-smi and npu-smi show,
else CPUs; the network is the interface of the route between the nodes. Look through the files
afterwards: docs/inventory.md has each key. With --slurm no machine is asked, but Slurm about the
partition.

exit codes: 0 written; 2 a host cannot be reached, or its answer is invalid; 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "init", "write an inventory of your machines", DESCRIPTION, answers=("init",)
    )
    command.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("inventory/mine"),
        metavar="FOLDER",
        help="the inventory to write (default: inventory/mine)",
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--hosts", nargs="+", metavar="HOST", help="names, addresses, NAME=ADDRESS, node[01-16]"
    )
    which.add_argument("--hostfile", type=Path, metavar="FILE", help="a DeepSpeed hostfile")
    which.add_argument(
        "--slurm",
        metavar="PARTITION",
        help="run as Slurm jobs in this partition; contacts no node (docs/slurm.md)",
    )
    which.add_argument(
        "--nodes-of", metavar="PARTITION", help="the nodes of a partition of Slurm, over ssh"
    )
    command.add_argument("--account", default="", help="with --slurm: the account to charge")
    command.add_argument("--user", default="", help="login user (default: ssh's choice)")
    command.add_argument("--key", type=Path, metavar="FILE", help="private key (default: ssh's)")
    command.add_argument("--port", type=int, metavar="N", help="port of sshd (default: ssh's)")
    command.add_argument(
        "--ssh-config", type=Path, metavar="FILE", help="ssh configuration (default: ssh's)"
    )
    command.add_argument("--device", choices=DEVICES, default="", help="default: detected")
    command.add_argument(
        "--root",
        default="",
        metavar="FOLDER",
        help="folder for all files on a node (default: /opt/trainbench as root, else ~/trainbench)",
    )
    command.add_argument(
        "--record-host-keys", action="store_true", help="add unknown host keys without asking"
    )
    command.add_argument("--overwrite", action="store_true", help="replace an existing inventory")


def run(chosen: argparse.Namespace) -> int:
    """Ask, check, write, and say what is next."""
    from runner.base.streams import say, say_json
    from runner.enrol.new_inventory import Conversation, make

    lines: list[str] = []
    as_json = chosen.format == "json"
    asker = _ask if can_ask() and not as_json else None
    conversation = Conversation(
        lines.append if as_json else say, asker, record=chosen.record_host_keys
    )
    cluster = make(chosen, conversation)
    if as_json:
        nodes = tuple(
            EnrolledNode(host=node.host, address=node.address, devices=node.devices)
            for node in cluster.nodes
        )
        say_json(
            InitAnswer(
                inventory=str(chosen.folder), device=cluster.device, nodes=nodes, notes=tuple(lines)
            )
        )
    return 0


def _ask(question: str) -> str:
    """Ask a person; the end of input is not an answer."""
    from runner.base.escapes import TerminalLine

    try:
        return input(TerminalLine(question)).strip()
    except EOFError:
        return ""
