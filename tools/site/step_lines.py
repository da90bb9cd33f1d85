"""Tables of docs/parsers.md about the kinds of step lines, written from their classes."""

from runner.logs.kinds import KINDS

# What a line's loss is the mean of.
LOSSES = {"iteration": "its iteration", "window": "the line", "running": "a running mean", "": "–"}


def kinds() -> str:
    """Return the kinds of step lines, a row per module, best first."""
    lines: dict[tuple[str, str], list[str]] = {}
    for kind in KINDS.values():
        systems = ", ".join(sorted(kind.systems()))
        lines.setdefault((kind.family(), systems), []).append(kind.says.replace("|", "\\|"))
    rows = "".join(
        f"| `{module}` | {'; '.join(says)} | {systems} |\n"
        for (module, systems), says in lines.items()
    )
    return f"| module | lines, best kind first | systems |\n| --- | --- | --- |\n{rows}"


def gives() -> str:
    """Return what the loss and the time of each kind's lines are of."""
    rows = "".join(
        f"| `{kind.name}` | {LOSSES[kind.loss_kind]} | {kind.holds or '–'} |\n"
        for kind in sorted(KINDS.values(), key=lambda kind: (kind.family(), kind.name))
    )
    return f"| lines | loss: mean of | time |\n| --- | --- | --- |\n{rows}"
