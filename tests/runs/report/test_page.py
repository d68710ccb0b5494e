"""The page of a report, as text and in a real browser."""

import re
import shutil
from base64 import b64decode
from html import unescape
from io import BytesIO

import pytest
from helpers.report_runs import evaluation, row, write_run
from PIL import Image, ImageChops, ImageStat

from polytask.config.schema import ReportConfig
from polytask.runs.report import report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for seed in range(2):
        for name, rate in (("mlp", 0.2), ("moore", 0.6)):
            rows = [row(k, {"reach": rate * k / 3, "push": 0.1 + 0.1 * seed}) for k in (1, 2, 3)]
            found = evaluation({"reach": rate, "push": 0.1 * (seed + 1)})
            more = {"evaluation": found, "commit": "0123456789abcdef", "complete": True, "device": "CPU <1>"}
            write_run(folder / "runs" / f"{name}-{seed}", f"net={name}", seed=seed, rows=rows, **more)
    write_run(folder / "runs" / "bro", "net=bro", rows=[row(3, {"reach": 0.9, "push": None})])
    report(ReportConfig(runs=[str(folder / "runs")], output=str(folder / "out"), figures=["curves", "bars"]))
    return folder / "out" / "index.html"


def test_the_page_needs_no_other_file(page):
    text = page.read_text()
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    assert not re.findall(r"url\(|@import|https?://", text)
    assert text.count('src="data:image/png;base64,') == 2


def test_the_pictures_of_the_page_are_small_and_look_like_the_files(page):
    found = [b64decode(each) for each in re.findall(r'src="data:image/png;base64,([^"]+)', page.read_text())]
    for name, content in zip(("curves", "bars"), found, strict=True):
        file, shown = page.with_name(f"{name}.png"), Image.open(BytesIO(content))
        assert shown.mode == "P" and len(content) < 0.6 * file.stat().st_size
        difference = ImageChops.difference(Image.open(file).convert("RGB"), shown.convert("RGB"))
        assert max(ImageStat.Stat(difference).mean) < 1.0  # of 255


def test_the_page_has_the_numbers_the_commands_and_the_commits(page):
    text = unescape(page.read_text())
    assert "polytask train net=moore" in text
    assert "seed=1" in text
    assert 'title="0123456789abcdef"' in text
    assert "CPU <1>" in text
    assert "is missing from the training success: no episode of push ended" in text
    assert "5 runs of 3 settings" in text


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_the_screen_and_its_tables_sort(browser, page, width):
    problems = []
    tab = browser.new_page(viewport={"width": width, "height": 844})
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.goto(page.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    table = tab.locator("table.sortable").first

    def order():
        return table.locator("tbody th").all_inner_texts()

    assert order() == ["bro", "mlp", "moore"]
    head = table.locator("thead th", has_text="noiseless success")
    head.locator("button").click()
    assert order() == ["moore", "mlp", "bro"]  # largest first; bro was not evaluated
    head.locator("button").click()
    assert order() == ["mlp", "moore", "bro"]
    assert head.get_attribute("aria-sort") == "ascending"
    table.locator("thead button").first.click()
    assert order() == ["bro", "mlp", "moore"]
    tab.close()
    assert not problems
