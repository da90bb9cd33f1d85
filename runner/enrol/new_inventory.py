"""The way of an inventory, from who is meant to what is next. What a person is told and asked."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import UserError
from runner.base.files import atomic_file
from runner.base.program_name import CALLED
from runner.base.ssh_words import NEW_KEY, kind_of, out_of_reach
from runner.base.suggested_commands import played
from runner.base.text import counted, listing
from runner.enrol import host_list, slurm_inventory
from runner.enrol.host_list import Machine
from runner.enrol.probe_answer import ROOT, Found, read_answer
from runner.enrol.ssh_probe import HostAnswer, HostKeys, Way, ask_all, record, scan_all
from runner.enrol.writing import FILES, Preference, files
from runner.inventory.inventory import load_inventory
from runner.terms.cluster import Cluster

TORCH_PYTHON = (3, 11)  # what torch_gpt's torch and numpy want


@dataclass(frozen=True)
class Conversation:
    """How to tell a person something, and to ask; `ask` is None where nobody answers.

    `record`: whether host keys may be recorded, said beforehand.
    """

    say: Callable[[str], None]
    ask: Callable[[str], str] | None
    record: bool = False

    def agrees(self, question: str) -> bool:
        """Return whether somebody says yes."""
        return self.ask is not None and self.ask(f"{question} [y/N] ").lower() in ("y", "yes")


def make(chosen: argparse.Namespace, talk: Conversation) -> Cluster:
    """Make an inventory. Raises UserError before anything is written where it would not work."""
    folder: Path = chosen.folder
    if chosen.slurm:
        return _make_slurm(chosen, talk)
    _refuse_to_overwrite(folder, chosen.overwrite, talk)
    way, preference = _way(chosen), Preference(chosen.device, _root(chosen.root))
    machines = _machines(chosen, talk)
    talk.say(f"asking {listing([machine.name for machine in machines])} over ssh")
    addresses = [machine.address for machine in machines]
    answers = ask_all(machines, way, preference.root, addresses)
    unknown = [machine for machine in machines if kind_of(answers[machine.name].silent) == NEW_KEY]
    if unknown and _record_keys(unknown, way, talk):
        answers |= ask_all(unknown, way, preference.root, addresses)
    facts = _facts_of(answers, machines, way.user)
    cluster = _write(folder, files(machines, facts, way, preference))
    _tell(cluster, facts, talk)
    return cluster


def _write(folder: Path, written: Mapping[str, str]) -> Cluster:
    """Write an inventory's files, and read what they say."""
    for path, text in written.items():
        with atomic_file(folder / path) as stream:
            stream.write(text.encode())
    return load_inventory(folder)


def _make_slurm(chosen: argparse.Namespace, talk: Conversation) -> Cluster:
    """Make the inventory of a partition of Slurm, which alone is asked. Raises UserError."""
    folder: Path = chosen.folder
    _refuse_to_overwrite(folder, chosen.overwrite, talk)
    if chosen.account and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", chosen.account):
        raise UserError(f"--account {chosen.account!r} is not the name of an account")
    partition = slurm_inventory.ask(chosen.slurm)
    device = chosen.device or ("cuda" if partition.devices else "cpu")
    devices = partition.devices if device != "cpu" else 1
    if not devices:
        raise UserError(
            f"Slurm knows of no GPU in the partition {chosen.slurm}; take --device cpu, or another"
            " partition (`sinfo -o '%P %G'`)"
        )
    root = _root(chosen.root or slurm_inventory.default_root())
    written = slurm_inventory.files(partition, root, device, chosen.account, devices)
    cluster = _write(folder, written)
    nodes = counted(len(partition.nodes), "node")
    talk.say(f"wrote {folder}: partition {partition.name}, {nodes}, {devices} x {device}, {root}")
    for note in slurm_inventory.notes(partition, partition.devices):
        talk.say(f"note: {note}")
    talk.say(f"check that login and compute nodes share {root}; another folder: --root")
    _tell_next(folder, talk)
    return cluster


def _facts_of(
    answers: Mapping[str, HostAnswer], machines: Sequence[Machine], user: str
) -> dict[str, Found]:
    """Read what all said. Raises UserError that names each that is silent or odd."""
    silent = {name: answer.silent for name, answer in answers.items() if not answer.answer}
    addresses: dict[str, str] = {machine.name: machine.address for machine in machines}
    faults = out_of_reach(silent, addresses, listed=False, user=user)
    facts = {}
    for name, answer in answers.items():
        if name not in silent:
            try:
                facts[name] = read_answer(name, answer.answer)
            except UserError as error:
                faults.append(str(error))
    if faults:
        raise UserError("; ".join(faults))
    return facts


def _refuse_to_overwrite(folder: Path, agreed: bool, talk: Conversation) -> None:
    """Refuse a folder with an inventory in it that nobody gave up. Raises UserError."""
    if folder.is_file():
        raise UserError(f"{folder} is a file; name a folder, such as inventory/mine")
    there = [path for path in (*FILES, slurm_inventory.SLURM) if (folder / path).exists()]
    if (folder / "hosts.py").exists():
        raise UserError(f"{folder} is an inventory that is a program (hosts.py); name another")
    if there and not agreed and not talk.agrees(f"{folder} has {', '.join(there)}; replace them?"):
        raise UserError(
            f"{folder} is an inventory already ({', '.join(there)}); name another folder, or have"
            " these files replaced with --overwrite"
        )


