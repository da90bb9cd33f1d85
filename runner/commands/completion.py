"""`trainbench completion`: what a shell needs to complete the command line."""

import argparse

from runner.base.options import Commands, new_command
from runner.base.streams import say, say_json
from runner.terms.printed_answers import CompletionAnswer

DESCRIPTION = """\
Print the script with which a shell completes commands, options and their values.

  eval "$(trainbench completion bash)"                   in ~/.bashrc
  eval "$(trainbench completion zsh)"                    in ~/.zshrc, after compinit
  trainbench completion fish | source                    in ~/.config/fish/config.fish

exit codes: 0 printed, 2 bad input
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "completion",
        "shell completion (bash, zsh, fish)",
        DESCRIPTION,
        answers=("completion",),
    )
    command.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(chosen: argparse.Namespace) -> int:
    """Print it; exit code 0."""
    from argcomplete.shell_integration import shellcode

    script = shellcode(["trainbench"], shell=chosen.shell)
    if chosen.format == "json":
        say_json(CompletionAnswer(shell=chosen.shell, script=script))
    else:
        say(script)
    return 0
