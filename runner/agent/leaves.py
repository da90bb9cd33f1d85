"""What an owner can allow an agent besides: names of `--allow`. Data."""

from collections.abc import Mapping

COMMAND, SETUP, ENV = "command", "setup", "env"
LEAVES: Mapping[str, str] = {
    COMMAND: "`system: command`, a program that the matrix names",
    SETUP: "keys of a scheduler in a cell, such as lines of shell before and after a run",
    ENV: "variables besides those that only tune",
}
