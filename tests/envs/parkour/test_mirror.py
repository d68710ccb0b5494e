"""The mirror of parkour shows what a mirrored robot on mirrored ground sees, and turns its actions."""

from __future__ import annotations

from typing import Any

import torch
from helpers.parkour_worlds import conclude_at, make, only, pose
from torch.testing import assert_close

from polytask.envs.options import RealityOptions, ScanOptions, TuningOptions
from polytask.envs.parkour.mirror import action_mirror, observation_mirror
from polytask.envs.parkour.observation import layout_of
from polytask.envs.parkour.worlds import ParkourGroup, coin

CPU = torch.device("cpu")
EVERYONE = torch.ones(1, dtype=torch.bool)
LEGS = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]  # of the image, whose left is the other's right
HIPS = torch.tensor([-1.0, 1.0, 1.0]).repeat(4)  # a hip turns the other way
TURNS = torch.tensor([-1.0, 1.0, -1.0])  # so does what turns about the x or the z axis
TOLD = (  # what does not depend on how the robots have moved
    *("commanded speed", "last action", "foot contacts", "load, shift of its centre and friction"),
    *("motor stiffness and damping", "friction of the joints", "delay of the motors", "bias of the joint angles"),
    "tilt of the IMU's mount",
)


def mirrored_state(qpos: torch.Tensor, qvel: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mirror image of a state, written out by hand."""
    head = qpos[:, :7] * torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])  # position, and a quaternion
    speed = qvel[:, :6] * torch.cat([torch.tensor([1.0, -1.0, 1.0]), TURNS])
    return torch.cat([head, qpos[:, 7:][:, LEGS] * HIPS], -1), torch.cat([speed, qvel[:, 6:][:, LEGS] * HIPS], -1)


def make_image_of(plain: ParkourGroup, other: ParkourGroup) -> None:
    """Make ground, body and command of a world, and what is real of its robot, the mirror image of another's."""
    other.tiles.goals[:, :, 1] *= -1
    other.tiles.ground.view(10, 360, 80).copy_(plain.tiles.ground.view(10, 360, 80).flip(-1))
    for name in ("stiffness", "damping"):
        getattr(other.body, name).copy_(getattr(plain.body, name)[:, LEGS])
    for name in ("load", "friction"):
        getattr(other.body, name).copy_(getattr(plain.body, name))
    other.body.shift.copy_(plain.body.shift * torch.tensor([1.0, -1.0, 1.0]))
    other.episode.command.copy_(plain.episode.command)
    if plain.reality is None or other.reality is None:
        return
    state, image = plain.reality.state, other.reality.state
    image.joint_friction.copy_(state.joint_friction[:, LEGS])
    image.delay.copy_(state.delay)
    image.bias.copy_(state.bias[:, LEGS] * HIPS)
    image.mount.copy_(state.mount * TURNS)
    other.reality.write(EVERYONE)


def test_the_mirror_shows_what_a_mirrored_robot_on_mirrored_ground_sees() -> None:
    envs = [make("box-climb", num_envs=1, level=4) for _ in range(2)]
    plain, other = (only(env) for env in envs)
    make_image_of(plain, other)
    generator = torch.Generator().manual_seed(1)
    qpos = pose(3.02, 0.26)[None] + 0.1 * torch.randn(1, 19, generator=generator)
    qpos[:, 3:7] /= qpos[:, 3:7].norm()
    qvel = torch.randn(1, 18, generator=generator)
    action = 2 * torch.rand(1, 12, generator=generator) - 1
    plain.buffers.action.copy_(action)
    other.buffers.action.copy_(action_mirror(CPU)(action, EVERYONE))
    plain.episode.touching[0, 0] = other.episode.touching[0, 1] = True  # the left front foot touched before
    conclude_at(envs[0], qpos[0], qvel[0])
    conclude_at(envs[1], *(row[0] for row in mirrored_state(qpos, qvel)))
    seen = observation_mirror(CPU)(plain.buffers.next_obs, EVERYONE)
    scan = slice(48, 180)  # its points fall into cells; at a border a point and its image may fall into other ones
    same = (seen[:, scan] - other.buffers.next_obs[:, scan]).abs() < 1e-4
    assert same.float().mean() > 0.9
    for part in (slice(0, 48), slice(180, 212)):
        assert_close(seen[:, part], other.buffers.next_obs[:, part], atol=1e-5, rtol=0)


def difference(name: str, seen: torch.Tensor, image: torch.Tensor) -> float:
    """Return how far a part of an observation is from that of the image: the largest error, or that of most points.

    A point of a scan at the border of a cell and its image may fall into other cells.
    """
    return float((seen - image).abs().quantile(0.9 if "scan" in name else 1.0))


def test_a_mirrored_real_robot_moves_and_measures_as_the_mirror_shows() -> None:
    """Two robots with large errors fall side by side before a step, one as the image of the other, put up by hand.

    What they are told about themselves agrees to the last digits, what they measure of their motion up to the asymmetry
    of the trunk.
    """
    quiet = dict.fromkeys(
        (*("spin_noise", "tilt_noise", "heading_noise"), *("joint_noise", "speed_noise", "scan_noise", "push")), 0.0
    )
    real = RealityOptions(encoder_bias=0.2, imu_tilt=0.3, joint_friction=0.9, history=2, **quiet)
    options: dict[str, Any] = {
        "robot": "go1_real",
        "level": 4,
        "reality": real,
        "scan": ScanOptions(feet=True, every=1),
    }
    envs = [make("box-climb", num_envs=1, **options) for _ in range(2)]
    plain, other = (only(env) for env in envs)
    assert plain.reality is not None and other.reality is not None
    plain.reality.state.joint_friction.mul_(20.0)  # so that it slows the joints within a few steps
    plain.reality.write(EVERYONE)
    make_image_of(plain, other)
    # One foot is above the edge of a box, the others before it.
    qpos, qvel = pose(1.9, 0.26, z=0.8, yaw=0.4)[None], torch.randn(1, 18, generator=torch.Generator().manual_seed(1))
    for group, (place, speed) in ((plain, (qpos, qvel)), (other, mirrored_state(qpos, qvel))):
        group.batch.reset(EVERYONE, place, speed)
    plain.reality.hold(EVERYONE, qpos[:, 7:])
    other.reality.hold(EVERYONE, mirrored_state(qpos, qvel)[0][:, 7:])
    layout = layout_of(envs[0].config)
    for index in range(6):
        plain.episode.touching[0, 0] = other.episode.touching[0, 1] = True  # the left front foot touched before
        action = torch.rand(1, 12, generator=torch.Generator().manual_seed(index)) - 0.5
        seen = observation_mirror(CPU, layout)(envs[0].step(action).next_obs, EVERYONE)
        image = envs[1].step(action_mirror(CPU)(action, EVERYONE)).next_obs
    for part in layout.observation():
        name, entries = part["name"], slice(part["start"], part["start"] + part["size"])
        allowed = 1e-5 if name in TOLD else 0.03
        assert difference(name, seen[:, entries], image[:, entries]) < allowed, name


def test_two_mirrors_show_the_world_as_it_is() -> None:
    x, everyone = torch.randn(3, 212), torch.tensor([True, False, True])
    once = observation_mirror(CPU)(x, everyone)
    assert torch.equal(once[1], x[1])
    assert not torch.equal(once[0], x[0])
    assert torch.equal(observation_mirror(CPU)(once, everyone), x)
    action = torch.randn(3, 12)
    assert torch.equal(action_mirror(CPU)(action_mirror(CPU)(action, everyone), everyone), action)


def test_a_mirrored_episode_moves_the_robot_by_the_mirrored_action() -> None:
    plain, seen = make("flat", num_envs=1), make("flat", num_envs=1, tuning=TuningOptions(mirror=True))
    only(seen).episode.mirrored.fill_(True)
    action = 2 * torch.rand(1, 12) - 1
    plain.step(action_mirror(CPU)(action, EVERYONE))
    after = seen.step(action)
    assert torch.equal(only(plain).batch.qpos, only(seen).batch.qpos)
    assert torch.equal(after.next_obs[:, 32:44], action)  # the policy sees its own last action
    assert torch.equal(observation_mirror(CPU)(after.next_obs, EVERYONE), plain._buffers.next_obs)


def test_half_of_the_episodes_are_mirrored_whatever_their_command() -> None:
    env = make("flat", num_envs=400, tuning=TuningOptions(mirror=True))
    groups: list[Any] = list(env.groups)
    mirrored = torch.cat([group.episode.mirrored for group in groups]).float()
    assert 0.4 < mirrored.mean() < 0.6
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    tossed = coin(uniform).float()
    assert 0.48 < tossed[uniform < 0.5].mean() < 0.52
    assert 0.48 < tossed[uniform >= 0.5].mean() < 0.52
