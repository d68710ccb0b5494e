"""What the page's API does with labels: each is followed into the store."""

import io

import numpy as np
import pytest
from helpers.label_page import SIZE, TASKS, Page
from PIL import Image

from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.detector.labels import is_held_out
from polytask.mtopt.label.app import create_app
from polytask.mtopt.label.session import Verdicts
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.run_tasks import FILE, add, read
from polytask.mtopt.store import EpisodeStore


def stored(store, task="lift-any", source="person"):
    return {label.episode: label.value for label in store.labels(task, source)}


def session_of(page):
    return page.app.state.api.session


def test_state_lists_tasks_with_meaning_and_progress(page):
    page.answer(1, True)
    page.answer(2, False)
    state = page.get("/api/state").json()
    rows = {row["name"]: row for row in state["tasks"]}
    assert list(rows) == list(TASKS)
    assert rows["lift-any"]["sentence"] == "The hand holds any object up."
    assert (rows["lift-any"]["successes"], rows["lift-any"]["failures"], rows["lift-any"]["candidates"]) == (1, 1, 40)
    assert (rows["lift-can"]["successes"], rows["lift-can"]["candidates"]) == (0, 40)  # same skill, same episodes
    assert rows["place-any"]["candidates"] == 3
    assert state["goal"] == 20
    assert state["detector"] is None


def test_a_task_added_on_the_page_is_data_of_the_run(page, store, config):
    """It shares the episodes of its skill, is labelled like the others, and stays when the page starts again."""
    page.get("/api/state")  # the page has read the episodes already
    body = {"name": "lift-2-red", "skill": "lift", "sentence": "The hand holds two red things up."}
    assert page.post("/api/tasks", body).status == 201
    rows = {row["name"]: row for row in page.get("/api/state").json()["tasks"]}
    assert (rows["lift-2-red"]["sentence"], rows["lift-2-red"]["candidates"]) == (body["sentence"], 40)
    page.answer(1, True, "lift-2-red")
    assert stored(store, "lift-2-red") == {1: 1.0}
    tasks = read(store.root / FILE)
    assert (tasks.names, tasks.slots) == ((*TASKS, "lift-2-red"), TASKS.slots)
    again = Page(create_app(config, tasks, store))
    assert again.get("/api/state").json()["free_places"] == 1
    assert again.ask("lift-2-red") != []


def test_a_task_that_another_process_adds_appears_on_the_page(page, store):
    page.get("/api/state")
    add(store.root, TaskInfo("place-two", "place", "Two objects lie on the plate."), TASKS)
    assert page.get("/api/tasks/place-two/questions").status == 404
    names = [row["name"] for row in page.get("/api/state").json()["tasks"]]
    assert names == [*TASKS, "place-two"]
    assert len(page.ask("place-two")) == 3


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": "Lift Red"}, "name='Lift Red' is not valid"),
        ({"name": "lift-any"}, "there is already a task 'lift-any': The hand holds any object up."),
        ({"skill": ""}, "skill='' is not valid"),
        ({"sentence": " "}, "say in one line of at most 300 characters what success looks like"),
        ({"sentence": "one\ntwo"}, "say in one line"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
    ],
)
def test_a_task_that_cannot_be_added_is_refused_in_one_line(page, store, changes, line):
    body = {"name": "lift-red", "skill": "lift", "sentence": "The hand holds something red up."} | changes
    reply = page.post("/api/tasks", body)
    assert (reply.status, "\n" in reply.json()["detail"]) == (422, False)
    assert line in reply.json()["detail"]
    assert not (store.root / FILE).exists()


def test_there_is_room_for_a_fixed_number_of_tasks(page):
    for number in range(TASKS.slots - len(TASKS)):
        body = {"name": f"lift-{number}", "skill": "lift", "sentence": "The hand holds it up."}
        assert page.post("/api/tasks", body).status == 201
    reply = page.post("/api/tasks", body | {"name": "lift-more"})
    assert (reply.status, reply.json()["detail"][:36]) == (422, "all 5 places for tasks are taken; a ")


