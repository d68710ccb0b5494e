"""Pictures with real OpenGL: they show the current state of the worlds."""

from __future__ import annotations

import numpy as np
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
