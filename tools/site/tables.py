"""Tables of documents, written from the code, and what is shown in their places.

A document has a line for each of its tables, which begins with "> Table `NAME`:" and says what
shows the table: `trainbench docs` and the site put it there.
"""

import ast
import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping

from node.causes import Cause
from plugins.public_addresses import found
from runner.doctor.items import ITEM_RULES
from runner.expect.references import MEANINGS, REQUIRED
from runner.figures.publishable import CODES
from runner.inventory.inventory import KEYS
from runner.launch.slurm.states import ENDS as SLURM_ENDS
from runner.logs.patterns import KEYS as LOG_KEYS
from runner.logs.patterns import UNITS
from runner.matrix.keys import CELL_KEYS, NUMBERS, TOP_KEYS
from runner.results.diagnosis.causes import STATUSES as DIAGNOSES
from runner.systems.common.command_keys import FACTS
from runner.terms.engines.slurm import Slurm
from runner.terms.record import STATUSES
from tests.hostile import WAYS
from tools.site.links import ROOT, Sheet
from tools.site.reference import machine_commands
from tools.site.step_lines import gives, kinds

PLACE = re.compile(r"(?m)^> Table `(\w+)`: .*$")


def _table(headers: str, rows: str) -> str:
    return f"| {headers} |\n{'| --- ' * len(headers.split('|'))}|\n{rows}"


def _keys() -> str:
    return _table(
        "key | what it is", "".join(f"| `{name}` | {text} |\n" for name, text in KEYS.items())
    )


def _slurm_keys() -> str:
    rows = ""
    for each in dataclasses.fields(Slurm):
        told = each.default not in (dataclasses.MISSING, None, False, ())
        default = f" (default {each.default})" if told else ""
        rows += f"| `{each.metadata['key']}` | {each.metadata['help']}{default} |\n"
    return _table("key | what it is", rows)


def _statuses(listed: Mapping[str, str] = STATUSES) -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in listed.items())
    return _table("status | meaning", rows)


def _diagnoses() -> str:
    return _statuses({name: status.says for name, status in DIAGNOSES.items() if status.says})


def _causes() -> str:
    rows = "".join(
        f"| `{one}` | {one.status} | {'yes' if one.again else 'no'} | {one.meaning} |\n"
        for one in Cause
    )
    return _table("cause | status | made again | what happened", rows)


def _slurm_ends() -> str:
    rows = "".join(
        f"| {state} | `{cause}` | {words} |\n" for state, (cause, words) in SLURM_ENDS.items()
    )
    return _table("Slurm says | cause | the job", rows)


def _items() -> str:
    """The items by what a difference of each means; doctor itself says why."""
    rows = ""
    for severity in dict.fromkeys(one.severity for one in ITEM_RULES.values()):
        named = (one.name for one in ITEM_RULES.values() if one.severity == severity)
        rows += f"| {severity} | {', '.join(named)} |\n"
    return _table("a difference | of", rows)


def _verdict_codes() -> str:
    rows = "".join(
        f"| `{code.word}` | {code.sign} | {code.when} | {code.cure} |\n" for code in CODES.values()
    )
    return _table("code | mark | when | what to do", rows)


def _top_keys() -> str:
    defaults = {item.name: item.default for item in NUMBERS}
    defaults["name"] = "the file's name"
    rows = "".join(
        f"| `{name}` | {text} | {_default(defaults.get(name))} |\n"
        for name, text in TOP_KEYS.items()
    )
    return _table("key | what it is | default", rows)


def _cell_keys() -> str:
    """Keys of a cell; those that replace a key of the inventory share a row per kind of value."""
    names: dict[str, list[str]] = {}
    for item in CELL_KEYS.values():
        help_text = re.sub(
            r"(, in place of) \S+ of the inventory$", r"\1 the inventory's", item.help
        )
        row = f"{item.wanted()} | {_default(item.default)} | {help_text}"
        names.setdefault(row, []).append(f"`{item.name}`")
    rows = "".join(f"| {', '.join(keys)} | {row} |\n" for row, keys in names.items())
    return _table("key | may be | default | what it is", rows)


