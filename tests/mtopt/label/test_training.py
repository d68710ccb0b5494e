"""Training a detector from the page's labels, with the real detector at its smallest."""

import time

import pytest
from helpers.label_page import TASKS, Page
from torch import ones

from polytask.config.compose import compose
from polytask.errors import UserError
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector.folder import choose
from polytask.mtopt.detector.labels import is_held_out
from polytask.mtopt.detector.metrics import score
from polytask.mtopt.label import training
from polytask.mtopt.label.app import create_app
from polytask.mtopt.label.stand_in import StandIn
from polytask.mtopt.roles import DetectorTrainer


@pytest.fixture
def config(config):
    config.detector.updates, config.detector.batch = 25, 12
    config.detector.augment.enabled = False
    config.detector.least_tested = 0
    config.source = "oracle"  # a stand-in labels
    return config


def label(stand_in):
    """Give 25 labels; once both kinds train, the questions are about random episodes."""
    stand_in.label("lift-any", 5)
    stand_in.label("lift-any", 20)


def wait(page):
    end = time.monotonic() + 60
    while (status := page.get("/api/train").json())["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.05)
    return status


def test_without_both_kinds_of_label_it_says_what_to_do(page):
    page.answer(1, True)
    assert page.post("/api/train", {}).status == 202
    status = wait(page)
    assert status["state"] == "failed"
    assert "some successes and some failures" in status["message"]
    assert status["figures"] == []


def test_new_asks_about_episodes_that_train_until_both_kinds_do(page, store, config):
    """Else the first successes of a rare task may all be kept aside, and no detector learns it."""
    aside = is_held_out(range(1, 41), MEASURED)
    every = page.ask(count=40)
    assert set(every[-len(aside) :]) == aside, "those that measure come last"
    held = sorted(one for one in aside if store.truth(one)["lift-any"])
    for episode in held:
        page.answer(episode, True)
    trains = [one for one in every if one not in aside]
    page.answer(trains[0], False)
    assert not aside.intersection(page.ask(count=20)), "a success that only measures does not count"
    page.post("/api/train", {})
    assert f"lift-any: its {len(held)} successes are all kept aside to measure" in wait(page)["message"]
    page.answer(trains[1], True)
    asked = page.ask(count=40)
    assert set(asked[-len(aside - set(held)) :]) != aside - set(held), "from now on in random order"


def test_a_detector_learns_from_labels_and_fills_the_queues(page, store, config):
    stand_in = StandIn(page, store.truth)
    label(stand_in)
    wrong = page.ask(count=1)[0]
    page.answer(wrong, not store.truth(wrong)["lift-any"])
    first = stand_in.train(poll=0.02)
    (row,) = first["figures"]
    assert first["version"] == page.get("/api/state").json()["detector"] == "page-1"
    assert row["task"] == "lift-any"
    assert row["labels"] + row["held_successes"] + row["held_failures"] == 26
    assert row["precision_before"] is row["recall_before"] is None
    assert row["precision_after"] == row["recall_after"] == 1.0  # a bright block is easy to see
    assert page.ask(order="disagrees") == [wrong]
    likely = page.ask(order="likely", count=100)
    assert len(likely) == 13, "14 have no label, and one of them is kept for random draws"
    aside = set(page.ask(count=100)) - set(likely)
    assert len(aside) == 1 and aside == is_held_out(sorted(aside), MEASURED)
    truths = [store.truth(episode)["lift-any"] for episode in likely]
    assert truths == sorted(truths, reverse=True)
    assert sorted(page.ask(order="uncertain", count=100)) == sorted(likely)
    assert page.ask("lift-can", order="likely") == []  # no label, no verdict

    second = stand_in.train(poll=0.02)
    assert second["version"] == "page-2"
    assert second["figures"][0]["recall_before"] == 1.0
    assert [path.name for path in sorted((store.root / "detectors").glob("*.pt"))] == ["page-1.pt", "page-2.pt"]

    reopened = Page(create_app(config, TASKS, store))
    status = wait(reopened)
    assert (status["version"], status["figures"]) == ("page-2", second["figures"])
    assert sorted(reopened.ask(order="likely", count=100)) == sorted(likely)


def test_the_page_and_the_run_keep_the_same_episodes_aside(page, store, config, monkeypatch):
    """With a share of its own, the page trained a detector on episodes that measure the run's, which starts from it."""
    learned = []
    train = training.train_on_labels
    monkeypatch.setattr(training, "train_on_labels", lambda *given: learned.append(given[1]) or train(*given))
    label(StandIn(page, store.truth))
    page.post("/api/train", {})
    wait(page)
    run = DetectorTrainer(RunConfig(run_dir=str(store.root)))
    trains, measures = run._split()
    run.close()
    assert learned == [trains] and measures["lift-any"]
    with pytest.raises(UserError, match="held_out"):
        compose(LabelConfig, [f"run_dir={store.root}", "held_out=0.1"])


def test_a_task_with_one_kind_of_label_is_not_judged(page, store):
    stand_in = StandIn(page, store.truth)
    for episode in range(1, 30):
        page.answer(episode, False, "lift-can")
    page.answer(30, True, "place-any")
    assert page.post("/api/train", {}).status == 202
    assert "of a task first" in wait(page)["message"]
    label(stand_in)
    stand_in.train(poll=0.02)
    assert page.get("/api/state").json()["judged"] == ["lift-any"]
    assert len(page.ask(order="likely", count=100)) == 14
    assert page.ask("lift-can", order="likely") == page.ask("lift-can", order="uncertain") == []
    assert page.ask("lift-can", order="disagrees") == []


def test_the_page_shows_what_training_uses_and_continues_from_it(page, store, monkeypatch):
    stand_in = StandIn(page, store.truth)
    assert page.get("/api/state").json()["in_use"] is None
    label(stand_in)
    stand_in.train(poll=0.02)
    choose(store.root / "detectors", "page-1")
    started = []
    train = training.train_on_labels
    monkeypatch.setattr(training, "train_on_labels", lambda *given: started.append(given[-1].version) or train(*given))
    stand_in.train(poll=0.02)
    assert started == ["page-1"]
    state = page.get("/api/state").json()
    assert (state["detector"], state["in_use"]["version"]) == ("page-2", "page-1")
    assert set(state["in_use"]["not_judged"]) == {"lift-can", "place-any"}


def test_a_task_that_is_wrongly_accepted_is_no_reward_and_the_page_says_why(page, store, config, monkeypatch):
    """The detector says yes to everything that it did not learn from."""
    monkeypatch.setattr(training, "measure", lambda *given: {"lift-any": score("lift-any", ones(30), ones(30) * 0)})
    StandIn(page, store.truth).label("lift-any", 30)
    page.post("/api/train", {})
    status = wait(page)
    (row,) = status["figures"]
    assert not row["is_used"]
    assert row["why"].startswith("of 30 random outcomes that it calls successes, 0 are")
    assert page.get("/api/state").json()["in_use"]["not_judged"]["lift-any"] == row["why"]
    assert row["by_stand_in"] == row["labels"] > 0


def test_progress_is_a_share_while_it_trains(page, store, monkeypatch):
    StandIn(page, store.truth).label("lift-any", 20)
    seen = []
    update = training.DetectorTraining._update
    monkeypatch.setattr(
        training.DetectorTraining, "_update", lambda self, **new: seen.append(new.get("share")) or update(self, **new)
    )
    page.post("/api/train", {})
    assert wait(page)["share"] is None
    shares = [one for one in seen if one is not None]
    assert shares == sorted(shares) and len(shares) == 25 and shares[0] == 0.0


def test_one_training_at_a_time(page, store, config):
    StandIn(page, store.truth).label("lift-any", 20)
    assert page.post("/api/train", {}).status == 202
    assert page.post("/api/train", {}).status == 409
    assert page.answer(40, True)["successes"] > 0  # labelling continues meanwhile
    assert wait(page)["state"] == "done"


def test_a_failure_inside_is_reported(page, store, config):
    StandIn(page, store.truth).label("lift-any", 20)
    config.detector.network.size = "tiny"
    page.post("/api/train", {})
    status = wait(page)
    assert status["state"] == "failed"
    assert "tiny" in status["message"]
