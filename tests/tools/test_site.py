"""The documentation site: strict, without a network, every matrix in it, nothing from elsewhere."""

import json
import re
import shlex
import socket
from pathlib import Path

import pytest

from runner.__main__ import BY_NAME, parser
from tools.site.links import Sheet, address, rewritten, targets
from tools.site.matrices import Head, head
from tools.site.tables import with_tables

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = [path.relative_to(ROOT) for path in (ROOT / "docs" / "how-to").glob("*.md")]
# What a page fetches by itself: scripts, styles, pictures, frames; a link waits to be followed.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(https?:)?//"""
    r"""|<link\b(?=[^>]*rel=["']?(?:stylesheet|preconnect|preload|icon))[^>]*href=["']?(https?:)?//"""
    r"""|(?:url\(|@import )["']?(?:https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly where every connection is refused."""
    commands = pytest.importorskip("mkdocs.commands.build", reason="`make site` brings mkdocs")
    config = pytest.importorskip("mkdocs.config")
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: object) -> None:
            raise AssertionError("the site wants a network")

        patch.setattr(socket.socket, "connect", refuse)
        commands.build(
            config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
        )
    return folder


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css", ".svg")]
    assert len(files) > 60
    found = {path.name: FETCHED.search(path.read_text(encoding="utf-8")) for path in files}
    assert {name: match[0] for name, match in found.items() if match} == {}


def test_what_pages_load_is_there(site: Path) -> None:
    for page in (site / "index.html", site / "systems" / "torch_gpt.html"):
        loaded = re.findall(r'(?:src|href)="([^"#:]+)"', page.read_text(encoding="utf-8"))
        assert any("iframe-worker.js" in name for name in loaded)
        assert [name for name in loaded if not (page.parent / name).exists()] == []


def test_every_matrix_and_command_is_on_its_page_and_is_found(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"]}
    names = {path.stem for path in (ROOT / "matrices").glob("*/*.yaml")}
    assert {f"matrices.html#{name}" for name in names} <= places
    assert {f"commands.html#{name}" for name in BY_NAME} <= places
    assert any("Document 003" in entry["title"] for entry in index["docs"])


def test_tables_schemas_and_roles_are_on_the_site(site: Path) -> None:
    assert ">statuses</" not in (page := (site / "runs.html").read_text(encoding="utf-8"))
    assert "<td><code>ok</code></td>" in page
    assert "<td><code>cuda_versions</code></td>" in (site / "roles" / "cuda.html").read_text()
    assert 'href="../schemas/table.json"' in (site / "how-to" / "cluster.html").read_text()
    assert json.loads((site / "schemas" / "table.json").read_text())["title"] == "table"


def test_a_table_without_its_place_is_refused() -> None:
    place = "> Table `statuses`: shown by x.\n"
    for text in ("no place", place, 2 * place):
        with pytest.raises(ValueError, match=r"docs/slurm\.md"):
            with_tables(Sheet("docs/slurm.md", text))
    assert with_tables(Sheet("docs/x.md", "none")).text == "none"


@pytest.mark.parametrize("path", sorted((ROOT / "matrices").glob("*/*.yaml")), ids=lambda p: p.stem)
def test_every_matrix_says_what_it_answers(path: Path) -> None:
    said = head(path.read_text(encoding="utf-8"))
    assert 20 < len(said.question) < 400
    assert said.question[-1] in ".?"


def test_the_head_of_a_matrix_is_a_question_the_rest_and_commands() -> None:
    text = "# What of 3.2's 1B? On one\n# node.\n#   bench --matrix x.yaml\n# So.\nname: x # no\n"
    assert head(text) == Head("What of 3.2's 1B?", "On one node. So.", ("bench --matrix x.yaml",))


def test_links_follow_a_page_and_what_it_names() -> None:
    text = (
        "[a](runs.md#statuses) [b](../matrix.yaml) [c](https://x.org/y.md) [d](#here)\n"
        "```\n[e](no.md)\n```\n![f](pictures/p.png)"
    )
    page = Sheet("docs/how-to/x.md", text.replace("(runs", "(../runs").replace("(../m", "(../../m"))
    assert list(targets(page)) == ["docs/runs.md", "matrix.yaml", "docs/how-to/pictures/p.png"]
    assert rewritten(page, "how-to/x.md") == text.replace("(runs", "(../runs").replace(
        "(../matrix.yaml", "(../source/matrix.yaml.md"
    )
    assert address("README.md") == "index.md"
    assert address("roles/cuda/meta/argument_specs.yml") == "roles/cuda.md"


@pytest.mark.parametrize(
    "path", ["README.md", "docs/tutorial.md", *sorted(p.as_posix() for p in HOW_TO)]
)
def test_commands_of_the_first_pages_can_be_typed(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    text = re.sub(r"(?s)```yaml.*?```", "", text)  # a pipeline's lines, folded
    lines = re.findall(r"(?m)^ {4,}(?:trainbench|python -m runner) (.*)", text)
    for line in lines:
        if line != "--help":
            parser().parse_args(shlex.split(line, comments=True))
