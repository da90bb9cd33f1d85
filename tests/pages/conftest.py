"""Pages, and a browser to open them in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pages.reports import CAMPAIGNS, page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = {1280: 800, 1920: 1080, 390: 844}


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each campaign's page, by name."""
    return {name: page_of(name, tmp_path_factory.mktemp(name)) for name in CAMPAIGNS}


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures and PDFs are left."""
    named = os.environ.get("TRAINBENCH_PAGES")
    folder = Path(named) if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, with nothing of its own that asks the network."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    assert program, "these tests need chromium; make nightly SUITE=pages installs it"
    with sync_playwright() as playwright:
        quiet = ("no-first-run", "disable-background-networking", "disable-component-update")
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", *(f"--{each}" for each in quiet)],
        )
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page in the browser, what it asked for and what went wrong in it."""

    page: Page
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


Open = Callable[..., AbstractContextManager[Opened]]


@pytest.fixture
def opened(browser: Browser) -> Open:
    """Open a file at a width, and close it; a page that asks for anything or complains fails."""

    @contextmanager
    def opened(
        path: Path, width: int = 1280, scheme: str = "light", at: str = "", **more: bool
    ) -> Iterator[Opened]:
        context = browser.new_context(
            viewport={"width": width, "height": SIZES[width]},
            color_scheme=scheme,
            accept_downloads=True,
            **more,
        )
        context.set_default_timeout(20_000)
        page = context.new_page()
        shown = Opened(page)
        page.on("request", lambda request: shown.asked.append(request.url))
        page.on("console", lambda said: shown.wrong.append(said.text))
        page.on("pageerror", lambda error: shown.wrong.append(str(error)))
        page.on("dialog", lambda dialog: shown.wrong.append(dialog.message))
        page.goto(f"{path.as_uri()}{at}")
        yield shown
        asked = {url for url in shown.asked if not url.startswith("blob:")}
        assert asked == {path.as_uri()} or asked == {f"{path.as_uri()}{at}"}, asked
        assert shown.wrong == []
        context.close()

    return opened
