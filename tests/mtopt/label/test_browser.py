"""The page in a real browser, with the keys and clicks of a person; every answer is looked up in the store."""

import io

import numpy as np
import pytest
from helpers.browser import CHROMIUM, launched
from helpers.label_page import running
from PIL import Image

from polytask.mtopt.records import Label

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    with launched(sync_api, FLAGS) as started:
        yield started


@pytest.fixture
def open_page(browser, config):
    """Open the page at a width, and insist at the end that nothing went wrong in it or left this machine."""
    opened, problems = [], []
    with running(config) as url:

        def open_at(width=1200, height=900, address=url):
            page = browser.new_context(viewport={"width": width, "height": height}).new_page()
            page.set_default_timeout(10_000)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
            page.on("request", lambda request: problems.append(request.url) if not is_own(request.url, url) else None)
            opened.append(page)
            page.goto(address)
            page.wait_for_selector(".tile")
            return page

        open_at.problems = problems
        yield open_at
        for page in opened:
            page.context.close()
    assert problems == []


def is_own(address, url):
    return address.startswith(url.partition("?")[0])


def shown(page):
    return [int(tile.get_attribute("data-episode")) for tile in page.query_selector_all(".tile")]


def current(page):
    return int(page.get_attribute(".tile.current", "data-episode"))


def counts(page, text):
    sync_api.expect(page.locator("#task-counts")).to_contain_text(text)


def stored(store, task="lift-any"):
    return {label.episode: label.value for label in store.labels(task, "person")}


def test_keys_label_skip_move_and_undo(open_page, store):
    page = open_page()
    episodes = shown(page)
    assert len(episodes) == 24
    page.keyboard.press("s")
    page.keyboard.press("F")
    page.keyboard.press("k")
    page.keyboard.press("Space")
    counts(page, "2 of 20 labels: 1 ✓, 1 ✗")
    assert current(page) == episodes[4]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert current(page) == episodes[5]
    page.keyboard.press("s")
    counts(page, "3 of 20")
    assert stored(store) == {episodes[0]: 1.0, episodes[1]: 0.0, episodes[5]: 1.0}
    page.keyboard.press("u")
    counts(page, "2 of 20")
    assert current(page) == episodes[5]
    for _ in range(4):
        page.keyboard.press("u")
    counts(page, "0 of 20")
    assert stored(store) == {}
    assert page.get_attribute(".tile.current", "aria-label") == f"Episode {episodes[0]}, not judged"


def test_arrow_down_goes_to_the_tile_below(open_page):
    page = open_page()
    before = page.locator(".tile.current").bounding_box()
    page.keyboard.press("ArrowDown")
    after = page.locator(".tile.current").bounding_box()
    assert after["x"] == before["x"]
    assert after["y"] > before["y"]


def test_clicks_label_and_change_a_label(open_page, store):
    page = open_page()
    episodes = shown(page)
    page.click(f".tile[data-episode='{episodes[2]}'] .no")
    counts(page, "0 ✓, 1 ✗")
    page.click(f".tile[data-episode='{episodes[2]}'] .yes")
    counts(page, "1 ✓, 0 ✗")
    page.click("#undo")
    counts(page, "0 ✓, 1 ✗")
    assert stored(store) == {episodes[2]: 0.0}


def test_a_full_page_is_followed_by_the_next_and_undo_reaches_back(open_page, store):
    page = open_page()
    first = shown(page)
    for _ in first:
        page.keyboard.press("f")
    sync_api.expect(page.locator("#queue-size")).to_have_text("16 to go")
    assert len(shown(page)) == 16
    assert not set(shown(page)) & set(first)
    page.keyboard.press("u")
    counts(page, "23 of 20")
    assert current(page) == first[-1]
    page.keyboard.press("s")
    counts(page, "1 ✓, 23 ✗")
    assert stored(store)[first[-1]] == 1.0


def test_tasks_are_chosen_with_the_mouse_and_explained(open_page, store):
    page = open_page()
    page.click("button[data-task='lift-can']")
    sync_api.expect(page.locator("#task-sentence")).to_have_text("The hand holds the can up.")
    page.wait_for_selector(".tile")
    page.keyboard.press("s")
    counts(page, "1 ✓")
    assert list(stored(store)) == []
    assert len(stored(store, "lift-can")) == 1


