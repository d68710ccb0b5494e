"""What is written on the pictures of worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import polytask
from polytask.envs.captions import Caption, CaptionReader, add_caption
from polytask.envs.scripted import ScriptedPolicy

GREY = np.full((180, 240, 3), 128, dtype=np.uint8)


def written(caption: Caption, image: np.ndarray = GREY) -> np.ndarray:
    return add_caption(image, caption)


def green(image: np.ndarray) -> np.ndarray:
    red, level, blue = (image[..., index].astype(int) for index in range(3))
    return (level > red + 60) & (level > blue + 60)


def test_a_strip_at_the_top_has_the_text_and_the_rest_is_the_picture() -> None:
    image = written(Caption("reach", 3, 0.0))
    assert image.shape == GREY.shape
    assert (GREY == 128).all()  # the picture itself is not changed
    assert (image[16:] == 128).all()
    left, right = image[:16, :120], image[:16, 120:]
    assert left.max() > 230  # white letters
    assert right.max() > 230
    assert not green(image).any()


def test_the_step_and_the_task_can_be_told_apart() -> None:
    first, later, other = (written(Caption(*one, 0.0)) for one in (("reach", 3), ("reach", 4), ("push", 3)))
    assert np.array_equal(first[:, :120], later[:, :120])
    assert not np.array_equal(first[:, 120:], later[:, 120:])
    assert not np.array_equal(first[:, :120], other[:, :120])


def test_success_is_a_green_mark_and_a_part_is_in_percent() -> None:
    done, half = written(Caption("dome", 9, 1.0)), written(Caption("dome", 9, 0.5))
    assert green(done)[:16, 225:].sum() > 40
    assert 10 < green(half)[:16, 190:].sum() < green(done).sum()


def test_long_names_are_not_written_over() -> None:
    narrow = np.full((120, 160, 3), 128, dtype=np.uint8)
    name = "button-press-topdown-wall"
    short, long = written(Caption(name, 7, 0.0), narrow), written(Caption(name, 10**9, 0.0), narrow)
    assert not np.array_equal(short, long)  # a short number has room
    assert np.array_equal(long[:, :120], short[:, :120])


def test_a_note_stands_beside_the_task_if_there_is_room() -> None:
    plain, noted = written(Caption("dome", 3, 0.0)), written(Caption("dome", 3, 0.0, "level 9"))
    assert not np.array_equal(plain[:16, 40:120], noted[:16, 40:120])
    assert np.array_equal(plain[:, 180:], noted[:, 180:])  # the step is where it was
    long = "a note that is far too long for a picture that is so narrow"
    assert np.array_equal(written(Caption("dome", 3, 0.0, long)), plain)


def test_the_first_episode_stays_when_it_has_ended() -> None:
    env = polytask.make(tasks=["dome"], num_envs=1, stagger=False, threads=1, level=7)
    reader, next_ones = CaptionReader(env, first_only=True), CaptionReader(env)
    seen, others = [], []
    for step in range(8):
        seen.append(reader.read()[0])
        others.append(next_ones.read()[0])
        if step == 3:
            group: Any = env.groups[0]
            group.episode.goal[:] = 8  # the last waypoint ends the episode with this step
        env.step(torch.zeros(1, 12))
    assert [caption.step for caption in seen] == [0, 1, 2, 3, 4, 4, 4, 4]
    assert [caption.is_over for caption in seen] == [False] * 4 + [True] * 4
    assert [caption.score for caption in seen] == [0.0] * 4 + [1.0] * 4
    assert {caption.name for caption in seen} == {"dome, level 7"}
    assert [caption.step for caption in others] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert {caption.name for caption in CaptionReader(polytask.make(tasks=["reach"], threads=1)).read()} == {"reach"}


def test_small_pictures_stay_as_they_are() -> None:
    small = np.full((30, 40, 3), 128, dtype=np.uint8)
    assert (written(Caption("reach", 1, 1.0), small) == 128).all()


def test_captions_follow_the_first_worlds_through_episodes() -> None:
    env = polytask.make(tasks=["reach", "drawer-close"], num_envs=4, stagger=False, episode_length=70, threads=1)
    reader, policy = CaptionReader(env), ScriptedPolicy(env)
    steps, best, success = [], [], torch.zeros(4, dtype=torch.bool)
    for _ in range(72):
        one, other = reader.read()
        assert (one.task, other.task) == ("reach", "drawer-close")
        assert one.step == other.step
        steps.append(one.step)
        best.append(one.score)
        if len(steps) == 70:
            assert [one.score, other.score] == success[[0, 2]].float().tolist()
        step = env.step(policy(env.obs, env.task))
        success |= step.success
    assert steps == [*range(70), 0, 1]
    assert best[69] == 1.0
    assert best[70] == 0.0  # a new episode
    assert best[:70] == sorted(best[:70])  # a success stays


@pytest.mark.parametrize("copy", [True, False])
def test_the_step_of_an_episode_is_public(copy: bool) -> None:
    env = polytask.make(tasks=["reach"], num_envs=2, stagger=False, episode_length=3, threads=1, copy=copy)
    seen = []
    for _ in range(4):
        seen.append(env.episode_step.tolist())
        env.step(torch.zeros(2, 4))
    assert seen == [[0, 0], [1, 1], [2, 2], [0, 0]]
