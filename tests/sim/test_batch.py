"""The batch interface on both simulators: writing and reading state, masks, resuming."""

from __future__ import annotations

import copy

import pytest
import torch

from polytask.errors import UserError
from polytask.robots import ROBOTS
from polytask.robots.go1 import DEFAULT
from polytask.scenes import compile_scene
from polytask.sim import BACKENDS, WarpSettings, make_batch
from polytask.sim.base import Batch, Shapes
from polytask.sim.cpu import CpuBatch

CPU = torch.device("cpu")


@pytest.fixture(params=BACKENDS)
def batch(request: pytest.FixtureRequest) -> Batch:
    return make_batch(request.param, compile_scene("puck", "sawyer.xml"), 3, CPU, WarpSettings())


def test_tensors_have_the_environment_axis_first_and_are_float32(batch: Batch) -> None:
    m = batch.model
    shapes = {
        "qpos": (3, m.nq),
        "qvel": (3, m.nv),
        "ctrl": (3, m.nu),
        "mocap_pos": (3, m.nmocap, 3),
        "mocap_quat": (3, m.nmocap, 4),
        "time": (3,),
        "xpos": (3, m.nbody, 3),
        "xquat": (3, m.nbody, 4),
        "site_xpos": (3, m.nsite, 3),
    }
    for name, shape in shapes.items():
        tensor = getattr(batch, name)
        assert tensor.shape == shape, name
        assert tensor.dtype == torch.float32, name


def test_reset_writes_masked_rows_only_and_forward_follows_them(batch: Batch) -> None:
    body = batch.model.body("obj").id
    address = int(batch.model.joint("obj").qposadr[0])
    qpos, qvel = batch.qpos.clone(), batch.qvel.clone()
    before = batch.xpos.clone()
    qpos[:, address : address + 3] = torch.tensor([0.1, 0.7, 0.3])
    batch.reset(torch.tensor([False, True, False]), qpos, qvel)
    batch.forward()
    torch.testing.assert_close(batch.xpos[1, body], torch.tensor([0.1, 0.7, 0.3]))
    assert torch.equal(batch.xpos[[0, 2]], before[[0, 2]])


def test_poses_describe_the_state_after_the_step(batch: Batch) -> None:
    """A falling object's pose equals its joint position, not that of one time step before."""
    address = int(batch.model.joint("obj").qposadr[0])
    qpos = batch.qpos.clone()
    qpos[:, address + 2] = 0.5
    batch.reset(torch.ones(3, dtype=torch.bool), qpos, torch.zeros_like(batch.qvel))
    batch.step(5)
    assert (batch.qpos[:, address + 2] < 0.5).all()
    torch.testing.assert_close(batch.xpos[:, batch.model.body("obj").id], batch.qpos[:, address : address + 3])
    torch.testing.assert_close(batch.time, torch.full((3,), 0.0125))


def test_state_dict_continues_the_same_trajectory(batch: Batch) -> None:
    home = ROBOTS["sawyer"].settle(batch.model, (0.0, 0.6, 0.2))
    rows = [torch.tensor(row, dtype=torch.float32).expand(3, -1) for row in (home.qpos, home.qvel)]
    batch.reset(torch.ones(3, dtype=torch.bool), *rows)
    batch.mocap_pos[:, batch.model.body("mocap").mocapid[0]] = torch.tensor([0.02, 0.62, 0.2])
    batch.step(5)
    saved = {name: tensor.clone() for name, tensor in batch.state_dict().items()}
    batch.step(5)
    expected = batch.qpos.clone()
    batch.step(5)
    batch.load_state_dict(saved)
    batch.step(5)
    # MuJoCo repeats results bit for bit; Warp only up to the order of its sums.
    tolerance = 0.0 if isinstance(batch, CpuBatch) else 1e-5
    torch.testing.assert_close(batch.qpos, expected, atol=tolerance, rtol=0.0)


def test_step_without_refresh_leads_to_the_same_state(batch: Batch) -> None:
    home = ROBOTS["sawyer"].settle(batch.model, (0.0, 0.6, 0.2))
    rows = [torch.tensor(row, dtype=torch.float32).expand(3, -1) for row in (home.qpos, home.qvel)]
    batch.reset(torch.ones(3, dtype=torch.bool), *rows)
    assert torch.equal(batch.qpos, rows[0])  # readable without `forward`
    batch.mocap_pos[:, batch.model.body("mocap").mocapid[0]] = torch.tensor([0.02, 0.62, 0.2])
    batch.step(5)
    saved = {name: tensor.clone() for name, tensor in batch.state_dict().items()}
    batch.step(5)
    expected, poses = batch.qpos.clone(), batch.xpos.clone()
    batch.load_state_dict(saved)
    batch.step(5, refresh=False)
    tolerance = 0.0 if isinstance(batch, CpuBatch) else 1e-5
    torch.testing.assert_close(batch.qpos, expected, atol=tolerance, rtol=0.0)
    batch.forward()
    torch.testing.assert_close(batch.xpos, poses, atol=max(tolerance, 1e-6), rtol=0.0)