def _way(chosen: argparse.Namespace) -> Way:
    """Read how ssh is to go. Raises UserError for a file that is not there, or an odd word."""
    for path in (chosen.key, chosen.ssh_config):
        if path is not None and not path.expanduser().is_file():
            raise UserError(f"there is no file {path}; name your private key, or ssh's settings")
    if chosen.user and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9._-]*", chosen.user):
        raise UserError(f"--user {chosen.user!r} is not a user name")
    if chosen.port is not None and not 0 < chosen.port < 65536:
        raise UserError(f"--port {chosen.port} is not a port; the default of ssh is 22")
    key, config = (
        str(path.expanduser().resolve()) if path else "" for path in (chosen.key, chosen.ssh_config)
    )
    return Way(chosen.user, key, chosen.port, config)


def _root(root: str) -> str:
    """Check the folder for everything on a node. Raises UserError."""
    if root and not re.fullmatch(ROOT, root):
        raise UserError(
            f"--root is {root!r}; it must be an absolute path of letters, digits and '._+-', such"
            " as /opt/trainbench"
        )
    return root.rstrip("/") or root


def _machines(chosen: argparse.Namespace, talk: Conversation) -> tuple[Machine, ...]:
    """Return who is meant, by the flags, or else by what somebody answers."""
    if chosen.hostfile:
        return host_list.from_hostfile(chosen.hostfile)
    if chosen.nodes_of:
        return host_list.from_partition(chosen.nodes_of)
    host_words = chosen.hosts or []
    if not host_words and talk.ask is not None:
        host_words = [talk.ask("hosts (gpu01 gpu02=10.0.0.12 node[01-16], or localhost): ")]
    return host_list.from_words(host_words)


def _record_keys(machines: Sequence[Machine], way: Way, talk: Conversation) -> bool:
    """Show the host keys of machines that are not known, and record them where that is wanted."""
    scanned = scan_all(machines, way)
    keys = {
        name: keys_or_reason
        for name, keys_or_reason in scanned.items()
        if isinstance(keys_or_reason, HostKeys)
    }
    for name, keys_or_reason in scanned.items():
        lines = (
            keys_or_reason.fingerprints
            if isinstance(keys_or_reason, HostKeys)
            else (keys_or_reason,)
        )
        talk.say(f"host keys of {name}, which are not recorded here:")
        for line in lines:
            talk.say(_inset(line))
    if not keys:
        return False
    question = "Do these match the machines' own fingerprints? Save them to known_hosts?"
    if not talk.record and not talk.agrees(question):
        raise UserError(
            f"the host keys of {listing(list(keys))} are not recorded, so nothing was written;"
            " compare the fingerprints above with the machines' own, and say yes, or"
            " --record-host-keys"
        )
    files: dict[Path, list[str]] = {}
    for keys_or_reason in keys.values():
        files.setdefault(keys_or_reason.file, []).extend(keys_or_reason.lines)
    record(files)
    talk.say(f"recorded in {', '.join(map(str, files))}")
    return True


def _inset(line: str) -> str:
    return f"  {line}"


def _tell(cluster: Cluster, facts: Mapping[str, Found], talk: Conversation) -> None:
    """Say what was found and written, what may not work, and what is next."""
    path, root = cluster.path, cluster.nodes[0].root
    nodes = counted(len(cluster.nodes), "node")
    talk.say(f"wrote {path}: {nodes}, {cluster.device}, {root}")
    for node in cluster.nodes:
        facts_here = facts[node.host]
        python = ".".join(map(str, facts_here.version))
        way = f"by {', '.join(facts_here.interfaces)}" if facts_here.interfaces else ""
        columns = [node.host, node.address, f"{node.devices} devices", f"Python {python}", way]
        talk.say(_inset("  ".join(filter(None, columns))))
    for note in _notes(cluster, facts):
        talk.say(f"note: {note}")
    _tell_next(path, talk)


def _tell_next(path: Path, talk: Conversation) -> None:
    talk.say(
        "next: look through its files, then\n"
        + "\n".join(_inset(played(name, path).strip("`")) for name in ("validate", "setup"))
        + f"\n  {CALLED} bench matrix.yaml -i {path}"
    )


def _notes(cluster: Cluster, facts: Mapping[str, Found]) -> list[str]:
    """Say what will need a hand."""
    notes = []
    if closed := [name for name, facts_here in facts.items() if not facts_here.writable]:
        root = cluster.nodes[0].root
        notes.append(
            f"{facts[closed[0]].user} may not write to {root} on {listing(closed)}; make that"
            " folder theirs, or name another with --root"
        )
    if old := [name for name, facts_here in facts.items() if facts_here.version < TORCH_PYTHON]:
        notes.append(
            f"torch_gpt wants a Python 3.11 or newer, which {listing(old)} lacks; setup brings one"
            " by conda, or name one in ansible_python_interpreter"
        )
    if odd := [name for name, facts_here in facts.items() if facts_here.nameless]:
        notes.append(
            f"{listing(odd)} cannot resolve {listing(facts[odd[0]].nameless)}; name those hosts by"
            " their addresses (NAME=ADDRESS), since runs meet there"
        )
    return notes
