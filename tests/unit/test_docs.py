"""Documents agree with the code. `python -m tests.unit.test_docs` writes the generated parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from runner.cluster import KEYS
from runner.diagnosis import STATUSES as CAUSES
from runner.doctor.items import RULES
from runner.inspection import DATASET_KEYS
from runner.records import STATUSES

ROOT = Path(__file__).resolve().parents[2]


def keys() -> str:
    return "".join(f"| `{name}` | {text} |\n" for name, text in KEYS.items())


def statuses(listed: Mapping[str, str] = STATUSES) -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in listed.items())
    return f"\n| status | meaning |\n| --- | --- |\n{rows}\n"


def items() -> str:
    return "".join(f"| {one.name} | {one.severity} | {one.why} |\n" for one in RULES.values())


PARTS = {
    "docs/doctor.md": ("items", items),
    "docs/inventory.md": ("keys", keys),
    "docs/parsers.md": ("causes", lambda: statuses(CAUSES)),
    "docs/runs.md": ("statuses", statuses),
}


def generated(path: str) -> str:
    name, make = PARTS[path]
    text = (ROOT / path).read_text(encoding="utf-8")
    pattern = rf"(<!-- {name}:begin [^\n]*\n)(.*?)(<!-- {name}:end -->)"
    return re.sub(pattern, lambda match: match[1] + make() + match[3], text, flags=re.DOTALL)


@pytest.mark.parametrize("path", PARTS)
def test_generated_parts_are_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == generated(path), (
        "run: python -m tests.unit.test_docs"
    )


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
    assert re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE) == list(DATASET_KEYS)


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


def test_relative_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


if __name__ == "__main__":
    for document in PARTS:
        (ROOT / document).write_text(generated(document), encoding="utf-8")
