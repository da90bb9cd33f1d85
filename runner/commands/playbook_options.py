"""What the commands that run a playbook share: options, the call, and the last lines."""

import argparse

from runner.base.errors import UserError
from runner.base.options import Commands, add_inventory, add_runs, new_command
from runner.base.streams import complain, say, say_json
from runner.base.text import counted
from runner.folder import names
from runner.launch.play import last_words
from runner.terms.printed_answers import HowItEnded, PlaybookAnswer

EXIT_CODES = "exit codes: 0 done, 1 a node failed, 2 bad input, 130 Ctrl-C"


def add_playbook(commands: Commands, name: str, help: str, text: str) -> argparse.ArgumentParser:
    """Add a command that runs `playbooks/<name>.yml`."""
    command = new_command(commands, name, help, f"{text}\n{EXIT_CODES}\n", answers=("playbook",))
    add_inventory(command)
    command.add_argument("--limit", metavar="HOSTS", help="only these nodes (Ansible's --limit)")
    command.add_argument("--tags", metavar="TAGS", help="only these tags of the playbook")
    command.add_argument(
        "--check", action="store_true", help="show what would change; change nothing"
    )
    command.add_argument(
        "-e", dest="variables", action="append", default=[], metavar="KEY=VALUE",
        help="an Ansible variable, or @FILE with several; may be repeated",
    )  # fmt: skip
    command.add_argument("-v", "--verbose", action="store_true", help="show Ansible's full output")
    add_runs(command)
    return command


def run_command(name: str, chosen: argparse.Namespace) -> int:
    """Run the playbook, and say how it ended; the exit code."""
    from runner.launch.playbook import INTERRUPTED, duration, run_playbook

    if not chosen.inventory.exists():
        from runner.inventory.inventory import load_inventory

        load_inventory(chosen.inventory)  # which refuses it, with what there is
    options = {"--limit": chosen.limit, "--tags": chosen.tags}
    arguments = [word for option, value in options.items() if value for word in (option, value)]
    arguments += [word for value in chosen.variables for word in ("-e", value)]
    arguments += ["--check"] if chosen.check else []
    log = chosen.runs / names.SETUP / f"{chosen.inventory.resolve().name}-{name}.log"
    as_json = chosen.format == "json"
    if as_json and chosen.verbose:
        raise UserError("--format json is one document; leave out --verbose")
    ended = run_playbook(
        f"{name}.yml",
        chosen.inventory,
        arguments,
        log,
        verbose=chosen.verbose,
        show=not as_json,
    )
    if as_json and (ended.complete or ended.code == INTERRUPTED):
        words: dict[int, HowItEnded] = {0: "done", INTERRUPTED: "interrupted"}
        answer = PlaybookAnswer(
            command=name,
            inventory=str(chosen.inventory),
            check=chosen.check,
            ended=words.get(ended.exit_code, "failed"),
            changes=ended.changes,
            failed=ended.failed,
            steps=tuple(ended.steps),
            took_s=ended.took_s,
            log=str(log),
            exit_code=ended.exit_code,
        )
        say_json(answer)
        return ended.exit_code
    output_note = f"Ansible's output: {log}"
    if ended.code == INTERRUPTED:
        complain(f"stopped; run the same command to continue. {output_note}")
        return INTERRUPTED
    if not ended.complete:
        raise UserError(f"{name} could not begin: {last_words(log).removeprefix('[ERROR]: ')}")
    if ended.code != 0:
        failed = ", ".join(f"{host} ({step})" for host, step in ended.failed.items())
        complain(f"error: {name} failed on {failed or 'a node'}; {output_note}")
        return ended.exit_code
    say(f"{name}: {_summary(ended.changes, chosen)}, {duration(ended.took_s)}. {output_note}")
    return 0


def _summary(changes: int, chosen: argparse.Namespace) -> str:
    """Say what was done, of a whole playbook, of parts of it, or by --check."""
    if chosen.check and not changes:
        return "nothing would change"
    if chosen.check:
        return f"{counted(changes, 'change')} would be made; nothing was changed"
    if chosen.tags == "validate":
        return "no problems for setup, nothing was installed"
    return counted(changes, "change") if changes else "nothing to change"
