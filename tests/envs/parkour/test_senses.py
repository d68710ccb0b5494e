"""What real robots measure, remember and are told: errors, delays, pushes, and who sees the truth."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.parkour_worlds import make, only
from torch.testing import assert_close

from polytask.envs.layouts import REMEMBERED, WITH_ERRORS, parkour_layout
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.options import RealityOptions, TuningOptions
from polytask.envs.parkour.mirror import observation_mirror
from polytask.envs.parkour.observation import Senses, scale_of
from polytask.envs.parkour.reality import DRAWS, Reality
from polytask.robots.go1 import DEFAULT, read_motion

EXACT = dict.fromkeys(
    (
        *("encoder_bias", "imu_tilt", "spin_noise", "tilt_noise", "heading_noise"),
        *("joint_noise", "speed_noise", "scan_noise", "delay", "push"),
    ),
    0.0,
)
NOISE = {"angular velocity": 0.25 * 0.2, "roll and pitch": 0.05, "joint angles": 0.01, "joint speeds": 0.05 * 1.5}


def real(num_envs: int = 4, *, privileged: str = "all", body: str = "randomized", **reality: float) -> MultiTaskEnv:
    options = RealityOptions(**reality)  # type: ignore[arg-type]
    return make("flat", robot="go1_real", num_envs=num_envs, privileged=privileged, body=body, reality=options)


def reality_of(env: MultiTaskEnv) -> Reality:
    found = only(env).reality
    assert found is not None
    return found


SHOWN = [name for name in WITH_ERRORS if name != "foot scan"]  # unless scan.feet is set


def parts_of(env: MultiTaskEnv, obs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Cut observations (N, O) into their parts."""
    options = env.config.options
    layout = parkour_layout(is_real=True, is_privileged=options.privileged != "none", history=options.reality.history)
    assert layout.obs_dim == obs.shape[1]
    return {part["name"]: obs[:, part["start"] : part["start"] + part["size"]] for part in layout.observation()}


def step(env: MultiTaskEnv, scale: float = 0.1, seed: int = 0) -> torch.Tensor:
    action = scale * (2 * torch.rand(env.num_envs, 12, generator=torch.Generator().manual_seed(seed)) - 1)
    return env.step(action).next_obs


def test_without_errors_a_robot_measures_the_truth() -> None:
    env = real(**EXACT)
    for index in range(12):
        parts = parts_of(env, step(env, seed=index))
    for name in SHOWN:
        assert_close(parts[name], parts[f"true {name}"], atol=1e-6, rtol=0.0)


def test_errors_have_their_sizes() -> None:
    """Nine hundred readings come close to the largest error and never exceed it."""
    env = real(100, body="nominal")
    found: dict[str, list[torch.Tensor]] = {name: [] for name in SHOWN}
    for index in range(9):
        parts = parts_of(env, step(env, seed=index))
        for name in SHOWN:
            found[name].append((parts[name] - parts[f"true {name}"]).abs())
    for name, size in {**NOISE, "bearing of the next two waypoints": 0.05, "height scan": 0.1}.items():
        errors = torch.stack(found[name])
        assert 0.97 * size < float(errors.max()) <= size * 1.0001
        assert float(errors.mean()) == pytest.approx(size / 2, rel=0.05)


def test_encoders_have_a_bias_that_the_motors_follow() -> None:
    """The robot believes that it stands at its default; its true joints differ by the bias, which lasts an episode."""
    exact = {**EXACT, "encoder_bias": 0.1, "joint_friction": 0.0, "load": 0.0, "shift": 0.0, "motors": 0.0}
    env = real(8, **exact)
    bias = reality_of(env).state.bias
    assert 0.08 < float(bias.abs().max()) <= 0.1
    before = bias.clone()
    for _ in range(60):
        obs = env.step(torch.zeros(8, 12)).next_obs
    assert torch.equal(bias, before)
    parts = parts_of(env, obs)
    assert_close(parts["joint angles"] - parts["true joint angles"], bias, atol=1e-5, rtol=0.0)
    assert_close(parts["bias of the joint angles"], bias)
    state = reality_of(env).state
    assert_close(state.target, torch.tensor(DEFAULT) - bias)


