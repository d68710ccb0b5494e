"""The docs site in a real browser, as wide as a desktop and as a phone: pages fit, pictures load, menus work."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import CHROMIUM, launched

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")]

ROOT = Path(__file__).parents[1]
DESKTOP, PHONE = 1280, 390  # pixels
# The start page, films, wide tables of pictures and of numbers, terminal output, settings, signatures.
PAGES = (
    "",
    "films/",
    "terrain_films/",
    "gallery/",
    "results/",
    "walkthrough/",
    "reference/commands/",
    "reference/python/",
)
PATIENCE = 120_000  # milliseconds; the films are large, and other tests run at the same time


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, *arguments: object) -> None:
        """Leave out the line for each request."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site, serve it and return its address."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched(sync_api, ["--headless", "--no-sandbox"]) as started:
        yield started


@contextmanager
def opened(browser: Any, width: int, address: str) -> Iterator[Any]:
    """Open a page without errors of its scripts."""
    problems: list[str] = []
    tab = browser.new_page(viewport={"width": width, "height": 844})
    tab.set_default_timeout(PATIENCE)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.goto(address)
    yield tab
    tab.close()
    assert not problems


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_the_screen_and_its_pictures_load(browser: Any, address: str, page: str, width: int) -> None:
    with opened(browser, width, address + page) as tab:
        # What is too wide, such as a table, scrolls by itself; the page does not.
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.evaluate("for (const image of document.images) image.loading = 'eager'")
        tab.wait_for_function("[...document.images].every((image) => image.complete)")
        assert (
            tab.evaluate("[...document.images].filter((image) => !image.naturalWidth).map((image) => image.src)") == []
        )
        assert tab.evaluate("document.images.length") >= (50 if page in ("films/", "gallery/") else 0)


@pytest.mark.parametrize("page", ["results/", "results_hard_tasks/", "mtopt_results/"])
def test_footnotes_are_links_and_not_their_marks(browser: Any, address: str, page: str) -> None:
    with opened(browser, DESKTOP, address + page) as tab:
        assert "[^" not in tab.inner_text("article")
        links = tab.evaluate("[...document.querySelectorAll('.footnote-ref')].map((link) => link.hash.slice(1))")
        assert links and all(tab.evaluate("(name) => document.getElementById(name) !== null", name) for name in links)


def test_on_a_desktop_the_tabs_and_the_sidebar_lead_to_pages(browser: Any, address: str) -> None:
    with opened(browser, DESKTOP, address) as tab:
        tab.locator(".md-tabs").get_by_role("link", name="Gallery").click()
        assert tab.locator("h1").first.inner_text().startswith("Films of the fifty tasks")
        tab.locator(".md-sidebar--primary").get_by_role("link", name="Robots").click()
        assert tab.url == f"{address}robots/"
        assert not tab.locator(".md-header__button[for=__drawer]").is_visible()


def test_on_a_phone_the_menu_opens_and_leads_to_pages(browser: Any, address: str) -> None:
    with opened(browser, PHONE, address) as tab:
        assert not tab.locator(".md-tabs").is_visible()
        films = tab.locator(".md-sidebar--primary").get_by_role("link", name="Films", exact=True)
        sync_api.expect(films).not_to_be_in_viewport()
        tab.locator(".md-header__button[for=__drawer]").click()
        tab.locator(".md-sidebar--primary label.md-nav__link", has_text="Gallery").click()
        sync_api.expect(films).to_be_in_viewport(timeout=PATIENCE)  # the menu slides in
        films.click()
        assert tab.url == f"{address}films/"
        assert tab.locator("h1").first.inner_text().startswith("Films of the fifty tasks")
