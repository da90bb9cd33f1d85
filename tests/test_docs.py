"""Documents agree with the code. `python -m tests.test_docs` writes the generated parts."""

import ast
import dataclasses
import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ansible-lint's own dependency, not its stubs
import pytest
import yaml

from node.causes import Cause
from runner.base.dataclass_schema import shape
from runner.base.paths import DEFAULT_INVENTORY
from runner.board.refusal import NOT_DETECTED, REASONS
from runner.doctor.items import ITEM_RULES
from runner.expect.references import COLUMNS as REFERENCE_COLUMNS
from runner.figures.publishable import CODES
from runner.folder import events, names
from runner.folder.endings import Ending
from runner.folder.events import Event
from runner.inventory.inventory import KEYS, load_inventory
from runner.judge.diagnosis.causes import STATUSES as DIAGNOSES
from runner.launch.inspection import DATASET
from runner.launch.slurm.states import ENDS as SLURM_ENDS
from runner.logs.patterns import KEYS as LOG_KEYS
from runner.logs.patterns import UNITS
from runner.matrix.file import parse_matrix
from runner.matrix.keys import CELL_KEYS, NUMBERS, TOP_KEYS
from runner.plan.checks import check_cells
from runner.systems.common.command_keys import FACTS
from runner.systems.common.registry import system_names
from runner.tables.catalogue.every_column import COLUMNS
from runner.terms.container_engines import ENGINES as CONTAINER_ENGINES
from runner.terms.engines.engine_table import ENGINES
from runner.terms.engines.slurm import Slurm
from runner.terms.outcome import Outcome
from runner.terms.record import STATUSES
from runner.terms.run import Run
from runner.terms.settings import Settings
from tests.documented_kinds import gives, kinds
from tests.documented_schemas import PRINTED, command_table, printed_schema
from tests.hostile import WAYS
from tests.runner.builders import one_device
from tests.runner.test_mutated import written

ROOT = Path(__file__).resolve().parents[1]


def table(headers: str, rows: str) -> str:
    """A whole table: a comment between its header and its rows would end it."""
    line = "| --- " * len(headers.split("|"))
    return f"\n| {headers} |\n{line}|\n{rows}\n"


def keys() -> str:
    return table(
        "key | what it is", "".join(f"| `{name}` | {text} |\n" for name, text in KEYS.items())
    )


def slurm_keys() -> str:
    rows = ""
    for each in dataclasses.fields(Slurm):
        told = each.default not in (dataclasses.MISSING, None, False, ())
        default = f" (default {each.default})" if told else ""
        rows += f"| `{each.metadata['key']}` | {each.metadata['help']}{default} |\n"
    return table("key | what it is", rows)


def engine_options() -> str:
    """Every engine's keys as what roles/validate may be told, for setup."""
    text = ""
    for engine, each in ((on, key) for on in ENGINES.values() for key in dataclasses.fields(on)):
        key, said = each.metadata["key"], f"{each.metadata['help']}."
        default = None if each.default is dataclasses.MISSING else each.default
        kind: Any = shape(engine)  # type: ignore[arg-type]  # a class has a hash
        option = {**_kind(kind.json_schema()["properties"][key]), "default": default}
        text += f"{key}:\n"
        text += "".join(f"  {name}: {_in_yaml(value)}\n" for name, value in option.items())
        text += f"  description: >-\n{textwrap.fill(said[0].upper() + said[1:], 90, **_INDENT)}\n"
    return textwrap.indent(text, 6 * " ") + 6 * " "


_INDENT: Mapping[str, Any] = {"initial_indent": 4 * " ", "subsequent_indent": 4 * " "}


def _in_yaml(value: object) -> str:
    """A value as Ansible's own files have it: lists without quotes."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(value)}]"
    return value if isinstance(value, str) else json.dumps(value)


def _kind(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema as Ansible says a type."""
    if "anyOf" in schema:
        first = schema["anyOf"][0]
        return {"type": "str"} if "anyOf" in first else _kind(first)
    if "enum" in schema:
        return {"type": "str", "choices": schema["enum"]}
    words = {"integer": "int", "boolean": "bool", "array": "list", "string": "str"}
    elements = {"elements": "str"} if schema["type"] == "array" else {}
    return {"type": words[schema["type"]], **elements}


def engine_names(engines: Mapping[str, object] = ENGINES) -> str:
    """The engines that roles/validate takes."""
    return f"{8 * ' '}choices: {_in_yaml(list(engines))}\n{8 * ' '}"


def statuses(listed: Mapping[str, str] = STATUSES) -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in listed.items())
    return table("status | meaning", rows)


def causes() -> str:
    rows = "".join(
        f"| `{one}` | {one.status} | {'yes' if one.again else 'no'} | {one.meaning} |\n"
        for one in Cause
    )
    return table("cause | status | made again | what happened", rows)