def test_a_tilted_imu_shows_another_tilt_and_turns_the_angular_velocity() -> None:
    env = real(1, **EXACT)
    reality = reality_of(env)
    true = Senses(
        spin=torch.tensor([[0.0, 0.0, 2.0]]),
        tilt=torch.tensor([[0.3, -0.2]]),
        heading=torch.zeros(1, 2),
        joints=torch.zeros(1, 12),
        speeds=torch.zeros(1, 12),
        scan=torch.zeros(1, 132),
        foot_scan=torch.zeros(1, 0),
    )
    uniform = torch.rand(1, DRAWS)
    assert_close(reality.measure(true, uniform).tilt, true.tilt)
    reality.state.mount.copy_(torch.tensor([[0.1, 0.0, 0.0]]))
    seen = reality.measure(true, uniform)
    assert_close(seen.tilt, torch.tensor([[0.4, -0.2]]), atol=1e-3, rtol=0.0)  # rolled further
    expected = 2.0 * torch.tensor([[0.0, math.sin(0.1), math.cos(0.1)]])
    assert_close(seen.spin, expected, atol=1e-3, rtol=0.0)


def test_motors_are_late_by_their_delay() -> None:
    env = real(200)
    delay = reality_of(env).state.delay
    assert delay.unique().tolist() == [0, 1, 2, 3, 4]
    counts = torch.bincount(delay)
    assert counts.min() > 4
    assert real(50, delay=0.0).groups[0].reality.state.delay.max() == 0  # type: ignore[attr-defined]
    assert real(200, delay=10.0).groups[0].reality.state.delay.max() == 2  # type: ignore[attr-defined]


def test_a_late_robot_moves_later() -> None:
    """With a delay of a whole control step the joints do not move until the next one."""
    env = real(2, **{**EXACT, "delay": 20.0}, body="nominal")
    reality_of(env).state.delay.copy_(torch.tensor([0, 4]))
    for _ in range(100):
        env.step(torch.zeros(2, 12))
    before = only(env).batch.qpos[:, 7:].clone()
    env.step(torch.full((2, 12), 0.2))
    prompt, late = (only(env).batch.qpos[:, 7:] - before).abs().amax(-1).tolist()
    assert prompt > 0.02
    assert late < 0.002
    env.step(torch.full((2, 12), 0.2))
    assert (only(env).batch.qpos[1, 7:] - before[1]).abs().max() > 0.02


def test_history_holds_what_was_measured_before() -> None:
    env = real(3, history=2)
    first = parts_of(env, env.obs)
    for ago in (1, 2):
        for name in REMEMBERED:
            assert torch.equal(first[f"{name}, {ago} ago"], first[name])
    seen = [first, *(parts_of(env, step(env, seed=index)) for index in range(3))]
    for name in REMEMBERED:
        assert torch.equal(seen[3][f"{name}, 1 ago"], seen[2][name])
        assert torch.equal(seen[3][f"{name}, 2 ago"], seen[1][name])
        assert not torch.equal(seen[3][name], seen[2][name])


def test_a_new_episode_remembers_nothing_of_the_last_one() -> None:
    env = real(2, history=2)
    for index in range(4):
        step(env, scale=1.0, seed=index)
    env.reset(torch.tensor([True, False]))
    parts = parts_of(env, env.obs)
    assert torch.equal(parts["joint angles, 2 ago"][0], parts["joint angles"][0])
    assert not torch.equal(parts["joint angles, 2 ago"][1], parts["joint angles"][1])