def test_outcome_shows_all_views(page, store):
    reply = page.get("/api/episodes/1/outcome.png")
    assert reply.headers["content-type"] == "image/png"
    image = np.asarray(Image.open(io.BytesIO(reply.body)))
    assert image.shape == (SIZE, 2 * SIZE, 3)
    assert (image[:, SIZE:] == store.outcome(1)[1]).all()


def test_new_asks_once_about_everything_and_not_about_the_answered(page):
    asked = page.ask(count=100)
    assert sorted(asked) == list(range(1, 41))
    page.answer(asked[0], True)
    page.answer(asked[1], False)
    page.answer(asked[2], None)
    assert sorted(page.ask(count=100)) == sorted(asked[3:])
    assert page.ask("lift-can", count=100) != []  # answers count for their task only


def test_answers_are_rows_of_the_store_and_a_later_one_counts(page, store):
    progress = page.answer(5, True)
    assert (progress["successes"], progress["failures"]) == (1, 0)
    assert stored(store) == {5: 1.0}
    page.answer(5, False)
    assert stored(store) == {5: 0.0}
    assert stored(store, "lift-can") == {}


def test_a_skip_leaves_no_label(page, store):
    page.answer(5, None)
    assert stored(store) == {}
    assert page.get("/api/tasks/lift-any/questions").json()["size"] == 39


def test_undo_goes_back_step_by_step(page, store):
    page.answer(5, True)
    page.answer(6, False)
    page.answer(5, False)  # a change of mind
    page.answer(7, None)
    undone = [(page.post("/api/undo", {"task": "lift-any"}).json()["episode"], stored(store)) for _ in range(5)]
    assert undone == [(7, {6: 0.0, 5: 0.0}), (5, {6: 0.0, 5: 1.0}), (6, {5: 1.0}), (5, {}), (None, {})]
    assert page.get("/api/tasks/lift-any/questions").json()["size"] == 40


def test_undo_belongs_to_a_task(page, store):
    page.answer(5, True, task="lift-any")
    page.answer(6, True, task="lift-can")
    assert page.post("/api/undo", {"task": "lift-any"}).json()["episode"] == 5
    assert stored(store, "lift-can") == {6: 1.0}


def test_examples_are_the_newest_labels(page):
    for number in range(1, 12):
        page.answer(number, number % 2 == 0)
    assert page.get("/api/tasks/lift-any/examples").json() == {
        "successes": [10, 8, 6, 4, 2],
        "failures": [11, 9, 7, 5, 3, 1],
    }


def test_detector_queues_need_a_detector(page):
    page.answer(1, True)
    for order in ("uncertain", "likely", "disagrees"):
        assert page.ask(order=order) == []


def test_detector_queues_follow_its_probabilities(page):
    page.answer(1, True)
    page.answer(2, True)
    page.answer(3, False)
    seen = {1: 0.1, 2: 0.9, 3: 0.99, 4: 0.3, 7: 0.51, 6: 0.95, 5: 0.5}  # the fifth is kept for random draws
    session_of(page).verdicts = Verdicts("v1", {"lift-any": 0.5}, {"lift-any": seen})
    assert page.ask(order="uncertain") == [7, 4, 6]
    assert page.ask(order="likely") == [6, 7, 4]
    found = page.get("/api/tasks/lift-any/questions?order=disagrees").json()
    assert found["questions"] == [
        {"episode": 3, "label": False, "probability": 0.99},
        {"episode": 1, "label": True, "probability": 0.1},
    ]
    page.answer(3, True, order="disagrees")
    assert page.ask(order="disagrees") == [1]
    assert page.get("/api/state").json()["detector"] == "v1"


def test_labels_that_measure_are_never_shown_with_the_detectors_verdict(page, store):
    """Corrections go only towards what is shown, so they would raise the precision by which the gate decides."""
    aside = is_held_out(range(1, 41), MEASURED)
    for episode in range(1, 41):
        page.answer(episode, True)
    uploads: list[int] = []
    while not is_held_out(uploads, MEASURED):
        reply = page.post("/api/uploads?task=lift-any&value=true", png(), **{"content-type": "image/png"})
        uploads.append(reply.json()["episode"])
    seen = dict.fromkeys([*range(1, 41), *uploads], 0.01)
    session_of(page).verdicts = Verdicts("v1", {"lift-any": 0.5}, {"lift-any": seen})
    asked = page.ask(order="disagrees", count=100)
    assert aside and set(asked) == set(seen) - aside, "uploaded pictures train, whatever their number says"
    assert page.get("/api/tasks/lift-any/questions?order=disagrees&count=1").json()["size"] == len(asked)


