"""Motors follow late targets and have less torque at speed, alike in both simulators."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from polytask.robots.go1 import DEFAULT
from polytask.scenes import compile_scene
from polytask.sim import BACKENDS, WarpSettings, make_batch
from polytask.sim.base import Batch, Drive

CPU = torch.device("cpu")
TORQUE, SPEED = torch.tensor([23.7, 23.7, 35.55] * 4), torch.tensor([30.1, 30.1, 20.06] * 4)
every_backend = pytest.mark.parametrize("sim", BACKENDS)


def falling(sim: str, speed: Tensor, delay: tuple[int, ...]) -> tuple[Batch, Drive]:
    """Create robots in free fall whose joints have a speed (12,), and the drive of their motors."""
    count = len(delay)
    batch = make_batch(sim, compile_scene("parkour", "go1_real.xml"), count, CPU, WarpSettings())
    drive = Drive(torch.zeros(count, 12), torch.zeros(count, 12), torch.tensor(delay, dtype=torch.int32), TORQUE, SPEED)
    batch.drive(drive)
    qpos = torch.cat([torch.tensor([1.0, 0.0, 5.0, 1.0, 0.0, 0.0, 0.0]), torch.tensor(DEFAULT)]).expand(count, -1)
    qvel = torch.zeros(count, 18)
    qvel[:, 6:] = speed
    batch.reset(torch.ones(count, dtype=torch.bool), qpos.clone(), qvel)
    return batch, drive


@every_backend
@pytest.mark.parametrize(
    ("share", "forward", "backward"),
    [(0.0, 1.0, 1.0), (0.5, 0.5, 1.0), (-0.5, 1.0, 0.5), (1.0, 0.0, 1.0), (1.25, -0.25, 1.0), (2.5, -1.0, 1.0)],
)
def test_torque_falls_with_speed(sim: str, share: float, forward: float, backward: float) -> None:
    """The torque sensors show what far targets ahead and behind make of the motors."""
    for target, expected in ((10.0, forward), (-10.0, -backward)):
        batch, drive = falling(sim, share * SPEED, (0,))
        drive.target.fill_(target)
        batch.step(1, refresh=False)
        torch.testing.assert_close(batch.sensordata[0, 36:48], expected * TORQUE, atol=1e-3, rtol=1e-4)


@every_backend
def test_limits_follow_the_speed_within_a_control_step(sim: str) -> None:
    batch, drive = falling(sim, torch.zeros(12), (0,))
    drive.target.fill_(10.0)
    batch.step(3, refresh=False)
    before = batch.qvel[0, 6:].clone()
    assert (before.abs() > 1.0).all()
    batch.step(1, refresh=False)
    torch.testing.assert_close(batch.sensordata[0, 36:48], TORQUE * (1 - before / SPEED), atol=1e-2, rtol=1e-3)


@every_backend
def test_delayed_motors_follow_the_previous_target_first(sim: str) -> None:
    """A delay of n time steps is the same as n steps towards the old target and the rest towards the new one."""
    old, new = torch.tensor(DEFAULT), torch.tensor(DEFAULT) + 0.3
    batch, drive = falling(sim, torch.zeros(12), (0, 1, 3, 4))
    drive.previous.copy_(old)
    drive.target.copy_(new)
    batch.step(4, refresh=False)
    for world, delay in enumerate((0, 1, 3, 4)):
        other, own = falling(sim, torch.zeros(12), (0,))
        for target, steps in ((old, delay), (new, 4 - delay)):
            own.target.copy_(target)
            if steps:
                other.step(steps, refresh=False)
        torch.testing.assert_close(batch.qpos[world], other.qpos[0], atol=1e-6, rtol=0.0)
    assert not torch.allclose(batch.qpos[0], batch.qpos[1], atol=1e-3)


@every_backend
def test_rewriting_changes_the_chosen_worlds_in_place(sim: str) -> None:
    """A robot that gets a load falls on as before but turns its joints by less; the other one is not touched."""
    batch, drive = falling(sim, torch.zeros(12), (0, 0))
    names = ("body_mass", "body_inertia", "body_subtreemass")
    fields = {name: torch.tensor(getattr(batch.model, name)).float()[None].repeat_interleave(2, 0) for name in names}
    batch.vary(fields)
    calf = batch.model.body("FL_calf").id
    for values in fields.values():
        values[:, calf] *= 3.0
    batch.rewrite(torch.tensor([False, True]), fields)
    drive.target.copy_(torch.tensor(DEFAULT) + 0.1)
    batch.step(2, refresh=False)
    light, heavy = batch.qvel[:, 8].tolist()
    alone, single = falling(sim, torch.zeros(12), (0,))
    single.target.copy_(torch.tensor(DEFAULT) + 0.1)
    alone.step(2, refresh=False)
    assert light == pytest.approx(float(alone.qvel[0, 8]), abs=1e-5)
    assert 0.2 * light < heavy < 0.8 * light