def slurm_ends() -> str:
    rows = "".join(
        f"| {state} | `{cause}` | {words} |\n" for state, (cause, words) in SLURM_ENDS.items()
    )
    return table("Slurm says | cause | the job", rows)


def items() -> str:
    """The items by what a difference of each means; doctor itself says why."""
    rows = ""
    for severity in dict.fromkeys(one.severity for one in ITEM_RULES.values()):
        named = (one.name for one in ITEM_RULES.values() if one.severity == severity)
        rows += f"| {severity} | {', '.join(named)} |\n"
    return table("a difference | of", rows)


def verdict_codes() -> str:
    rows = "".join(
        f"| `{code.word}` | {code.sign} | {code.when} | {code.cure} |\n" for code in CODES.values()
    )
    return table("code | mark | when | what to do", rows)


def top_keys() -> str:
    defaults = {item.name: item.default for item in NUMBERS}
    defaults["name"] = "the file's name"
    rows = "".join(
        f"| `{name}` | {text} | {_default(defaults.get(name))} |\n"
        for name, text in TOP_KEYS.items()
    )
    return table("key | what it is | default", rows)


def cell_keys() -> str:
    """Keys of a cell; those that replace a key of the inventory share a row per kind of value."""
    names: dict[str, list[str]] = {}
    for item in CELL_KEYS.values():
        help_text = re.sub(
            r"(, in place of) \S+ of the inventory$", r"\1 the inventory's", item.help
        )
        row = f"{item.wanted()} | {_default(item.default)} | {help_text}"
        names.setdefault(row, []).append(f"`{item.name}`")
    rows = "".join(f"| {', '.join(keys)} | {row} |\n" for row, keys in names.items())
    return table("key | may be | default | what it is", rows)


def _default(value: object) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def words() -> str:
    rows = "".join(f"| `{{{name}}}` | {text} |\n" for name, text in FACTS.items())
    return table("word | what it is", rows)


def log_keys() -> str:
    rows = ""
    for name in LOG_KEYS:
        units = f"given with it: {', '.join(UNITS[name])}" if name in UNITS else "–"
        rows += f"| `{name}` | {LOG_KEYS[name]} | {units} |\n"
    return table("key | the number | unit", rows)


def reference_columns() -> str:
    """The columns of a file of reference speeds."""
    rows = "".join(
        f"| {f'**`{name}`**' if field.required else f'`{name}`'} | {field.meaning} |\n"
        for name, field in REFERENCE_COLUMNS.items()
    )
    return table("column | what it has", rows)


