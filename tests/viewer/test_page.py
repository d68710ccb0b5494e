"""The page in a real browser, with software WebGL."""

import io
import re
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.browser import CHROMIUM, launched
from PIL import Image

from polytask.config.watching import PlayConfig
from polytask.viewer import source
from polytask.web.access import link

pytest.importorskip("viser", reason="the viewer needs viser")
sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
from polytask.viewer.page import Page  # noqa: E402  # after the checks
from polytask.viewer.server import close_server, guard_of, open_server  # noqa: E402

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")


@contextmanager
def shown(**changes):
    """Build a page that nobody runs yet."""
    config = source.checked(PlayConfig(**{"policy": "scripted", "tasks": ["reach"], "worlds": 2, "port": 0, **changes}))
    guard = guard_of(config)
    server = open_server(config, guard)
    page = None
    try:
        page = Page(server, config, source.build(config))
        yield page, link(config.host, server.get_port(), guard.token)
    finally:
        if page is not None:
            page.session.close()
        close_server(server)


@contextmanager
def running(**changes):
    """Run a page in a thread, and yield it with its address."""
    with shown(**changes) as (page, url):
        stops, failures = [], []

        def run():
            try:
                page.run(stops)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        yield page, url
        stops.append(2)
        thread.join(30)
        assert failures == []
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def browser():
    with launched(sync_api, FLAGS) as started:
        yield started


@contextmanager
def visiting(browser, url, width=900, height=600):
    """Open the page, and insist at the end that nothing went wrong in it or left this machine."""
    problems = []
    page = browser.new_context(viewport={"width": width, "height": height}).new_page()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: problems.append(request.url) if is_foreign(request.url, url) else None)
    page.goto(url)
    sync_api.expect(page.get_by_text(re.compile(r"step \d+")).first).to_be_visible(timeout=60_000)
    yield page
    page.context.close()
    assert problems == []


def is_foreign(address, url):
    own = url.partition("?")[0]
    return not address.startswith((own, own.replace("http", "ws"), "data:", "blob:"))


def steps(page):
    return int(re.search(r"step (\d+)", page.inner_text("body")).group(1))


def wait_for(page, condition, seconds=60):
    for _ in range(4 * seconds):
        if condition():
            return
        page.wait_for_timeout(250)
    raise AssertionError("it did not happen in time")


@needs_browser
def test_worlds_are_drawn_and_time_can_be_stopped(browser):
    with running() as (_, url), visiting(browser, url) as page:
        wait_for(page, lambda: steps(page) > 0)
        page.get_by_role("button", name="Pause").click()
        sync_api.expect(page.get_by_text("paused")).to_be_visible(timeout=60_000)
        before = steps(page)
        page.wait_for_timeout(1500)
        assert steps(page) == before
        page.get_by_role("button", name="Step").click()
        wait_for(page, lambda: steps(page) == before + 1)
        picture = Image.open(io.BytesIO(page.locator("canvas").first.screenshot())).convert("RGB")
        colours = np.unique(np.asarray(picture).reshape(-1, 3) // 8, axis=0)
        assert len(colours) > 100  # a blank canvas has one
        page.get_by_role("button", name="Continue").click()
        wait_for(page, lambda: steps(page) > before + 2)


@needs_browser
def test_the_page_fits_a_phone(browser):
    with running() as (_, url), visiting(browser, url, width=390, height=844) as page:
        wait_for(page, lambda: steps(page) > 0)
        box = page.get_by_role("button", name="Pause").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


@needs_browser
@pytest.mark.slow
def test_another_task_is_chosen_and_a_bad_choice_is_explained(browser):
    with running() as (own, url), visiting(browser, url) as page:

        def choose(label, value):
            page.get_by_label(label, exact=True).click()
            page.get_by_role("option", name=value, exact=True).click()

        choose("task", "push")
        wait_for(page, lambda: own.session.env.spec.tasks == ("push",))
        choose("task", "flat")
        sync_api.expect(page.get_by_text("no scripted experts")).to_be_visible(timeout=60_000)
        assert own.session.env.spec.tasks == ("push",)
        choose("watch", "1: push")
        sync_api.expect(page.get_by_text("Drag the handle")).to_be_visible(timeout=60_000)


@needs_browser
def test_a_link_with_a_token_opens_and_one_without_does_not(browser):
    with running(host="0.0.0.0") as (_, url):
        local = re.sub(r"//[^:]+:", "//127.0.0.1:", url)
        with visiting(browser, local) as page:
            wait_for(page, lambda: steps(page) > 0)
        stranger = browser.new_context().new_page()
        assert stranger.goto(local.partition("?")[0]).status == 401
        assert "token" in stranger.inner_text("body")
        stranger.context.close()


def test_a_dragged_handle_moves_the_goal_of_its_world():
    with shown() as (page, _):
        page._watch.value = "1: reach"
        page._watch_another()
        handle, offset = page.drawing._handle, page.drawing.scene.offsets[1]
        np.testing.assert_allclose(handle.position, page.session.goals.position(1) + offset, atol=1e-6)
        others = page.session.goals.position(0)
        target = np.array([0.1, 0.8, 0.2], np.float32)
        event = SimpleNamespace(target=SimpleNamespace(position=target + offset))
        with pytest.raises(StopIteration):
            handle._impl_aux.update_cb[0](event).send(None)  # as viser awaits it
        page.obey()
        np.testing.assert_allclose(page.session.goals.position(1), target, atol=1e-6)
        np.testing.assert_array_equal(page.session.goals.position(0), others)


def test_goals_of_parkour_are_said_to_be_fixed():
    with shown(policy="random", tasks=["flat"], worlds=1) as (page, _):
        assert "waypoints" in page._goal.content


def test_a_narrow_screen_sees_the_worlds_from_further_away():
    with shown() as (page, _):
        clients = [SimpleNamespace(camera=SimpleNamespace(aspect=aspect)) for aspect in (0.5, 1.2, 2.0)]
        for client in clients:
            page._aim(client)
        phone, desktop, wide = (np.linalg.norm(one.camera.position - one.camera.look_at) for one in clients)
        assert phone / desktop == pytest.approx(2.1, rel=1e-3)
        assert wide == pytest.approx(desktop, rel=1e-5)


def test_a_camera_that_follows_moves_with_the_robot():
    with shown(policy="random", tasks=["flat"], worlds=2) as (page, _):
        page._watch.value = "1: flat"
        page._watch_another()
        camera = SimpleNamespace(position=np.zeros(3))
        page._server.get_clients = lambda: {0: SimpleNamespace(camera=camera)}
        before = page.drawing.scene.centre(1)
        for _ in range(20):
            page.session.step()
        page.draw()
        moved = page.drawing.scene.centre(1) - before
        assert np.abs(moved).max() > 1e-3
        np.testing.assert_allclose(camera.position, moved, atol=1e-6)
        page._follow.value = False
        page.session.step()
        page.draw()
        np.testing.assert_allclose(camera.position, moved, atol=1e-6)
