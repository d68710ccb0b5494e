"""MuJoCo's own window: with a stand-in for the window, and on a display in memory where there is one."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext

import mujoco
import mujoco.viewer
import numpy as np
import pytest
import torch

import polytask
from polytask.cli.main import main
from polytask.config.watching import PlayConfig
from polytask.envs.render import Renderer, pose_of
from polytask.errors import UserError
from polytask.viewer import command, native
from polytask.viewer.session import Session

XVFB = shutil.which("Xvfb")


class Window:
    """Stands in for MuJoCo's handle of a window that is closed after some pictures."""

    def __init__(self, model, data, pictures, shown):
        mujoco.mj_forward(model, data)  # as MuJoCo does
        self.model, self.data, self.left, self.shown, self.is_closed = model, data, pictures, shown, False
        self.cam, self.lock = mujoco.MjvCamera(), nullcontext

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_closed = True

    def is_running(self):
        return self.left > 0

    def sync(self):
        self.left -= 1
        self.shown.append(self.data.qpos.copy())


@pytest.fixture
def opened(monkeypatch):
    """Let MuJoCo open stand-ins of ten pictures; return those that were opened."""
    windows = []

    def launch(model, data, *, show_left_ui):
        windows.append(Window(model, data, 10, []))
        return windows[-1]

    monkeypatch.setattr(mujoco.viewer, "launch_passive", launch)
    return windows


@contextmanager
def watching(*tasks):
    env = polytask.make(tasks=list(tasks), num_envs=len(tasks), stagger=False, copy=False)
    actions = torch.full((env.num_envs, env.spec.action_dim), 0.5)
    session = Session(env, lambda obs, task: actions, speed=4.0)
    yield session
    session.close()


def test_the_first_world_moves_until_the_window_is_closed(opened):
    with watching("door-open", "reach") as session:
        native.run(session, [])
        (window,) = opened
        assert window.is_closed
        assert len(window.shown) == 10
        assert session.steps > 0
        np.testing.assert_allclose(window.shown[-1], pose_of(session.env, "door-open").qpos, atol=1e-6)
        assert np.abs(window.shown[-1] - window.shown[0]).max() > 1e-3


def test_a_signal_closes_the_window(opened):
    with watching("reach") as session:
        native.run(session, [signal.SIGINT])
        assert opened[0].is_closed
        assert opened[0].shown == []


def test_the_camera_looks_as_in_videos(opened):
    with watching("reach") as session:
        native.run(session, [signal.SIGINT])
        window, renderer = opened[0], Renderer(session.env, "reach", 64, 48)
        own = mujoco.MjvScene(window.model, 1000)
        mujoco.mjv_updateScene(
            window.model, window.data, mujoco.MjvOption(), None, window.cam, mujoco.mjtCatBit.mjCAT_ALL, own
        )
        renderer.frame()
        expected = renderer._renderer.scene
        np.testing.assert_allclose(own.camera[0].forward, expected.camera[0].forward, atol=1e-5)
        eyes = [np.mean([camera.pos for camera in scene.camera], 0) for scene in (own, expected)]
        np.testing.assert_allclose(*eyes, atol=1e-5)
        renderer.close()


def test_the_camera_goes_with_a_robot_that_walks(opened):
    with watching("flat") as session:
        native.run(session, [signal.SIGINT])
        camera, model = opened[0].cam, opened[0].model
        assert camera.type == mujoco.mjtCamera.mjCAMERA_TRACKING
        assert model.jnt_type[model.body_jntadr[camera.trackbodyid]] == mujoco.mjtJoint.mjJNT_FREE


def test_only_the_world_that_is_seen_is_simulated(opened, monkeypatch):
    monkeypatch.setattr(native, "check_display", lambda: None)
    built, build = [], command.source.build
    monkeypatch.setattr(command.source, "build", lambda config: built.append(build(config)) or built[-1])
    command.play(PlayConfig(policy="scripted", task="reach", viewer="native"))
    assert built[0].env.spec.num_envs == 1


def test_a_window_that_does_not_open_is_one_clear_line(monkeypatch):
    def launch(*_, **__):
        raise RuntimeError("no mjpython")

    monkeypatch.setattr(mujoco.viewer, "launch_passive", launch)
    with watching("reach") as session, pytest.raises(UserError, match=r"cannot open its window \(no mjpython\)"):
        native.run(session, [])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a display")
@pytest.mark.parametrize(
    ("display", "line"),
    [
        (None, "viewer=native needs a display, and there is none; use viewer=web, the default"),
        (":4095", "viewer=native cannot open a window on this display; use viewer=web, the default"),
    ],
)
def test_a_window_needs_a_display(display, line, monkeypatch, capfd):
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    assert main(["play", "policy=random", "task=reach", "viewer=native"]) == 2
    assert capfd.readouterr().err.splitlines() == [f"polytask: {line}"]


@contextmanager
def display():
    """Start a display in memory, and yield its name."""
    reading, writing = os.pipe()
    words = [XVFB, "-displayfd", str(writing), "-screen", "0", "800x600x24", "-nolisten", "tcp"]
    server = subprocess.Popen(words, pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as number:
        name = f":{number.readline().strip()}"
    yield name
    server.terminate()
    server.wait(30)


@pytest.mark.slow
@pytest.mark.skipif(XVFB is None, reason="there is no Xvfb")
def test_a_real_window_opens_and_a_signal_ends_it():
    words = [sys.executable, "-m", "polytask", "play", "policy=scripted", "task=reach", "viewer=native"]
    with display() as name:
        settings = {**os.environ, "DISPLAY": name}
        settings.pop("MUJOCO_GL", None)
        process = subprocess.Popen(words, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(20)  # nothing says that the window is open
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "watched" in output
    assert "watched 0 control steps" not in output