def rooms() -> str:
    """The packages of runner/, from the command line down, with what their __init__ says."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    rows = ""
    for layer in contracts["contracts"][0]["layers"]:
        path = ROOT / "runner" / layer / "__init__.py"
        path = path if path.exists() else path.parent.with_suffix(".py")
        words = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        rows += f"| `{layer}` | {' '.join(words.partition(chr(10) * 2)[0].split())} |\n"
    return table("package | what it does", rows)


def support() -> str:
    """What ran where, of docs/support.yaml."""
    held = yaml.safe_load((ROOT / "docs" / "support.yaml").read_text("utf-8"))
    rows = ""
    for system, ran in held["systems"].items():
        rows += f"| {system} | {' | '.join(map(_ran, map(ran.get, held['places'])))} |\n"
    return table(f"system | {' | '.join(held['places'])}", rows)


def _ran(what: Mapping[str, Any] | None) -> str:
    if what is None:
        return "never run"
    on = "each change" if what["ran"] == "tests" else f"{what['devices']}, {what['ran']}"
    return f"[{on}]({what['evidence']})"


def machine_commands() -> str:
    rows = ""
    for name, schemas, codes in command_table():
        own = re.sub(r"[,;] (?:2 bad input|130 Ctrl-C)(?=[,;] \d|$)", "", codes)
        rows += f"| {name} | {schemas} | {own} |\n"
    return table("command | JSON | exit codes", rows)


def board_reasons() -> str:
    rows = "".join(f"| `{code}` | {why} |\n" for code, why in REASONS.items())
    return table("code | the bundle is refused since", rows)


def board_limits() -> str:
    return "\n" + "".join(f"- {line}\n" for line in NOT_DETECTED) + "\n"


ENDS = {
    "refused": "bench refuses to begin",
    "unasked": "doctor cannot ask the node",
    "compared": "doctor shows it, printable",
}


def hostile_ways() -> str:
    """What a hostile node answers, and how the run, or the command, ends: a row per end."""
    answers: dict[tuple[str, str], list[str]] = {}
    for way in WAYS.values():
        end = ENDS.get(way.ends, f"`{way.ends}`")
        answers.setdefault((way.program.partition(":")[2], end), []).append(way.says)
    rows = "".join(
        f"| {asked} | {end} | {'; '.join(says)} |\n" for (asked, end), says in answers.items()
    )
    return table("asked | the end | it answers one of", rows)


PARTS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "docs/architecture.md": {"rooms": rooms},
    "docs/doctor.md": {"items": items},
    "docs/how-to/board.md": {"reasons": board_reasons, "limits": board_limits},
    "docs/how-to/expect.md": {"columns": reference_columns},
    "docs/how-to/machines.md": {"commands": machine_commands},
    "README.md": {"support": support},
    "docs/inventory.md": {"keys": keys},
    "docs/matrix.md": {"file": top_keys, "cell": cell_keys},
    "docs/measures.md": {"verdict": verdict_codes},
    "docs/parsers.md": {"kinds": kinds, "gives": gives, "causes": lambda: statuses(DIAGNOSES)},
    "docs/runs.md": {"statuses": statuses, "causes": causes, "slurm": slurm_ends},
    "docs/security.md": {"hostile": hostile_ways},
    "docs/slurm.md": {"keys": slurm_keys},
    "docs/your-own-trainer.md": {"words": words, "log": log_keys},
    "roles/validate/meta/argument_specs.yml": {
        "container_engine_names": lambda: engine_names(CONTAINER_ENGINES),
        "engine_names": engine_names,
        "engines": engine_options,
    },
}

EVENT = "event.json"  # of a line of events.jsonl
# The files of a campaign, and of a run in it, each as the noun that it is read as.
TABLE = "docs/schemas/table.json"
SCHEMAS: Mapping[str, type] = {
    names.CAMPAIGN: Settings,
    names.RUN: Run,
    names.OUTCOME: Outcome,
    names.DONE: Ending,
    EVENT: Event,
}


def schema_of(name: str) -> str:
    """The JSON schema of a file of a campaign: what this version reads of it, and refuses."""
    words = (SCHEMAS[name].__doc__ or "").partition("\n\n")[0]
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": f"{' '.join(words.split())} docs/runs.md. What else it has is not read.",
    }
    return json.dumps({**head, **shape(SCHEMAS[name]).json_schema()}, indent=1) + "\n"


def table_schema() -> str:
    """The schema of `collect --format json`: the committed one, with the catalogue's columns."""
    schema = json.loads((ROOT / TABLE).read_text(encoding="utf-8"))
    row = schema["properties"]["rows"]["items"]
    others = {
        key: what
        for key, what in row["properties"].items()
        if key
        in ("axes", "parameters", "missing", "verdict_reasons", "scaling", "runs", "data_parallel")
    }
    columns = {key: c.json_schema() for key, c in COLUMNS.items() if c.value}
    row["properties"] = columns | others
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", PRINTED)
def test_schemas_of_what_commands_print_are_up_to_date(name: str) -> None:
    text = (ROOT / "docs" / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    assert text == printed_schema(name), "run: python -m tests.test_docs"


def test_the_tables_schema_has_each_column_of_the_catalogue() -> None:
    committed = (ROOT / TABLE).read_text(encoding="utf-8")
    assert committed == table_schema(), "run: python -m tests.test_docs"


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_of_a_campaigns_files_are_up_to_date(name: str) -> None:
    text = (ROOT / "docs" / "schemas" / name).read_text(encoding="utf-8")
    assert text == schema_of(name), "run: python -m tests.test_docs"


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - {EVENT}))
def test_what_bench_writes_fits_the_schemas(name: str, tmp_path: Path) -> None:
    files = list(written(tmp_path).path.rglob(name))
    assert files
    for path in files:
        jsonschema.validate(json.loads(path.read_text()), json.loads(schema_of(name)))


def test_the_lines_of_events_fit_their_schema(tmp_path: Path) -> None:
    events.add(tmp_path, Event(event=events.CAMPAIGN_BEGUN, at=1.8e9, campaign="m", runs=4))
    ended = Event(event=events.RUN_ENDED, at=1.8e9, campaign="m", cell="a", status="ok", repeat=1)
    events.add(tmp_path, dataclasses.replace(ended, samples_per_s=189.0))
    for line in (tmp_path / names.HAPPENED).read_text(encoding="utf-8").splitlines():
        jsonschema.validate(json.loads(line), json.loads(schema_of(EVENT)))


