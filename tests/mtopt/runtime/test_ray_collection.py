"""How orders, sequences and parts of the log are passed on; a list of calls stands in for the pool of processes."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from helpers.tiny_run import tiny

from polytask.mtopt.config.run import RayConfig
from polytask.mtopt.roles.controller import Controller
from polytask.mtopt.store import tallies

pytest.importorskip("ray")

from polytask.mtopt.runtime.ray import grading
from polytask.mtopt.runtime.ray.collection import Collection
from polytask.mtopt.runtime.ray.pipeline import TrainingPipeline
from polytask.mtopt.runtime.ray.transfer import bytes_in_flight

MEGABYTE = 1_000_000


@dataclass
class CallList:
    """Keeps calls until a test answers them."""

    calls: list = field(default_factory=list)

    def call(self, slot, submit, then, lost):
        self.calls.append((slot.name, submit, then, lost))

    def names(self):
        return [name for name, *_ in self.calls]

    def answer(self, name, *answer):
        place = self.names().index(name)
        self.calls.pop(place)[2](*(answer or (None, None)))

    def lose(self, name):
        self.calls.pop(self.names().index(name))[3]()


def slot(name):
    return SimpleNamespace(name=name, deaths=0)


@pytest.fixture
def parts(tmp_path):
    """Three collectors, orders of 2 episodes or more, and room for 33 MB."""
    config = tiny(tmp_path, ray=RayConfig(collectors=3, object_store=100))
    config.collector.episodes, config.collector.round_episodes = 20, 20
    pool, done = CallList(), []
    files = SimpleNamespace(refs=[], lag=lambda version: 0.0)
    controller = Controller(config)
    made = Collection(config, pool, files, controller, lambda job, metrics, seconds: done.append((job, metrics)))
    made.connect([slot(f"c{number}") for number in range(3)], slot("writer"))
    return SimpleNamespace(pool=pool, done=done, controller=controller, collection=made, config=config)


def bring(parts, name, size):
    parts.pool.answer(name, {"weights": 0.0, "bytes": float(size)}, "sequence")


def store(parts, episodes=4):
    parts.pool.answer("writer", {"episodes": float(episodes), "twice": 0.0}, None)


def test_collectors_are_idle_while_too_many_bytes_wait_for_the_writer(parts):
    assert bytes_in_flight(parts.config) == 33_333_333
    parts.collection.pump()
    assert parts.pool.names() == ["c0", "c1", "c2"], "nobody knows yet how large a sequence is"
    bring(parts, "c0", 12 * MEGABYTE)
    assert parts.pool.names() == ["c1", "c2", "writer"], "36 MB are coming"
    bring(parts, "c1", 12 * MEGABYTE)
    store(parts)
    assert parts.pool.names() == ["c2", "writer"], "24 MB are held, and 12 more do not fit"
    store(parts)
    assert parts.pool.names() == ["c2", "c0"]
    assert [metrics["episodes"] for _, metrics in parts.done] == [4.0, 4.0]


def test_there_is_always_room_for_one(parts):
    parts.collection.pump()
    for name in ("c0", "c1", "c2"):
        bring(parts, name, 50 * MEGABYTE)
    assert parts.pool.names() == ["writer"] * 3
    for _ in range(3):
        store(parts)
    assert len(parts.pool.names()) == 1


def test_a_lost_sequence_frees_its_room_and_is_replaced(parts):
    parts.collection.pump()
    parts.pool.lose("c1")
    bring(parts, "c0", 30 * MEGABYTE)
    parts.pool.lose("writer")  # the writer lives: the bytes were lost
    assert parts.collection.lost == 2
    assert len(parts.controller.open) == len([name for name in parts.pool.names() if name != "writer"])
    bring(parts, "c2", MEGABYTE)
    store(parts)
    assert parts.controller.episodes == 4


def test_collectors_go_on_while_the_round_is_trained(parts):
    while parts.controller.phase == "collect":
        parts.controller.finish(parts.controller.next(), {"episodes": 4.0})
    while parts.controller.phase != "train":
        parts.controller.finish(parts.controller.next(), {"last": 20.0})
    parts.collection.pump()
    assert not parts.pool.calls, "nothing is learned yet"
    parts.controller.finish(parts.controller.next(), {})
    training = parts.controller.next()  # under way
    parts.collection.pump()
    assert parts.pool.names() == ["c0", "c1", "c2"]
    bring(parts, "c0", MEGABYTE)
    store(parts)
    assert parts.controller.phase == "train" and parts.controller.open == [training]
    assert parts.controller.early == 4 and parts.done[-1][0].round == 1
    assert parts.pool.names() == ["c1", "c2", "c0"], "half of the training: ten of twenty episodes"


def test_without_continuous_collectors_wait_for_their_round(parts):
    parts.config.ray.continuous = False
    while parts.controller.phase != "evaluate":
        parts.controller.finish(parts.controller.next(), {"episodes": 4.0, "last": 20.0})
    parts.collection.pump()
    assert not parts.pool.calls


def test_after_a_signal_no_further_orders_go_out(parts):
    parts.collection.stops = [15]
    parts.collection.pump()
    assert not parts.pool.calls


def test_batches_in_progress_fit_into_memory(tmp_path):
    config = tiny(tmp_path, ray=RayConfig(updaters=100, object_store=256))
    config.world.image_size, config.updater.rows = 64, 1024
    limit = TrainingPipeline(config, CallList(), None)._limit
    assert limit == 2, "each is 38 MB: two pictures a row on the way to its updater, one on the way back"
    config.world.image_width = 128
    assert TrainingPipeline(config, CallList(), None)._limit == 1, "a wide picture takes its own bytes, 75 MB"
    config.world.image_width = None
    config.updater.rows = 16
    assert TrainingPipeline(config, CallList(), None)._limit == 143
    config.ray.updaters = 1
    assert TrainingPipeline(config, CallList(), None)._limit == 2


def test_graders_share_the_log_and_repeat_what_is_lost(monkeypatch):
    monkeypatch.setattr(grading, "BLOCK", 4)
    assert tallies.BLOCK != 4, "its own copy"
    pool, spans = CallList(), []

    def graded():
        actor = SimpleNamespace(grade=SimpleNamespace(remote=lambda *span: spans.append(span)))
        name, submit, *_ = pool.calls[0]
        submit(actor)
        if len(spans) == 2:
            pool.lose(name)  # this grader died with its block
        else:
            pool.answer(name)

    pool.step = graded
    grading.grade_in_parallel(pool, [slot("g0"), slot("g1")], 11)
    assert sorted(spans) == [(0, 4), (4, 8), (4, 8), (8, 11)]
    grading.grade_in_parallel(pool, [slot("g0")], 0)
