"""The site's doors in mkdocs (`hooks` of mkdocs.yml): pages that docs/ lacks, links, navigation."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from tools.site.links import MOVED, ROOT, SOURCE, Sheet, address, rewritten
from tools.site.matrices import gallery
from tools.site.reference import commands, table_columns
from tools.site.source import sources

ASSETS = Path(__file__).with_name("assets")


def made() -> dict[str, Sheet]:
    """Return the pages that stand elsewhere in the checkout, or that are written from its code."""
    outside = [*MOVED, *(str(path.relative_to(ROOT)) for path in _readmes())]
    pages = [Sheet(path, (ROOT / path).read_text(encoding="utf-8")) for path in outside]
    return {address(page.origin): page for page in [*pages, gallery(), commands(), table_columns()]}


def _readmes() -> list[Path]:
    return sorted((ROOT / "roles").glob("*/README.md"))


def on_config(config: MkDocsConfig) -> None:
    """Write folders of the navigation out: `systems/` is all pages there."""
    uris = sorted([*made(), *(_uri(path) for path in (ROOT / "docs").rglob("*.md"))])
    config.nav = _written_out(config.nav, uris)


def _written_out(items: Any, uris: list[str]) -> Any:
    if isinstance(items, dict):
        return {title: _written_out(inner, uris) for title, inner in items.items()}
    if isinstance(items, str):
        return [u for u in uris if u.startswith(items)] if items.endswith("/") else items
    return [_written_out(item, uris) for item in items]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what docs/ lacks: pages, the files that they link to, and what pages load."""
    pages = made()
    docs = [
        Sheet(f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()
    ]
    pages |= sources([*docs, *pages.values()])
    for uri, page in pages.items():
        file = File.generated(config, uri, content=page.text)
        if uri.startswith(SOURCE):
            file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    for path in ASSETS.iterdir():
        files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))
    config.extra["origins"] = {uri: page.origin for uri, page in pages.items()}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where their files stand on the site."""
    uri = page.file.src_uri
    return rewritten(Sheet(config.extra["origins"].get(uri, f"docs/{uri}"), markdown), uri)


def _uri(path: Path) -> str:
    return str(path.relative_to(ROOT / "docs"))