def test_pushes_come_every_one_to_three_seconds() -> None:
    """The velocity jumps by at most the size of a push, at times of its own in every world."""
    env = real(40, body="nominal", **{**EXACT, "push": 0.5})
    group, times = only(env), list[torch.Tensor]()
    reset = group.batch.reset

    def note(mask: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor) -> None:
        change = (qvel - group.batch.qvel)[mask]
        assert change[:, 2:].abs().max() == 0
        assert change[:, :2].abs().max() <= 0.5
        times.append(mask.clone())
        reset(mask, qpos, qvel)

    group.batch.reset = note  # type: ignore[method-assign]
    steps = list[int]()
    for index in range(400):
        env.step(torch.zeros(40, 12))
        steps += [index] * (len(times) - len(steps))
    for world in range(40):
        when = torch.tensor([at for at, mask in zip(steps, times, strict=True) if mask[world]])
        pauses = when.diff()
        assert len(pauses) >= 1
        assert pauses.min() >= 50
        assert pauses.max() <= 150


def test_random_numbers_depend_on_the_seed_only() -> None:
    one, same, other = (make("flat", robot="go1_real", num_envs=3, seed=seed) for seed in (4, 4, 5))
    for env in (one, same, other):
        for index in range(60):
            step(env, seed=index)
    assert torch.equal(one.obs, same.obs)
    assert not torch.equal(one.obs, other.obs)


@pytest.mark.parametrize("robot", ["go1", "go1_real"])
def test_privileged_parts_come_last_and_can_be_left_out(robot: str) -> None:
    envs = {who: make("flat", robot=robot, num_envs=3, privileged=who) for who in ("all", "critic", "none")}
    for env in envs.values():
        for index in range(3):
            step(env, seed=index)
    measured = envs["none"].spec.obs_dim
    assert measured == {"go1": 180, "go1_real": 180 + 3 * 41}[robot]
    assert envs["critic"].spec.actor_dim == measured
    assert envs["all"].spec.actor_dim is envs["none"].spec.actor_dim is None
    assert torch.equal(envs["all"].obs, envs["critic"].obs)
    assert torch.equal(envs["all"].obs[:, :measured], envs["none"].obs)
    assert all(len(env.spec.obs_scale) == env.spec.obs_dim for env in envs.values())


def test_the_critic_sees_what_the_robot_cannot_measure() -> None:
    env = real(5)
    parts = parts_of(env, step(env))
    group, state = only(env), reality_of(env).state
    motion = read_motion(group.batch)
    assert_close(parts["velocity"], 2.0 * motion.velocity_body)
    assert_close(parts["true angular velocity"], 0.25 * motion.spin_body)
    assert_close(parts["true joint angles"], motion.joints - torch.tensor(DEFAULT))
    assert_close(parts["true height scan"], group.episode.scan)
    assert_close(parts["load, shift of its centre and friction"][:, :1], group.body.load)
    assert_close(parts["friction of the joints"], state.joint_friction - 1)
    assert_close(parts["delay of the motors"][:, 0], state.delay / 4)
    assert_close(parts["tilt of the IMU's mount"], state.mount)


def test_mirror_and_scales_cover_every_part() -> None:
    layout = parkour_layout(is_real=True, history=2)
    mirror = observation_mirror(torch.device("cpu"), layout)
    assert mirror.index.sort().values.tolist() == list(range(layout.obs_dim))
    x, everyone = torch.randn(2, layout.obs_dim), torch.ones(2, dtype=torch.bool)
    assert torch.equal(mirror(mirror(x, everyone), everyone), x)
    assert len(scale_of(layout)) == layout.obs_dim
    parts = {part["name"]: slice(part["start"], part["start"] + part["size"]) for part in layout.observation()}
    seen = mirror(x, everyone)
    for name in REMEMBERED:
        plain = x.clone()
        plain[:, parts[name]] = x[:, parts[f"{name}, 1 ago"]]
        assert torch.equal(mirror(plain, everyone)[:, parts[name]], seen[:, parts[f"{name}, 1 ago"]])


def test_mirrored_episodes_of_real_robots_run() -> None:
    env = make("flat", robot="go1_real", num_envs=8, tuning=TuningOptions(mirror=True))
    for index in range(5):
        assert torch.isfinite(step(env, seed=index)).all()
    assert only(env).episode.mirrored.any()