@pytest.mark.parametrize("sim", BACKENDS)
def test_worlds_have_their_own_floors_and_masses(sim: str) -> None:
    """Robots stand on boxes of different height; the servos of a robot with a load give way further."""
    batch = make_batch(sim, compile_scene("parkour", "go1.xml"), 3, CPU, WarpSettings())
    count = int(batch.model.body_geomnum[0])
    parked = torch.tensor([0.0, 0.0, -50.0]).expand(3, count, 3).clone()
    upright = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(3, count, 4).clone()
    shapes = Shapes(parked, upright, torch.full((3, count, 3), 0.1))
    for world, top in enumerate((0.0, 0.25, 0.0)):
        shapes.pos[world, 0] = torch.tensor([1.0, 0.0, top - 0.5])
        shapes.size[world, 0] = torch.tensor([2.0, 2.0, 0.5])
    batch.place(torch.ones(3, dtype=torch.bool), shapes)
    mass = torch.tensor(batch.model.body_mass).float().expand(3, -1).clone()
    mass[2, batch.model.body("trunk").id] += 5.0
    batch.vary({"body_mass": mass})
    qpos = torch.cat([torch.tensor([1.0, 0.0, 0.35, 1.0, 0.0, 0.0, 0.0]), torch.tensor(DEFAULT)]).expand(3, -1).clone()
    qpos[1, 2] += 0.25
    batch.reset(torch.ones(3, dtype=torch.bool), qpos, torch.zeros_like(batch.qvel))
    batch.ctrl.copy_(torch.tensor(DEFAULT))
    for _ in range(40):
        batch.step(5, refresh=False)
    low, high, loaded = batch.qpos[:, 2].tolist()
    assert high - low == pytest.approx(0.25, abs=2e-3)
    assert 0.005 < low - loaded < 0.05
    batch.place(torch.tensor([True, False, False]), Shapes(shapes.pos + 1.0, upright, shapes.size))
    model = copy.copy(batch.model)
    for world, lifted in ((0, 1.0), (1, 0.0)):
        batch.copy_layout(world, model)
        assert model.geom_pos[:count] == pytest.approx(shapes.pos[world].numpy() + lifted, abs=1e-6)


@pytest.mark.parametrize("sim", BACKENDS)
def test_a_later_call_may_place_more_geoms_than_the_first_one(sim: str) -> None:
    batch = make_batch(sim, compile_scene("parkour", "go1.xml"), 2, CPU, WarpSettings())
    everyone, model = torch.ones(2, dtype=torch.bool), copy.copy(batch.model)
    for count in (2, int(batch.model.body_geomnum[0])):
        quat = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(2, count, 4)
        size = torch.rand(2, count, 3, generator=torch.Generator().manual_seed(count)) + 0.1
        batch.place(everyone, Shapes(torch.zeros(2, count, 3), quat, size))
        batch.copy_layout(1, model)
        assert model.geom_size[:count] == pytest.approx(size[1].numpy(), abs=1e-6)


def test_too_small_buffers_are_noticed() -> None:
    """A world whose constraints do not fit is flagged, not silently wrong."""
    config = WarpSettings(constraints_per_world=4)
    batch = make_batch("warp", compile_scene("puck", "sawyer.xml"), 2, CPU, config)
    batch.step(5)
    batch.check()
    assert batch.diverged.all()
    with pytest.warns(RuntimeWarning, match="raise sim.contacts_per_world=64 or sim.constraints_per_world=4"):
        batch.warn_of_overflow()
    batch.warn_of_overflow()  # warns only once: a second warning would be an error here


def test_cpu_sim_refuses_a_gpu() -> None:
    with pytest.raises(UserError, match="sim=warp for a GPU"):
        make_batch("cpu", compile_scene("puck", "sawyer.xml"), 1, torch.device("cuda"), WarpSettings())


def test_contacts_count_in_steps_after_poses_were_refreshed_without_them() -> None:
    """The CPU backend refreshes poses without contacts. A puck on the table must still not fall through it."""
    batch = make_batch("cpu", compile_scene("puck", "sawyer.xml"), 2, CPU)
    height = int(batch.model.joint("obj").qposadr[0]) + 2
    for _ in range(10):
        batch.step(5)
        batch.forward()
    assert (batch.qpos[:, height] > 0.015).all()
    model = copy.copy(batch.model)
    batch.copy_layout(1, model)
    assert model.opt.disableflags == batch.model.opt.disableflags