def test_new_knows_that_an_uploaded_success_trains_and_does_not_look_at_every_episode(page, store, monkeypatch):
    """A rare task may have no success for long, and each of its questions would read the whole index."""
    aside = is_held_out(range(1, 41), MEASURED)
    assert set(page.ask(count=40)[-len(aside) :]) == aside, "until both kinds train, those that measure come last"
    uploads: list[int] = []
    while not is_held_out(uploads, MEASURED):
        reply = page.post("/api/uploads?task=lift-any&value=false", png(), **{"content-type": "image/png"})
        uploads.append(reply.json()["episode"])
    page.answer(uploads[-1], True)  # by its number alone, it would be kept aside
    assert len(uploads) > 1
    monkeypatch.setattr(EpisodeStore, "examples", None)
    assert set(page.ask(count=40)[-len(aside) :]) != aside, "both kinds train, so they come in random order"


def test_chosen_queues_leave_out_the_episodes_that_measure(page):
    """Labels that measure a detector must be random draws."""
    aside = is_held_out(range(1, 41), MEASURED)
    session_of(page).verdicts = Verdicts("v1", {"lift-any": 0.5}, {"lift-any": dict.fromkeys(range(1, 41), 0.6)})
    for order in ("uncertain", "likely"):
        assert set(page.ask(order=order, count=40)) == set(range(1, 41)) - aside


@pytest.fixture
def repeating(store):
    """Ask about every label again, once two others lie between."""
    config = LabelConfig(run_dir=str(store.root), reask=1.0, reask_gap=2)
    return Page(create_app(config, TASKS, store))


def test_hidden_repeats_measure_agreement_and_change_no_label(repeating, store):
    first = repeating.ask(count=10)
    for episode in first[:6]:
        repeating.answer(episode, True)
    shown = repeating.get("/api/tasks/lift-any/questions?count=10").json()["questions"]
    again = [question["episode"] for question in shown if question["episode"] in first[:4]]
    assert len(again) == 2  # one in five at most, and none of the two newest labels
    assert all(question["label"] is None and question["probability"] is None for question in shown)
    repeating.answer(again[0], True)
    progress = repeating.answer(again[1], False)
    assert (progress["agreed"], progress["asked_twice"]) == (1, 2)
    assert stored(store) == dict.fromkeys(first[:6], 1.0)
    assert not set(again) & set(repeating.ask(count=10))  # asked twice, not three times
    reopened = Page(create_app(session_of(repeating).config, TASKS, store))
    assert reopened.get("/api/state").json()["agreed"] == 1


def test_undo_takes_a_repeat_back(repeating, store):
    for episode in repeating.ask(count=10)[:6]:
        repeating.answer(episode, True)
    labelled = stored(store)
    again = next(episode for episode in repeating.ask(count=10) if episode in labelled)
    repeating.answer(again, False)
    reply = repeating.post("/api/undo", {"task": "lift-any"}).json()
    assert reply["episode"] == again
    assert reply["progress"]["lift-any"]["asked_twice"] == 0
    assert stored(store) == labelled
    assert again in repeating.ask(count=10)


def test_new_episodes_and_labels_of_others_show_up(page, store):
    other = EpisodeStore(store.root)
    with other.writer("other") as writer:
        number = writer.append(store.read(1))
    assert number in page.ask(count=100)
    other.close()


def test_sharing_decides_whose_episodes_a_task_is_asked_about(store):
    for share, count in (("orig", 0), ("skill", 40), ("all", 43)):
        page = Page(create_app(LabelConfig(run_dir=str(store.root), share=share), TASKS, store))
        assert page.get("/api/tasks/lift-can/questions").json()["size"] == count


