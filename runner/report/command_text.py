"""What a node started, as text for a person who reads and copies it into bash. Pure."""

from collections.abc import Iterator, Sequence

from runner.base.escapes import ShellWord
from runner.terms.run_evidence import Evidence, NodeEvidence

KEPT = ("HOME", "USER", "LANG")  # of the node's own variables; launch.sh has all that are kept
MOST_WRITTEN_OUT = 2  # nodes of a run whose commands are; of more their words that differ
_NEXT = " \\\n  "


def shell_text(node: NodeEvidence, secrets: Sequence[str]) -> str:
    """Write a node's commands with their folder and variables; empty where it starts nothing.

    Names in `secrets` stand for values that the shell is to have: no file holds them.
    """
    if not node.commands:
        return ""
    inherited = [f'{name}="${name}"' for name in (*KEPT, *secrets)]
    variables = [ShellWord(f"{name}={value}") for name, value in node.env.items()]
    begin = f"cd {ShellWord(node.cwd)} &&{_NEXT}env -i {' '.join(inherited)}"
    several = " &" if len(node.commands) > 1 else ""
    return "\n".join(
        _NEXT.join([begin, *variables, *_lines(argv)]) + several for argv in node.commands
    )


def _lines(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, each option with its values on a line of its own."""
    line: list[str] = []
    for word in argv:
        if word.startswith("-") and line:
            yield " ".join(line)
            line = []
        line.append(ShellWord(word))
    yield " ".join(line)


def words_that_differ(node: NodeEvidence, reference: NodeEvidence) -> list[tuple[str, str]] | None:
    """Return each (word here, word there) of two nodes' commands and variables, with the option
    that it is a value of; None where they differ in more than words.
    """
    if [len(argv) for argv in node.commands] != [len(argv) for argv in reference.commands]:
        return None
    if list(node.env) != list(reference.env) or node.cwd != reference.cwd:
        return None
    pairs = [
        (_with_option(ours, at), _with_option(theirs, at))
        for ours, theirs in zip(node.commands, reference.commands, strict=True)
        for at in range(len(ours))
        if ours[at] != theirs[at]
    ]
    pairs += [
        (ShellWord(f"{name}={value}"), ShellWord(f"{name}={reference.env[name]}"))
        for name, value in node.env.items()
        if value != reference.env[name]
    ]
    return list(dict.fromkeys(pairs))


def _with_option(argv: Sequence[str], at: int) -> str:
    of = [argv[at - 1]] if at and argv[at - 1].startswith("-") and "=" not in argv[at - 1] else []
    return " ".join(map(ShellWord, [*of, argv[at]]))


def commands(evidence: Evidence) -> list[dict[str, object]]:
    """Return each node's part: its title, its text or the words in which it differs, a note."""
    parts: list[dict[str, object]] = []
    node_with_commands = next((node for node in evidence.nodes if node.commands), None)
    for node in evidence.nodes:
        differs = None
        if (
            node_with_commands
            and node is not node_with_commands
            and len(evidence.nodes) > MOST_WRITTEN_OUT
        ):
            differs = words_that_differ(node, node_with_commands) if node.commands else None
        parts.append(
            {
                "title": f"{node.host} (node rank {node.rank})",
                "text": "" if differs is not None else shell_text(node, evidence.secrets),
                "differs": differs,
                "as": node_with_commands.host if node_with_commands else "",
                "files": node.files,
                "step": " ".join(map(ShellWord, node.step)),
                "note": node.note,
            }
        )
    return parts
