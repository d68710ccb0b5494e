"""The stand-in labels as a person would, with the configured rate of errors."""

import pytest
from helpers.label_page import TASKS, Page, running

from polytask.errors import UserError
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.label.app import create_app
from polytask.mtopt.label.client import UrlClient
from polytask.mtopt.label.stand_in import StandIn


def wrong(store, task, source="oracle"):
    return sum((label.value > 0.5) != store.truth(label.episode)[task] for label in store.labels(task, source))


@pytest.fixture
def config(config):
    config.source = "oracle"
    return config


def test_a_page_for_people_refuses_it(store):
    page = Page(create_app(LabelConfig(run_dir=str(store.root)), TASKS, store))
    with pytest.raises(UserError, match="counts labels as a person's; start it with source=oracle"):
        StandIn(page, store.truth).label("lift-any", 5)
    assert store.labels() == []


def test_it_labels_from_truth(page, store):
    assert StandIn(page, store.truth).label("lift-any", 25) == 25
    assert len(store.labels("lift-any", "oracle")) == 25
    assert wrong(store, "lift-any") == 0


def test_repeats_do_not_keep_it_from_its_count(store):
    page = Page(create_app(LabelConfig(run_dir=str(store.root), reask=1.0, reask_gap=2, source="oracle"), TASKS, store))
    stand_in = StandIn(page, store.truth)
    assert [stand_in.label("lift-any", count) for count in (12, 12, 1, 1)] == [12, 12, 1, 1]


def test_it_stops_when_nothing_is_left(page, store):
    assert StandIn(page, store.truth).label("lift-any", 1000) == 40
    assert StandIn(page, store.truth).label("lift-any", 1000) == 0


def test_it_errs_at_the_given_rate(store):
    page = Page(create_app(LabelConfig(run_dir=str(store.root), source="oracle", reask=0.0), TASKS, store))
    StandIn(page, store.truth, error_rate=1.0).label("lift-any", 40)
    assert wrong(store, "lift-any", "oracle") == 40
    StandIn(page, store.truth, error_rate=0.25, seed=1).label("lift-can", 40)
    assert 3 <= wrong(store, "lift-can", "oracle") <= 17  # 10 expected, spread 2.7
    assert store.labels(source="person") == []


def test_its_errors_lower_the_agreement_of_repeats(store):
    page = Page(create_app(LabelConfig(run_dir=str(store.root), reask=1.0, reask_gap=2, source="oracle"), TASKS, store))
    stand_in = StandIn(page, store.truth, error_rate=0.5, seed=3)
    for _ in range(3):
        stand_in.label("lift-any", 12)
    state = page.get("/api/state").json()
    assert state["asked_twice"] == 4  # one in five of the second and of the third dozen
    assert state["agreed"] < state["asked_twice"]


def test_what_the_simulator_does_not_know_is_skipped(page, store):
    assert StandIn(page, lambda episode: {}).label("lift-any", 5) == 0
    assert store.labels() == []


def test_it_works_over_the_network(config, store):
    with running(config) as url:
        assert StandIn(UrlClient(url), store.truth).label("lift-can", 7) == 7
    assert len(store.labels("lift-can", "oracle")) == 7


def test_mistakes_are_named(page, store):
    with pytest.raises(UserError, match="no task 'lift-cat'"):
        StandIn(page, store.truth).label("lift-cat", 5)
    with pytest.raises(UserError, match="error_rate=2"):
        StandIn(page, store.truth, error_rate=2)
