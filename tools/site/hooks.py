"""The site's doors in mkdocs (`hooks` of mkdocs.yml): what docs/ lacks, links, navigation."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from tools.site.links import MOVED, ROOT, SOURCE, Sheet, address, rewritten
from tools.site.pages import documents
from tools.site.source import sources

ASSETS = Path(__file__).with_name("assets")


def made() -> dict[str, Sheet]:
    """Return each page's text, by its place on the site: documents, and what is beside docs/."""
    pages = [Sheet(path, (ROOT / path).read_text(encoding="utf-8")) for path in MOVED]
    pages += [Sheet(f"docs/{name}", text) for name, text in documents().items()]
    return {address(page.origin): page for page in pages}


def on_config(config: MkDocsConfig) -> None:
    """Write folders of the navigation out: `systems/` is all pages there."""
    config.extra["made"] = pages = made()
    config.nav = _written_out(config.nav, sorted(uri for uri in pages if uri.endswith(".md")))


def _written_out(items: Any, uris: list[str]) -> Any:
    if isinstance(items, dict):
        return {title: _written_out(inner, uris) for title, inner in items.items()}
    if isinstance(items, str):
        return [u for u in uris if u.startswith(items)] if items.endswith("/") else items
    return [_written_out(item, uris) for item in items]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what docs/ lacks: pages, tables in them, files that they link to, what pages load."""
    pages: dict[str, Sheet] = config.extra["made"]
    pages |= sources(pages.values())
    for uri, page in pages.items():
        file = File.generated(config, uri, content=page.text)
        if uri.startswith(SOURCE):
            file.inclusion = InclusionLevel.NOT_IN_NAV
        if stored := files.get_file_from_path(uri):
            files.remove(stored)
        files.append(file)
    for path in ASSETS.iterdir():
        files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where their files stand on the site."""
    uri = page.file.src_uri
    return rewritten(Sheet(config.extra["made"][uri].origin, markdown), uri)
