"""Documents agree with the code. `python -m tests.test_docs` writes the engines' keys in the specs
of roles/validate.
"""

import dataclasses
import json
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ansible-lint's own dependency, not its stubs
import pytest
import yaml

from runner.base.dataclass_schema import shape
from runner.base.paths import DEFAULT_INVENTORY
from runner.folder import events, names
from runner.folder.events import Event
from runner.inventory.inventory import load_inventory
from runner.launch.inspection import DATASET
from runner.matrix.file import parse_matrix
from runner.matrix.keys import TOP_KEYS
from runner.plan.checks import check_cells
from runner.systems.common.registry import system_names
from runner.terms.container_engines import ENGINES as CONTAINER_ENGINES
from runner.terms.engines.engine_table import ENGINES
from tests.golden.node_differences import expand
from tests.runner.builders import one_device
from tests.runner.test_mutated import written
from tools.site.schemas import FILES, of_file

ROOT = Path(__file__).resolve().parents[1]


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


PARTS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "roles/validate/meta/argument_specs.yml": {
        "container_engine_names": lambda: engine_names(CONTAINER_ENGINES),
        "engine_names": engine_names,
        "engines": engine_options,
    },
}


def generated(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    for name, make in PARTS[path].items():
        pattern = rf"((?:<!--|#) {name}:begin [^\n]*\n)(.*?)((?:<!--|#) {name}:end)"
        text = re.sub(pattern, rf"\1{make()}\3", text, flags=re.DOTALL)
    return text


@pytest.mark.parametrize("path", PARTS)
def test_written_parts_are_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == generated(path), (
        "run: python -m tests.test_docs"
    )


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"event.json"}))
def test_what_bench_writes_fits_the_schemas(name: str, tmp_path: Path) -> None:
    files = list(written(tmp_path).path.rglob(name))
    assert files
    for path in files:
        jsonschema.validate(json.loads(path.read_text()), of_file(name))


def test_the_lines_of_events_fit_their_schema(tmp_path: Path) -> None:
    events.add(tmp_path, Event(event=events.CAMPAIGN_BEGUN, at=1.8e9, campaign="m", runs=4))
    ended = Event(event=events.RUN_ENDED, at=1.8e9, campaign="m", cell="a", status="ok", repeat=1)
    events.add(tmp_path, dataclasses.replace(ended, samples_per_s=189.0))
    for line in (tmp_path / names.HAPPENED).read_text(encoding="utf-8").splitlines():
        jsonschema.validate(json.loads(line), of_file("event.json"))


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
        for cell in expand(golden.read_text(encoding="utf-8")).split("=== ")[1:]:
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