def _default(value: object) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _words() -> str:
    rows = "".join(f"| `{{{name}}}` | {text} |\n" for name, text in FACTS.items())
    return _table("word | what it is", rows)


def _log_keys() -> str:
    rows = ""
    for name in LOG_KEYS:
        units = f"given with it: {', '.join(UNITS[name])}" if name in UNITS else "–"
        rows += f"| `{name}` | {LOG_KEYS[name]} | {units} |\n"
    return _table("key | the number | unit", rows)


def _reference_columns() -> str:
    """The columns of a file of reference speeds."""
    rows = "".join(
        f"| {f'**`{name}`**' if name in REQUIRED else f'`{name}`'} | {meaning} |\n"
        for name, meaning in MEANINGS.items()
    )
    return _table("column | what it has", rows)


def _rooms() -> str:
    """The packages of runner/, from the command line down, with what their __init__ says."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    rows = ""
    for layer in contracts["contracts"][0]["layers"]:
        path = ROOT / "runner" / layer / "__init__.py"
        path = path if path.exists() else path.parent.with_suffix(".py")
        words = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        rows += f"| `{layer}` | {' '.join(words.partition(chr(10) * 2)[0].split())} |\n"
    return _table("package | what it does", rows)


ENDS = {
    "refused": "bench refuses to begin",
    "unasked": "doctor cannot ask the node",
    "compared": "doctor shows it, printable",
}


def _hostile_ways() -> str:
    """What a hostile node answers, and how the run, or the command, ends: a row per end."""
    answers: dict[tuple[str, str], list[str]] = {}
    for way in WAYS.values():
        end = ENDS.get(way.ends, f"`{way.ends}`")
        answers.setdefault((way.program.partition(":")[2], end), []).append(way.says)
    rows = "".join(
        f"| {asked} | {end} | {'; '.join(says)} |\n" for (asked, end), says in answers.items()
    )
    return _table("asked | the end | it answers one of", rows)


def _public_addresses() -> str:
    """Every address that setup can contact: a row per address and purpose."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for item in found(ROOT / "roles"):
        rows.setdefault((item.kind, item.address, item.purpose), []).append(item.role)
    return _table(
        "address | roles, programs | what for | mirror",
        "".join(
            f"| {address} | {', '.join(names)} | {purpose} | {kind} |\n"
            for (kind, address, purpose), names in rows.items()
        ),
    )


TABLES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "docs/architecture.md": {"rooms": _rooms},
    "docs/how-to/accept.md": {"items": _items},
    "docs/how-to/expect.md": {"columns": _reference_columns},
    "docs/how-to/cluster.md": {"commands": machine_commands},
    "docs/inventory.md": {"keys": _keys, "addresses": _public_addresses},
    "docs/matrix.md": {"file": _top_keys, "cell": _cell_keys},
    "docs/measures.md": {"verdict": _verdict_codes},
    "docs/parsers.md": {"kinds": kinds, "gives": gives, "causes": _diagnoses},
    "docs/runs.md": {"statuses": _statuses, "causes": _causes, "slurm": _slurm_ends},
    "docs/security.md": {"hostile": _hostile_ways},
    "docs/slurm.md": {"keys": _slurm_keys},
    "docs/your-own-trainer.md": {"words": _words, "log": _log_keys},
}


def with_tables(page: Sheet) -> Sheet:
    """Put each table of a document in its place. Raises ValueError where one has none."""
    made = TABLES.get(page.origin, {})
    if sorted(made) != sorted(PLACE.findall(page.text)):
        raise ValueError(f"{page.origin}: tools/site/tables.py has these tables: {', '.join(made)}")
    text = PLACE.sub(lambda place: made[place[1]]().strip("\n"), page.text)
    return Sheet(page.origin, text)