def generated(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    for name, make in PARTS[path].items():
        pattern = rf"((?:<!--|#) {name}:begin [^\n]*\n)(.*?)((?:<!--|#) {name}:end)"
        made = make().replace("\\", r"\\")
        text = re.sub(pattern, rf"\1{made}\3", text, flags=re.DOTALL)
    return text


@pytest.mark.parametrize("path", PARTS)
def test_generated_parts_are_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == generated(path), (
        "run: python -m tests.test_docs"
    )


def test_what_ran_where_has_its_evidence() -> None:
    held = yaml.safe_load((ROOT / "docs" / "support.yaml").read_text("utf-8"))
    assert set(held["systems"]) == set(system_names())
    for system, ran in held["systems"].items():
        assert set(ran) <= set(held["places"])
        for what in ran.values():
            evidence = (ROOT / what["evidence"]).read_text("utf-8")
            assert system in evidence, f"{what['evidence']} does not name {system}"
            if what["ran"] != "tests":
                assert str(what["ran"]) in evidence, f"{what['evidence']}: another day"


def test_every_variable_of_the_documents_runs_is_explained() -> None:
    general = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    general = general.partition("## Variables\n")[2].partition("\n## ")[0]
    for golden in (ROOT / "tests" / "golden" / "documented").glob("*.txt"):
        for cell in golden.read_text(encoding="utf-8").split("=== ")[1:]:
            page = ROOT / "docs" / "systems" / f"{cell.partition(':')[0]}.md"
            told = set(re.findall(r"\w+", general + page.read_text(encoding="utf-8")))
            assert set(re.findall(r"^env (\w+)=", cell, flags=re.MULTILINE)) <= told, golden.name


def test_what_bench_reads_of_a_dataset_is_documented() -> None:
    text = (ROOT / "docs" / "inventory.md").read_text(encoding="utf-8")
    section = text.partition("## A dataset of your own\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE) == list(DATASET.needed)


def test_every_tag_of_setup_is_documented_with_its_playbook() -> None:
    text = (ROOT / "docs" / "inventory.md").read_text(encoding="utf-8")
    section = text.partition("## Parts of setup\n")[2].partition("\n## ")[0]
    plays = yaml.safe_load((ROOT / "playbooks" / "setup.yml").read_text(encoding="utf-8"))
    parts = [(play["tags"][0], play["ansible.builtin.import_playbook"]) for play in plays]
    assert re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", section, flags=re.MULTILINE) == parts
    others = {path.name for path in (ROOT / "playbooks").glob("*.yml")} - {
        name for _, name in parts
    }
    assert all(f"`{name}`" in section for name in others - {"setup.yml"})


def test_the_example_of_a_matrix_works_and_every_key_is_explained() -> None:
    text = (ROOT / "docs" / "matrix.md").read_text(encoding="utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    found = parse_matrix(example, "docs/matrix.md", "matrix", one_device)
    assert len(found.cells) == 6
    assert found.cells[0].name == "devices_per_node=1,zero_stage=0"
    assert found.cells[-1].name == "devices_per_node=2,zero_stage=0,precision=bf16"
    check_cells(found.cells, load_inventory(DEFAULT_INVENTORY), found.warmup_iters)
    explained = text.partition("## Keys of the file")[2].partition("## Keys of a cell")[0]
    bold = " ".join(re.findall(r"^- \*\*(.*?)\*\*", explained, flags=re.MULTILINE))
    assert {f"`{key}`" for key in TOP_KEYS} - {"`name`"} <= set(bold.replace(",", "").split())


def test_relative_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_page_holds_a_merge_that_was_not_ended() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        marks = re.findall(r"(?m)^(?:<{7} |={7}$|>{7} ).*", page.read_text(encoding="utf-8"))
        assert marks == [], page


def test_files_that_the_architecture_names_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tops = "runner|node|plugins|roles|playbooks|tests|templates|tools|benchmarks|inventory|matrices"
    named = set(re.findall(rf"`((?:{tops})/[\w./-]*)`", page))
    assert len(named) > 40
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_tests_that_documents_name_are_there() -> None:
    """`folder/test_file.py::test_name`; a name may end in an ellipsis."""
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        named = re.findall(
            r"`([\w/]*/test_\w+\.py)(?:::(\w+)(…?))?", page.read_text(encoding="utf-8")
        )
        for file, test, cut in named:
            path = ROOT / "tests" / file.removeprefix("tests/")
            assert path.is_file(), f"{page.name} names {file}"
            start = f"\ndef {test}{'' if cut else '('}"
            has = not test or start in path.read_text(encoding="utf-8")
            assert has, f"{page.name} names {file}::{test}"


if __name__ == "__main__":
    for document in PARTS:
        (ROOT / document).write_text(generated(document), encoding="utf-8")
    for file in SCHEMAS:
        (ROOT / "docs" / "schemas" / file).write_text(schema_of(file), encoding="utf-8")
    for file in PRINTED:
        (ROOT / "docs" / "schemas" / f"{file}.json").write_text(
            printed_schema(file), encoding="utf-8"
        )
    (ROOT / TABLE).write_text(table_schema(), encoding="utf-8")
