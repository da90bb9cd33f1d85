"""`python -m runner accept`: is this cluster good, and which node is not?"""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.base.errors import UserError
from runner.base.options import Commands, add_inventory, add_runs, new_command
from runner.base.streams import complain
from runner.base.suggest import nearest
from runner.base.text import listing
from runner.commands.study_options import FORMATS, print_answer

if TYPE_CHECKING:
    from runner.accept.scope import AcceptOptions

DESCRIPTION = """\
Decide whether a cluster is good, and which of its nodes are not. Stages of growing scale compare
the nodes, measure their devices, links and storage, and train on them. After an interruption the
same command resumes.

  python -m runner accept -i inventory/mine --plan          how long each stage takes
  python -m runner accept -i inventory/mine                 all of it
  python -m runner accept -i inventory/mine --quick         all stages, minutes
  python -m runner accept -i inventory/mine --soak 24h      plus a day of training on all nodes
  python -m runner accept --quick --node localhost          this machine alone, under a minute

alike     what doctor compares: drivers, versions, clocks, limits, quotas, MTU, time
devices   each device: sustained matrix products, each result checked; memory; copies
links     all-reduce, all-gather, all-to-all, send and receive: in nodes, pairs, all nodes
storage   checkpoint-like writes and reads of 1 GiB per node; 10 % of the disk stays free
training  each node alone, then 2, 4, ... and all; same losses; scaling; --soak

RUNS/.accept/<inventory>/<N>/ gets healthy.txt, failing.txt, answer.json, junit.xml and report.html,
a page for the provider without names of hosts and users. docs/how-to/accept.md

exit codes: 0 pass; 1 fail; 2 nothing failed, but something could not be tested; 130 Ctrl-C
"""
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    from runner.accept.scope import STAGES

    command = new_command(
        commands,
        "accept",
        "is this cluster good, and which node is not?",
        DESCRIPTION,
        answers=("accept", "answer"),
        formats=FORMATS,
    )
    add_inventory(command)
    add_runs(command)
    command.add_argument(
        "--plan", action="store_true", help="show how long it takes; no connection"
    )
    command.add_argument(
        "--quick", action="store_true", help="shorter stages; trains on single nodes and on all"
    )
    command.add_argument(
        "--node", default="", metavar="HOST", help="test one node alone, without training"
    )
    command.add_argument(
        "--stage", choices=STAGES, action="append", help="run this stage only; may be repeated"
    )
    command.add_argument(
        "--soak",
        type=_duration,
        default=0.0,
        metavar="TIME",
        help="train this long on all nodes: 30min, 24h",
    )
    command.add_argument(
        "--matrix", metavar="FILE", default="", help="train its first cell instead of a small GPT-2"
    )
    command.add_argument(
        "--marks", type=Path, metavar="FILE", help="YAML file of minimum figures to pass"
    )
    command.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="TEST",
        help="skip a test that is meaningless here, such as memory of nodes that share a machine",
    )
    command.add_argument("--new", action="store_true", help="start a new acceptance")


def _duration(word: str) -> float:
    """Read `30min`, `24h` or a number of seconds."""
    digits = word.rstrip("".join(set("".join(UNITS))))
    try:
        value = float(digits) * UNITS[word[len(digits) :] or "s"]
    except (ValueError, KeyError):
        value = -1.0
    if not 0 <= value <= 30 * 86_400:
        message = f"{word!r} is not a time of at most 30d; write 600, 30min, 24h or 2d"
        raise argparse.ArgumentTypeError(message)
    return value


def run(chosen: argparse.Namespace) -> int:
    """Accept, print the answer, and leave it in its folder."""
    from runner.accept import answer as answers
    from runner.accept.marks import load_marks
    from runner.accept.stages import accept, finish
    from runner.inventory.inventory import load_inventory

    cluster = load_inventory(chosen.inventory)
    hosts = [node.host for node in cluster.nodes]
    node = chosen.node
    if node and node not in hosts:
        raise UserError(
            f"--node {node}: the inventory {cluster.name} has no such node{nearest(node, hosts)};"
            f" nodes are {listing(hosts)}"
        )
    options = _options(chosen, node)
    marks = load_marks(chosen.marks) if chosen.marks else {}
    if options.matrix:
        from runner.accept.training import matrix_of

        matrix_of(options, cluster)
    if chosen.plan:
        nodes = 1 if node else len(cluster.nodes)
        print_answer(answers.planned(options, nodes, cluster.device), chosen)
        return 0
    if node == "localhost" and os.geteuid() == 0:
        raise UserError(
            "accept --node localhost measures nothing as root; run it as another user:"
            " runuser -u USER -- trainbench accept --quick --node localhost"
        )
    try:
        session = accept(chosen.inventory, chosen.runs, options, new=chosen.new)
    except KeyboardInterrupt:
        complain(
            "Stopped by Ctrl-C. Run the same command to continue after the last finished stage."
        )
        return 130
    answer = finish(session, marks)
    print_answer(answer, chosen)
    complain(f"all results: {session.checkup.path}")
    return answer.exit_code


def _options(chosen: argparse.Namespace, node: str) -> "AcceptOptions":
    """Return what was asked for. Raises UserError where nothing would be tested."""
    from runner.accept.scope import OF_ALL_NODES, QUICK, STAGES, AcceptOptions
    from runner.doctor.probe_tests import TESTS

    for test in chosen.leave_out:
        if test not in TESTS:
            raise UserError(f"--leave-out {test}: no such test; tests are {', '.join(TESTS)}")
    stages = tuple(stage for stage in STAGES if stage in (chosen.stage or STAGES))
    if node:
        several = [stage for stage in stages if stage in OF_ALL_NODES]
        stages = tuple(stage for stage in stages if stage not in several)
        if chosen.stage and several:
            raise UserError(
                f"--stage {several[0]} needs all nodes, and --node is one; leave one of them out"
            )
    if chosen.soak and "training" not in stages:
        raise UserError("--soak is part of stage training; leave out --node, or add the stage")
    if "training" in stages and {"train_alone", "train_groups"} <= set(chosen.leave_out):
        raise UserError(
            "--leave-out train_alone and train_groups leave stage training nothing to train; leave"
            " one of them out, or choose the other stages with --stage"
        )
    settings: dict[str, Any] = dict(QUICK) if chosen.quick else {}
    return AcceptOptions(
        stages=stages,
        quick=chosen.quick,
        soak_s=chosen.soak,
        node=node,
        matrix=chosen.matrix,
        left_out=tuple(chosen.leave_out),
        **settings,
    )
