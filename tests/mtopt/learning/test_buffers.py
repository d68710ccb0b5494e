"""Buffers per task and the balance of what is drawn from them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from polytask.errors import UserError
from polytask.mtopt.config.learning import ReplayConfig
from polytask.mtopt.learning.buffers import BufferCounts, TaskBuffers
from polytask.mtopt.records import Episode

TASKS = ("lift-any", "lift-can", "place-any")


def make(number, steps):
    """Make an episode whose values encode its number and the step: 16 number + t, in pictures modulo 256."""
    code = 16 * number + np.arange(steps + 1)
    images = np.broadcast_to((code % 256).astype(np.uint8)[:, None, None, None], (steps + 1, 4, 4, 3)).copy()
    actions = np.repeat(code[:-1, None], 8, 1).astype(np.float32)
    closed, height = (code + 0.25).astype(np.float32), (code + 0.5).astype(np.float32)
    pose = np.repeat(code[:, None] + 0.75, 3, 1).astype(np.float32)
    return Episode(images, closed, height, actions, images[-1:], "lift-any", "script-1", number, pose=pose)


def fill(config=None, episodes=()):
    buffers = TaskBuffers(TASKS, (4, 4), config or ReplayConfig(capacity=200))
    for number, steps, verdicts in episodes:
        buffers.add(number, make(number, steps), verdicts)
    return buffers


def draw(buffers, batch, seed=0):
    return buffers.sample(batch, torch.Generator().manual_seed(seed))


MIXED = [
    (1, 3, {"lift-any": True, "lift-can": True}),
    (2, 5, {"lift-any": False, "lift-can": False}),
    (3, 4, {"lift-any": True, "lift-can": False}),
    (4, 2, {"place-any": False}),
]


def test_counts_per_task_and_outcome():
    buffers = fill(episodes=MIXED)
    assert buffers.counts() == {
        "lift-any": BufferCounts(2, 1, 7, 5),
        "lift-can": BufferCounts(1, 2, 3, 9),
        "place-any": BufferCounts(0, 1, 0, 2),
    }
    assert buffers.verdicts(3) == {"lift-any": True, "lift-can": False}


def test_frames_are_stored_once_for_all_tasks():
    buffers = fill(episodes=MIXED)
    assert buffers._frames == 4 + 6 + 5 + 3


@pytest.mark.parametrize("capacity", [200, 17])  # 17: one episode had to go, and another one lies across the ring's end
def test_every_row_is_a_transition_of_the_right_episode(capacity):
    buffers = fill(ReplayConfig(capacity=capacity), MIXED)
    batch = draw(buffers, 4000)
    code = batch.action[:, 0]
    number, step = code.long() // 16, code.long() % 16
    steps = torch.tensor([0, 3, 5, 4, 2])[number]
    last = step == steps - 1
    assert torch.equal(batch.done, last)
    assert torch.equal(batch.remaining, steps - 1 - step)
    assert torch.equal(batch.image[:, 0, 0, 0].float(), code)
    assert torch.equal(batch.next_image[:, 3, 3, 2].float(), code + 1)
    assert torch.equal(batch.closed, code + 0.25)
    assert torch.equal(batch.height, code + 0.5)
    assert torch.equal(batch.next_closed, code + 1.25)
    assert torch.equal(batch.next_height, code + 1.5)
    verdict = {(number, TASKS.index(task)): won for number, _, all_of in MIXED for task, won in all_of.items()}
    won = torch.tensor([verdict[pair] for pair in zip(number.tolist(), batch.task.tolist(), strict=True)])
    assert torch.equal(batch.success, won)
    assert torch.equal(batch.reward, (won & last).float())
    held = [(number, steps, all_of) for number, steps, all_of in MIXED if number in buffers]
    assert len(held) == (4 if capacity == 200 else 3)
    everything = {(n, t, TASKS.index(task)) for n, steps, all_of in held for t in range(steps) for task in all_of}
    assert set(zip(number.tolist(), step.tolist(), batch.task.tolist(), strict=True)) == everything


UNEVEN = [(1, 10, {"lift-any": True}), (2, 10, {"lift-can": True})]
UNEVEN += [(number, 10, {"lift-any": False}) for number in range(3, 12)]  # 10 % success, 90 % failure
UNEVEN += [(12, 5, {"lift-can": False}), (13, 10, {"place-any": False})]  # and a task that never succeeded


@pytest.mark.parametrize(
    ("balance", "ratio", "wanted"),
    [
        (True, 0.5, [[1 / 6, 1 / 6], [1 / 6, 1 / 6], [1 / 3, 0]]),
        (True, 0.2, [[0.8 / 3, 0.2 / 3], [0.8 / 3, 0.2 / 3], [1 / 3, 0]]),
        (True, None, [[0.9 / 3, 0.1 / 3], [1 / 9, 2 / 9], [1 / 3, 0]]),
        (False, 0.5, [[0.4, 0.4], [0.06, 0.06], [0.08, 0]]),
        (False, None, [[0.72, 0.08], [0.04, 0.08], [0.08, 0]]),
        (True, 1.0, [[0, 1 / 3], [0, 1 / 3], [1 / 3, 0]]),
    ],
)
def test_the_histogram_of_a_draw_is_what_was_asked_for(balance, ratio, wanted):
    buffers = fill(ReplayConfig(200, balance, ratio), UNEVEN)
    for batch_size in (128, 1000):
        batch = draw(buffers, batch_size)
        cells = torch.bincount(2 * batch.task + batch.success.long(), minlength=6).view(3, 2) / batch_size
        assert (cells - torch.tensor(wanted)).abs().max() < 0.02


def test_transitions_of_a_cell_are_drawn_evenly():
    buffers = fill(ReplayConfig(200, True, 0.5), [(1, 2, {"lift-any": True}), (2, 8, {"lift-any": True})])
    counts = torch.bincount(draw(buffers, 20_000).action[:, 0].long())
    counts = counts[counts > 0] / 20_000
    assert len(counts) == 10
    assert (counts - 0.1).abs().max() < 0.01


def test_the_oldest_episodes_make_room_and_vanish_from_all_tasks():
    buffers = fill(
        ReplayConfig(capacity=12), [(1, 3, {"lift-any": True, "lift-can": True}), (2, 3, {"lift-any": False})]
    )
    buffers.add(3, make(3, 5), {"lift-any": False})  # 6 frames: the first 4 must go
    assert buffers.episodes == (2, 3)
    assert buffers.counts()["lift-can"] == BufferCounts(0, 0, 0, 0)
    assert buffers.counts()["lift-any"] == BufferCounts(0, 2, 0, 8)
    assert set(draw(buffers, 500).action[:, 0].long().tolist()) == {32, 33, 34, 48, 49, 50, 51, 52}
    for number in range(4, 60):  # many times around
        buffers.add(number, make(number % 8, 1 + number % 4), {"lift-any": number % 2 == 0})
        batch = draw(buffers, 50, number)
        assert torch.equal(batch.next_image[:, 0, 0, 0].float(), batch.action[:, 0] + 1)
    assert sum(buffers._length[row] + 1 for row in buffers._row_of.values()) == buffers._frames <= 12


def test_a_new_verdict_replaces_the_old_one_and_keeps_the_frames():
    buffers = fill(episodes=MIXED)
    frames = buffers._frames
    buffers.add(2, make(2, 5), {"lift-can": True})
    buffers.assign(4, {})
    assert buffers.counts() == {
        "lift-any": BufferCounts(2, 0, 7, 0),
        "lift-can": BufferCounts(2, 1, 8, 4),
        "place-any": BufferCounts(0, 0, 0, 0),
    }
    assert buffers._frames == frames
    assert set(draw(buffers, 300).task.tolist()) == {0, 1}


def test_an_empty_buffer_has_nothing_to_draw():
    with pytest.raises(UserError, match="no episode with a verdict"):
        draw(fill(), 4)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UserError, match=r"success_ratio=1\.5"):
        fill(ReplayConfig(success_ratio=1.5))
    buffers = fill(ReplayConfig(capacity=4))
    with pytest.raises(UserError, match="unknown task 'juggle'; known: lift-any"):
        buffers.add(1, make(1, 2), {"juggle": True})
    assert len(buffers) == 0
    with pytest.raises(UserError, match="no actions"):
        buffers.add(2, make(2, 0), {"lift-any": True})
    with pytest.raises(UserError, match="5 frames, the buffers hold 4"):
        buffers.add(3, make(3, 4), {"lift-any": True})
    with pytest.raises(UserError, match=r"frames of \(4, 4\), the buffers of \(8, 8\)"):
        TaskBuffers(TASKS, (8, 8), ReplayConfig()).add(1, make(1, 2), {})


@pytest.mark.parametrize("capacity", [200, 17, 6])  # with 6 frames an episode takes the place of one before
def test_episodes_of_the_log_at_once_are_held_as_if_added_one_by_one(capacity, monkeypatch):
    config, rows = ReplayConfig(capacity=capacity), [*MIXED, (2, 5, {"lift-any": True})]
    single, many = fill(config, rows), fill(config)
    written, write = [], TaskBuffers._write
    monkeypatch.setattr(TaskBuffers, "_write", lambda self, *given: written.append(given) or write(self, *given))
    many.add_episodes((number, make(number, steps), verdicts) for number, steps, verdicts in rows)
    assert len(written) == {200: 1, 17: 2, 6: 5}[capacity], "not one copy for each episode"
    assert many.episodes == single.episodes and many.counts() == single.counts()
    for one, other in zip(draw(many, 200), draw(single, 200), strict=True):
        assert torch.equal(one, other)


def test_episodes_before_one_that_is_refused_are_held():
    buffers = fill()
    with pytest.raises(UserError, match="no actions"):
        buffers.add_episodes([(1, make(1, 3), {"lift-any": True}), (2, make(2, 0), {"lift-any": True})])
    assert buffers.episodes == (1,)
    assert set(draw(buffers, 50).action[:, 0].tolist()) == {16, 17, 18}


@pytest.mark.gpu
def test_the_gpu_draws_without_waiting(without_waiting):
    buffers = TaskBuffers(TASKS, (4, 4), ReplayConfig(capacity=200), "cuda")
    for number, steps, verdicts in MIXED:
        buffers.add(number, make(number, steps), verdicts)
    generator = torch.Generator("cuda").manual_seed(0)
    buffers.sample(64, generator)  # makes the tables
    with without_waiting():
        batch = buffers.sample(64, generator)
    assert torch.equal(batch.next_image[:, 0, 0, 0].float(), batch.action[:, 0] + 1)


def test_many_episodes_at_once_are_held_as_if_added_one_by_one():
    lengths, config = [3, 5, 4, 2], ReplayConfig(capacity=17)  # the first has to go
    single, many = TaskBuffers(TASKS, (4, 4), config), TaskBuffers(TASKS, (4, 4), config)
    episodes = [make(number, steps) for number, steps in enumerate(lengths, 1)]
    for number, (episode, row) in enumerate(zip(episodes, MIXED, strict=True), 1):
        single.add(number, episode, row[2])

    def pad(arrays, count):
        return torch.stack([torch.from_numpy(np.resize(array, (count, *array.shape[1:]))) for array in arrays])

    rows = SimpleNamespace(
        images=pad([one.images for one in episodes], 6),
        closed=pad([one.closed for one in episodes], 6),
        height=pad([one.height for one in episodes], 6),
        actions=pad([one.actions for one in episodes], 5),
        pose=pad([one.pose for one in episodes], 6),
        length=torch.tensor(lengths),
    )
    verdicts = torch.tensor([[int(row[2].get(name, -1)) for name in TASKS] for row in MIXED])
    with pytest.raises(UserError, match="more frames than the buffers hold"):
        many.add_from_device([1, 2, 3, 4], rows, verdicts)
    for first, last in ((0, 2), (2, 4)):
        part = SimpleNamespace(**{name: value[first:last] for name, value in vars(rows).items()})
        many.add_from_device(list(range(first + 1, last + 1)), part, verdicts[first:last])
    assert many.episodes == single.episodes and many.counts() == single.counts()
    for one, other in zip(draw(many, 200)[:-1], draw(single, 200)[:-1], strict=True):  # all but the policy's version
        assert torch.equal(one, other)


def test_episodes_without_actions_or_poses():
    buffers = fill()
    image = torch.zeros(2, 3, 4, 4, 3, dtype=torch.uint8)
    zero = torch.zeros(2, 3)
    length = torch.tensor([0, 2])
    rows = SimpleNamespace(
        images=image, closed=zero, height=zero, actions=torch.ones(2, 2, 8), pose=None, length=length
    )
    buffers.add_from_device([7, 8], rows, torch.tensor([[1, 1, 1], [1, -1, 0]]))
    assert buffers.episodes == (8,) and buffers.verdicts(8) == {"lift-any": True, "place-any": False}
    assert draw(buffers, 4).pose.isnan().all()
    last = SimpleNamespace(**{name: None if value is None else value[1:] for name, value in vars(rows).items()})
    with pytest.raises(UserError, match="held already"):
        buffers.add_from_device([8], last, zero[1:])
