"""Pictures with real OpenGL: they show the current state of the worlds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import polytask
from polytask.envs.render import Renderer, pose_of, task_slice
from polytask.envs.video import VideoFormat, record_video


def test_a_frame_shows_the_scene_and_follows_the_hand() -> None:
    env = polytask.make(tasks=["reach", "drawer-open"], num_envs=4, stagger=False, threads=1)
    renderer = Renderer(env, "drawer-open", 120, 90)
    before = renderer.frame(1)
    assert before.shape == (90, 120, 3)
    assert before.std() > 10  # not a black or a blank picture
    assert np.array_equal(renderer.frame(1), before)
    for _ in range(15):
        env.step(torch.ones(4, 4))
    after = renderer.frame(1)
    changed = (np.abs(after.astype(int) - before) > 20).any(-1).mean()
    assert 0.005 < changed < 0.5  # the arm moved, the table did not
    renderer.close()


def test_a_simple_picture_has_no_shadows_and_hard_edges() -> None:
    env = polytask.make(tasks=["reach"], num_envs=1, stagger=False, threads=1)
    full, simple = Renderer(env, "reach", 160, 120), Renderer(env, "reach", 160, 120, is_simple=True)
    pictures = full.frame().astype(int), simple.frame().astype(int)
    full.close()
    simple.close()
    shaded = (pictures[1] - pictures[0] > 30).all(-1).mean()
    assert 0.01 < shaded < 0.2  # the shadow of the arm
    # A smooth edge is two or three small steps in brightness, a hard one is a large step.
    steps = [np.abs(np.diff(picture, axis=0)).sum(-1) for picture in pictures]
    small = [((step > 30) & (step < 90)).mean() for step in steps]
    assert small[1] < 0.7 * small[0]
    assert task_slice(env, "reach")[1].model.vis.quality.offsamples > 0  # the model of the worlds is as it was


def test_a_remembered_pose_is_drawn_as_it_was() -> None:
    env = polytask.make(tasks=["reach"], num_envs=2, stagger=False, threads=1)
    renderer = Renderer(env, "reach", 64, 48)
    pose, picture = pose_of(env, "reach", 1), renderer.frame(1)
    for _ in range(15):
        env.step(torch.ones(2, 4))
    assert not np.array_equal(renderer.frame(1), picture)
    assert np.array_equal(renderer.draw(pose), picture)
    renderer.close()


def test_a_world_on_another_tile_looks_different() -> None:
    env = polytask.make(tasks=["wide-stairs"], num_envs=10, stagger=False, threads=1)
    renderer = Renderer(env, "wide-stairs", 64, 48)
    easy, hard = renderer.frame(0), renderer.frame(9)
    assert (np.abs(easy.astype(int) - hard) > 20).any(-1).mean() > 0.02
    renderer.close()


def test_a_video_of_real_pictures_is_written(tmp_path) -> None:
    env = polytask.make(tasks=["reach"], num_envs=1, episode_length=5, stagger=False, threads=1)
    path = tmp_path / "video.mp4"
    frames = record_video(env, lambda obs, task: torch.zeros(1, 4), path, VideoFormat(64, 48))
    assert frames == 4
    assert path.stat().st_size > 500


def test_shadows_are_small_enough_for_software_rendering() -> None:
    for task in ("reach", "flat"):  # one scene of each domain; all scenes of a domain share this setting
        env = polytask.make(tasks=[task], num_envs=1, stagger=False, threads=1)
        assert env.groups[0].batch.model.vis.quality.shadowsize <= 1024  # 4096 takes twice as long per picture


def test_waypoints_that_are_left_are_shown_and_the_next_is_brighter() -> None:
    env = polytask.make(tasks=["box-climb"], num_envs=10, stagger=False, threads=1)
    group: Any = env.groups[0]
    marks = pose_of(env, "box-climb", 9).marks
    places = np.array([mark.position for mark in marks])
    assert places[:, :2] == pytest.approx(group.tiles.goals[9].numpy())
    assert places[1, 2] - places[0, 2] > 0.3  # the second one is on a box
    assert [mark.is_next for mark in marks] == [True] + 7 * [False]
    group.episode.goal[9] = 3
    assert pose_of(env, "box-climb", 9).marks == (marks[3]._replace(is_next=True), *marks[4:])
    assert pose_of(polytask.make(tasks=["reach"], threads=1), "reach").marks == ()
    pose = pose_of(env, "box-climb", 9)
    renderer = Renderer(env, "box-climb", 160, 120)
    renderer.follow_layout(9)
    plain, near = replace(pose, marks=()), pose.marks[0]._replace(position=(1.5, 0.0, 0.4))
    pictures = [renderer.draw(replace(pose, marks=(near._replace(is_next=is_next),))) for is_next in (True, False)]
    background = renderer.draw(plain).astype(int)
    bright, dark = ((np.abs(picture - background) > 20).any(-1) for picture in pictures)
    assert bright.sum() > dark.sum() > 4
    assert pictures[0][dark][:, 1].mean() > pictures[1][dark][:, 1].mean() + 50
    renderer.close()


def test_a_picture_stops_where_its_first_episode_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames, steps = list[np.ndarray](), list[int]()
    monkeypatch.setattr("polytask.envs.video.save_video", lambda path, images, rate, count: frames.extend(images))
    env = polytask.make(tasks=["flat"], num_envs=1, stagger=False, threads=1, episode_length=12)
    group: Any = env.groups[0]

    def end_after_five(obs: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        steps.append(len(steps))
        if len(steps) == 5:
            group.episode.goal[:] = 8
        return torch.ones(1, 12)

    record_video(env, end_after_five, tmp_path / "film.mp4", VideoFormat(64, 48))
    assert len(frames) == 11
    worlds = [frame[20:] for frame in frames]  # below the caption
    assert not np.array_equal(worlds[3], worlds[4])
    assert all(np.array_equal(world, worlds[4]) for world in worlds[5:])
