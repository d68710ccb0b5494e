"""The second world: a drawer, a Sawyer, four numbers of an action, two cameras side by side."""

import pytest
import torch

from polytask.errors import UserError
from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.config.world_specs import DRAWER
from polytask.mtopt.world import make_world, run_episodes
from polytask.mtopt.world.drawer_world import HOME, READY, STARTS

WORLDS = 6


@pytest.fixture(scope="module")
def world():
    made = make_world(WorldConfig(WORLDS, kind="drawer", image_size=16, image_width=32, outcome_width=24, reach=0.08))
    yield made
    made.close()


def begin(world, skill, seed=3):
    world.reseed(seed)
    world.start(skill)


def move(world, x=0.0, y=0.0, z=0.0, end=0.0):
    world.step(torch.tensor([[x, y, z, end]]).expand(WORLDS, 4))


@pytest.mark.parametrize("skill", ["open", "close"])
def test_a_start_is_as_far_open_as_the_skill_needs_and_follows_its_seed(world, skill):
    begin(world, skill)
    first, low_high = world.opening().clone(), STARTS[skill]
    assert first.min() >= low_high[0] - 0.005 and first.max() <= low_high[1] + 0.005
    assert first.unique().numel() > 1, "starts differ between worlds"
    assert (world.hand() - torch.tensor(HOME)).abs().max() < 0.05
    begin(world, skill)
    assert torch.equal(world.opening(), first)


def test_actions_move_the_hand_until_the_episode_is_done(world):
    begin(world, "open")
    before = world.hand().clone()
    move(world, x=-1.0, z=1.0)
    assert_moved(world.hand() - before, (-0.08, 0.0, 0.08))
    move(world, end=1.0)
    assert world.done.all()
    before = world.place.clone()
    move(world, x=1.0)
    assert torch.equal(world.place, before)


def assert_moved(found, wanted):
    assert (found - torch.tensor(wanted)).abs().max() < 0.03


def test_the_policy_sees_two_cameras_side_by_side(world):
    begin(world, "open")
    seen = world.observe()
    assert seen.image.shape == (WORLDS, 16, 32, 3)
    left, right = seen.image[:, :, :16].float(), seen.image[:, :, 16:].float()
    assert (left - right).abs().mean() > 5, "each half is another view"
    assert world.present().shape == (WORLDS, len(DRAWER.captions), 96, 24, 3)


@pytest.mark.parametrize(("skill", "least"), [("open", 0.3), ("close", 0.6)])
def test_the_script_reaches_its_task_and_sometimes_fails_another(world, skill, least):
    quiet = ScriptConfig(noise=0.0, early_end=0.0, seed=1)
    begin(world, skill)
    batch = run_episodes(world, world.script(skill, quiet), [f"drawer-{skill}"])
    assert batch.truth_of(f"drawer-{skill}").float().mean() >= least
    assert not (batch.truth_of("drawer-open") & batch.truth_of("drawer-close")).any()
    episode = batch.episodes()[0]
    assert episode.actions.shape[1] == DRAWER.action.size == 4
    assert episode.actions[-1, 3] == 1.0, "the script ends the episode"
    assert episode.truth.keys() == set(DRAWER.graded)


def test_closing_goes_on_from_an_open_drawer_or_is_handed_one(world):
    begin(world, "close")
    half = torch.arange(WORLDS) % 2 == 0
    qpos = world.batch.qpos.clone()
    qpos[:, world._joint] = torch.where(half, -0.12, -0.01)
    world.batch.reset(torch.ones_like(half), qpos, torch.zeros_like(world.batch.qvel))
    world.batch.forward()
    assert torch.equal(world.go_on("close", ("open",), hand_over=False), half)
    assert world.go_on("close", ("open",), hand_over=True).all()
    assert world.opening().min() > READY
    assert not world.done.any()


def test_a_world_that_cannot_be_built_is_refused_in_one_line():
    with pytest.raises(UserError, match="unknown world 'drawr'; did you mean 'drawer'"):
        make_world(WorldConfig(kind="drawr"))
    with pytest.raises(UserError, match="cannot be simulated: import its episodes"):
        make_world(WorldConfig(kind="robot"))
