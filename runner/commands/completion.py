"""`trainbench completion`: what a shell needs to complete the command line."""

import argparse

from runner.base.options import Commands, new_command
from runner.base.streams import say

DESCRIPTION = """\
Print the script with which a shell completes commands, options and their values.

  eval "$(trainbench completion bash)"                   in ~/.bashrc
  eval "$(trainbench completion zsh)"                    in ~/.zshrc, after compinit
  trainbench completion fish | source                    in ~/.config/fish/config.fish
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(commands, "completion", "shell completion (bash, zsh, fish)", DESCRIPTION)
    command.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(chosen: argparse.Namespace) -> int:
    """Print it; exit code 0."""
    from argcomplete.shell_integration import shellcode

    say(shellcode(["trainbench"], shell=chosen.shell))
    return 0
