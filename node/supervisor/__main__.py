"""What the control node asks of a run's folder: the one that this program lies in."""

from __future__ import annotations

import argparse
import os
import sys

from .folders import close
from .news import fetch, poll


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="supervisor.py")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("poll")
    one.add_argument("--offset", type=int, default=0)
    one.add_argument("--wait", type=float, default=1.0)
    one.add_argument("--go", action="store_true")
    one.add_argument("--stop", default="")
    one.add_argument("--over", action="store_true")
    one.add_argument("--sampled", type=int, default=0)
    two = commands.add_parser("fetch")
    two.add_argument("--name", default="log")
    two.add_argument("--offset", type=int, required=True)
    two.add_argument("--length", type=int, required=True)
    three = commands.add_parser("close")
    three.add_argument("--keep", action="store_true")
    chosen = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    if chosen.command == "poll":
        news = (chosen.offset, chosen.wait, chosen.go, chosen.stop, chosen.over, chosen.sampled)
        poll(folder, *news)
    elif chosen.command == "close":
        close(folder, chosen.keep)
    else:
        fetch(folder, chosen.name, chosen.offset, chosen.length)