def test_pictures_are_sharp_and_all_views_are_shown(open_page):
    page = open_page()
    page.wait_for_load_state("networkidle")
    image = page.locator(".tile img").first
    assert image.evaluate("image => image.naturalWidth / image.naturalHeight") == 2
    assert image.evaluate("image => getComputedStyle(image).imageRendering") == "pixelated"
    assert image.bounding_box()["width"] > 200


def test_uploads_become_examples_and_refusals_are_explained(open_page, store, tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(np.full((40, 40, 3), 90, np.uint8)).save(buffer, "JPEG")
    (tmp_path / "good.jpg").write_bytes(buffer.getvalue())
    (tmp_path / "bad.png").write_bytes(b"no picture")
    page = open_page()
    page.click("text=Add pictures of your own")
    page.check("input[value='false']")
    page.set_input_files("#upload-files", [tmp_path / "good.jpg"])
    page.click("#upload button")
    sync_api.expect(page.locator("#upload-status")).to_contain_text("1 added.")
    counts(page, "0 ✓, 1 ✗")
    assert stored(store) == {44: 0.0}
    assert store.read(44).policy == "upload"
    assert page.locator("#examples-failure img").count() == 1
    assert open_page.problems == []
    page.set_input_files("#upload-files", [tmp_path / "bad.png", tmp_path / "good.jpg"])
    page.click("#upload button")
    sync_api.expect(page.locator("#upload-status")).to_contain_text(
        "1 added. bad.png: the file is not a readable picture"
    )
    assert len(store) == 45
    (logged,) = open_page.problems
    assert "422" in logged  # a browser logs every refused request
    open_page.problems.clear()


def test_training_shows_its_figures_and_opens_the_queues(open_page, store, config):
    config.detector.updates, config.detector.batch = 25, 12
    page = open_page()
    page.select_option("#order", "uncertain")
    sync_api.expect(page.locator("#empty")).to_contain_text("needs a detector")
    page.select_option("#order", "new")
    sync_api.expect(page.locator(".tile")).to_have_count(24)
    for episode in shown(page)[:23]:
        assert current(page) == episode
        page.keyboard.press("s" if store.truth(episode)["lift-any"] else "f")
    counts(page, "23 of 20")
    page.click("#show-detector")
    page.click("#train")
    sync_api.expect(page.locator("#train-status")).to_contain_text("Detector page-1 is ready", timeout=60_000)
    cells = page.locator("#figures tbody tr").all_inner_texts()
    assert len(cells) == 1
    assert cells[0].split()[0] == "lift-any"
    sync_api.expect(page.locator("#detector-version")).to_have_text("page-1")
    page.click("#show-label")
    page.select_option("#order", "uncertain")
    sync_api.expect(page.locator("#queue-size")).to_have_text("10 to go")  # all seven that measure are among the 17


def test_a_phone_shows_everything_in_its_width(open_page, store):
    page = open_page(width=320, height=640)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    for button in page.query_selector_all(".tile.current button"):
        assert button.bounding_box()["height"] >= 44
    page.select_option("#task-select", "lift-can")
    sync_api.expect(page.locator("#task-sentence")).to_have_text("The hand holds the can up.")
    page.click(".tile .yes >> nth=0")
    counts(page, "1 ✓")
    page.click("#undo")
    counts(page, "0 ✓")
    assert page.locator("#task-list").is_visible() is False


def test_every_control_has_a_name_and_shows_its_focus(open_page):
    page = open_page()
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, img, progress")].filter((node) =>
          !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels?.length
            || node.hasAttribute("alt") || node.getAttribute("aria-hidden"))).map((node) => node.outerHTML)"""
    )
    assert unnamed == []
    seen = set()
    for _ in range(5):  # backwards from the grid
        page.keyboard.press("Shift+Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"undo", "order", "SUMMARY"} <= seen


def test_the_token_opens_the_page_and_leaves_the_address_bar(browser, config):
    config.token = "a-token-of-some-length"
    with running(config) as url:
        context = browser.new_context()
        page = context.new_page()
        assert page.goto(url.partition("?")[0]).status == 401
        page.goto(url)
        page.wait_for_selector(".tile")
        assert "token" not in page.url
        page.reload()
        page.wait_for_selector(".tile")
        assert page.evaluate("document.cookie") == ""  # scripts cannot read it
        context.close()


def test_zoom_shows_one_view_beside_the_other_and_labels_from_there(open_page, store):
    page = open_page()
    first, second = shown(page)[:2]
    page.keyboard.press("z")
    dialog = page.locator("#zoom")
    sync_api.expect(dialog).to_be_visible()
    sync_api.expect(dialog.locator("#zoom-heading")).to_contain_text(f"episode {first}")
    sync_api.expect(dialog.locator("figcaption")).to_have_text(["view 1", "view 2"])  # these pictures have two views
    box = dialog.locator(".zoom-view").first.bounding_box()
    assert box["width"] > 200 and abs(box["width"] - box["height"]) < 2
    page.keyboard.press("s")
    sync_api.expect(dialog.locator("#zoom-heading")).to_contain_text(f"episode {second}")
    dialog.locator("button.no").click()
    page.keyboard.press("Escape")
    sync_api.expect(dialog).to_be_hidden()
    counts(page, "2 of 20 labels: 1 ✓, 1 ✗")
    assert stored(store) == {first: 1.0, second: 0.0}
    page.locator(".tile .zoom-button").nth(3).click()
    sync_api.expect(dialog.locator("#zoom-heading")).to_contain_text(f"episode {shown(page)[3]}")


def test_captions_name_the_views_of_the_world(open_page, config):
    config.captions = ["hand", "plate"]
    page = open_page()
    sync_api.expect(page.locator(".tile").first.locator(".captions span")).to_have_text(["hand", "plate"])
    page.keyboard.press("z")
    sync_api.expect(page.locator("#zoom figcaption")).to_have_text(["hand", "plate"])


def test_a_person_adds_a_task_and_labels_it_at_once(open_page, store):
    page = open_page()
    page.locator("#new-task summary").click()
    page.fill("#new-name", "lift-red")
    page.fill("#new-skill", "lift")
    page.fill("#new-sentence", "The hand holds something red up.")
    page.locator("#new-task-form button").click()
    sync_api.expect(page.locator("#task-name")).to_have_text("lift-red")
    sync_api.expect(page.locator("#task-sentence")).to_have_text("The hand holds something red up.")
    episode = current(page)
    page.locator(".tile").first.focus()
    page.keyboard.press("s")
    counts(page, "1 of 20 labels: 1 ✓, 0 ✗")
    assert stored(store, "lift-red") == {episode: 1.0}


def test_a_key_while_the_questions_of_another_task_come_labels_nothing(open_page, store):
    page = open_page()
    held = []
    page.route("**/questions?*", lambda route: held.append(route))
    page.locator('button.task[aria-pressed="false"]').first.click()
    sync_api.expect(page.locator(".tile")).to_have_count(0)
    page.keyboard.press("s")
    for route in held:
        route.continue_()
    page.wait_for_selector(".tile")
    counts(page, "0 of 20 labels")
    assert list(store.labels(source="person")) == []


def test_the_detector_view_names_what_training_uses_and_tasks_that_need_labels(open_page, store, config):
    config.detector.updates, config.detector.batch = 5, 8
    page = open_page()
    for number in range(1, 31):
        store.add_labels([Label(number, "lift-any", float(number % 2), "person")])
    page.click("#show-detector")
    sync_api.expect(page.locator("#detector-in-use")).to_have_text("none yet")
    page.click("#train")
    sync_api.expect(page.locator("#detector-in-use")).to_have_text("page-1")
    needs = page.locator("#needs li")
    sync_api.expect(needs).to_have_count(1)  # five updates and a handful of random labels prove nothing
    needs.locator("button").click()
    sync_api.expect(page.locator("#view-label")).to_be_visible()