def test_only_chosen_tasks_are_offered(store):
    page = Page(create_app(LabelConfig(run_dir=str(store.root), tasks=["lift-can"]), TASKS, store))
    assert [row["name"] for row in page.get("/api/state").json()["tasks"]] == ["lift-can"]
    assert len(page.ask("lift-can", count=100)) == 40  # though other tasks collected them
    assert page.get("/api/tasks/lift-any/questions").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"answers": []},
        {"answers": [{"task": "lift-any", "episode": 1}]},
        {"answers": [{"task": "lift-any", "episode": "1", "value": True}]},
        {"answers": [{"task": "lift-any", "episode": 1, "value": 1}]},
        {"answers": [{"task": "lift-any", "episode": -1, "value": True}]},
        {"answers": [{"task": "lift-any", "episode": 10**20, "value": True}]},
        {"answers": [{"task": "lift-any", "episode": 77, "value": True}]},
        {"answers": [{"task": "unknown", "episode": 1, "value": True}]},
        {"answers": [{"task": "lift-any", "episode": 1, "value": True, "order": "random"}]},
        {"answers": [{"task": "lift-any", "episode": 1, "value": True, "source": "oracle"}]},
        b"{",
        b"\xff\xfe",
        [],
    ],
)
def test_malformed_answers_are_refused_and_leave_nothing(page, store, body):
    assert 400 <= page.post("/api/answers", body).status < 500
    assert store.labels() == []


def test_a_batch_with_one_bad_answer_leaves_nothing(page, store):
    good = {"task": "lift-any", "episode": 1, "value": True}
    assert page.post("/api/answers", {"answers": [good, good | {"episode": 999}]}).status == 422
    assert page.post("/api/answers", {"answers": [good, good | {"task": "unknown"}]}).status == 404
    assert store.labels() == []


@pytest.mark.parametrize("query", ["order=random", "count=0", "count=100000", "count=x"])
def test_malformed_questions_are_refused(page, query):
    assert page.get(f"/api/tasks/lift-any/questions?{query}").status == 422


def png(height=50, width=50, value=120):
    buffer = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), value, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def test_an_upload_becomes_a_labelled_episode_without_actions(page, store):
    headers = {"content-type": "image/png"}
    reply = page.post("/api/uploads?task=lift-can&value=true", png(), **headers)
    assert reply.status == 201
    episode = reply.json()["episode"]
    read = store.read(episode)
    assert (read.policy, read.task, read.actions.shape) == ("upload", "lift-can", (0, 8))
    assert read.outcome.shape == (2, SIZE, SIZE, 3)
    assert (read.outcome == 120).all()
    assert stored(store, "lift-can") == {episode: 1.0}
    page.post("/api/uploads?task=lift-can&value=false", png(), **headers)
    found = page.get("/api/tasks/lift-can/examples").json()
    assert found == {"successes": [episode], "failures": [episode + 1]}


def test_an_upload_into_an_empty_store_takes_the_configured_shape(tmp_path):
    empty = EpisodeStore(tmp_path / "empty")
    page = Page(create_app(LabelConfig(run_dir=str(empty.root), views=3, outcome_size=48), TASKS, empty))
    assert page.ask() == []
    reply = page.post("/api/uploads?task=lift-any&value=true", png(), **{"content-type": "image/png"})
    assert empty.outcome(reply.json()["episode"]).shape == (3, 48, 48, 3)
    empty.close()


@pytest.mark.parametrize(
    ("query", "body", "kind", "status"),
    [
        ("task=lift-can&value=true", b"hello", "image/png", 422),
        ("task=lift-can&value=true", b"", "image/png", 422),
        ("task=lift-can&value=true", b"<html>", "text/html", 415),
        ("task=../../etc&value=true", png(), "image/png", 404),
        ("task=lift-can&value=maybe", png(), "image/png", 422),
        ("value=true", png(), "image/png", 422),
        ("task=lift-can&value=true", bytes(2_000_000), "image/png", 413),
    ],
)
def test_bad_uploads_are_refused_and_leave_nothing(store, query, body, kind, status):
    page = Page(create_app(LabelConfig(run_dir=str(store.root), max_upload_bytes=1_500_000), TASKS, store))
    assert page.post(f"/api/uploads?{query}", body, **{"content-type": kind}).status == status
    assert len(store) == 43
    assert store.labels() == []
