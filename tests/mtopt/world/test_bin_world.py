"""The batch of bins: drops, actions, presenting, pictures, both simulators."""

import gc
import weakref

import pytest
import torch

from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.tasks import ALL_TASKS, KINDS, TASKS
from polytask.mtopt.world import BinWorld
from polytask.mtopt.world.arm import fingertips
from polytask.mtopt.world.layout import INNER, LEFT_BIN, PLACE_HEIGHT, PLATE_RADIUS, PRESENT, RIGHT_BIN, START_HEIGHT
from polytask.scenes.mtopt import compile_mtopt

TESTED = 8


def still(count):
    action = torch.zeros(count, 8)
    action[:, 4] = 1.0  # the cosine of no turn
    return action


@pytest.fixture(scope="module")
def dropped():
    """Freshly dropped worlds; tests that act make their own."""
    return BinWorld(WorldConfig(num_envs=TESTED, seed=1))


def test_the_scene_compiles_with_and_without_the_lid():
    bare, covered = compile_mtopt(False), compile_mtopt(True)
    assert bare.nq == 7 * len(KINDS) + 1 + 9  # objects, plate, arm and fingers
    assert covered.nq == bare.nq + 7
    assert {bare.camera(index).name for index in range(bare.ncam)} == {"shoulder", "present", "side", "plate"}


def test_what_collides_is_a_plane_a_box_or_a_capsule():
    model = compile_mtopt(True)
    collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
    assert {int(kind) for kind in model.geom_type[collides]} == {0, 3, 6}  # mjtGeom


def test_drops_lie_still_within_the_bin(dropped):
    objects = dropped.situation().objects
    inside = ((objects[..., :2] - torch.tensor(RIGHT_BIN)).abs() < INNER).all(-1) & (objects[..., 2] < 0.12)
    assert inside.float().mean() > 0.9
    assert (objects[..., 2] > 0.01).all()  # none sank into the floor
    assert not dropped.broken.any()
    assert dropped.batch.qvel.abs().amax(-1).median() < 1.0  # a round thing may still turn


def test_drops_differ_between_worlds_and_plates_lie_at_any_angle(dropped):
    objects = dropped.situation().objects
    assert (objects[0] - objects[1]).norm(dim=-1).max() > 0.02
    assert dropped.situation().plate_yaw.std() > 0.5


def test_a_seed_gives_the_same_worlds_again(dropped):
    again = BinWorld(WorldConfig(num_envs=TESTED, seed=1))
    assert torch.equal(again.batch.qpos, dropped.batch.qpos)


def test_a_masked_reset_leaves_the_other_scenes():
    world = BinWorld(WorldConfig(num_envs=3))
    before = world.situation().objects.clone()
    world.reset(torch.tensor([False, True, False]))
    moved = (world.situation().objects - before).norm(dim=-1).amax(-1)
    assert moved[1] > 0.03
    assert moved[[0, 2]].max() < 0.03


def test_actions_move_turn_and_grip_the_hand():
    world = BinWorld(WorldConfig(num_envs=2, spread=0.0))
    action = still(2)
    action[0, :3] = torch.tensor([1.0, -0.5, 0.5])
    action[0, 3:5] = torch.tensor([1.0, 0.0])  # a quarter turn of the angle is an eighth of the hand
    action[1, 5] = 1.0
    start = fingertips(world.batch).clone()
    world.step(action)
    moved = fingertips(world.batch) - start
    torch.testing.assert_close(moved[0], torch.tensor([0.06, -0.03, 0.03]), atol=0.006, rtol=0)
    assert moved[1].norm() < 0.006
    assert world.yaw.tolist() == pytest.approx([torch.pi / 4, 0.0])
    left, right = (int(world.batch.model.site(name).id) for name in ("leftEndEffector", "rightEndEffector"))
    fingers = world.batch.site_xpos[:, left] - world.batch.site_xpos[:, right]
    assert torch.atan2(-fingers[0, 0], fingers[0, 1]).item() == pytest.approx(torch.pi / 4, abs=0.06)
    assert fingers[0].norm() > 0.08
    assert fingers[1].norm() < 0.05
    assert world.closed.tolist() == [False, True]
    assert not world.holds().any()


def test_a_done_world_ignores_actions():
    world = BinWorld(WorldConfig(num_envs=2))
    end = still(2)
    end[0, 7] = 1.0
    world.step(end)
    assert world.done.tolist() == [True, False]
    place = world.place.clone()
    down = still(2)
    down[:, 2] = -1.0
    down[:, 5] = 1.0
    world.step(down)
    assert torch.equal(world.place[0], place[0])
    assert world.place[1, 2] < place[1, 2] - 0.05
    assert world.closed.tolist() == [False, True]


def test_commands_stay_above_the_floor():
    world = BinWorld(WorldConfig(num_envs=8))
    down = still(8)
    down[:, 2] = -1.0
    for _ in range(5):
        world.step(down)
    # Some come down on an object and stay above it.
    assert world.observe().height.min().item() == pytest.approx(0.012, abs=0.006)


def test_what_is_handed_over_is_held_presented_and_carried_on():
    world = BinWorld(WorldConfig(num_envs=4, seed=3))
    world.hand_over()
    assert world.holds().all()
    views = world.present()
    assert views.shape == (4, 3, 96, 96, 3)
    assert world.truth(("lift-any",)).all()
    torch.testing.assert_close(fingertips(world.batch)[0], torch.tensor(PRESENT), atol=0.01, rtol=0)
    world.settle()  # hands that hold move above the plate
    assert world.holds().all()
    assert not world.done.any()
    assert (fingertips(world.batch)[:, 0] < -0.1).all()


def test_settling_homes_an_empty_hand():
    world = BinWorld(WorldConfig(num_envs=2))
    before = world.situation().objects.clone()
    world.present()
    world.settle()
    tips = fingertips(world.batch)
    assert (tips[:, 0] > 0.1).all()
    assert tips[0, 2].item() == pytest.approx(START_HEIGHT, abs=0.01)
    assert (world.situation().objects - before).norm(dim=-1).median() < 0.005  # the scene is kept


def test_assisted_grasps_of_what_lies_under_the_hand_lift_it():
    world = BinWorld(WorldConfig(num_envs=8, assisted=True, reach=0.14, seed=4))
    objects = world.situation().objects
    milk = KINDS.index("milk")
    body = world.batch.model.body("milk").id
    w, x, y, z = world.batch.xquat[:, body].unbind(-1)
    along = torch.atan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))  # yaw of the long axis; fingers close across it
    turn = torch.remainder(along + torch.pi / 2, torch.pi) - torch.pi / 2
    action = still(8)
    action[:, :2] = (objects[:, milk, :2] - world.place[:, :2]) / 0.14
    action[:, 3], action[:, 4], action[:, 5] = (2 * turn).sin(), (2 * turn).cos(), 1.0
    world.step(action)
    assert world.done.all()
    world.present()
    truth = world.truth(("lift-any", "lift-milk")).float().mean(0)
    assert truth[0] > 0.5
    assert truth[1] > 0.3


def test_pictures_show_the_kind_that_is_held():
    world = BinWorld(WorldConfig(num_envs=len(KINDS), seed=5))
    seen: dict[int, torch.Tensor] = {}
    for _ in range(2):  # `hand_over` draws the object at random
        world.hand_over()
        views = world.present().clone()
        held = world.truth([f"lift-{kind}" for kind in KINDS]).float()
        for row, kind in enumerate(held.argmax(-1).tolist()):
            if held[row].sum() == 1:
                seen[kind] = views[row, 0].float()
    pictures = torch.stack(list(seen.values()))
    assert len(pictures) >= 4
    gaps = (pictures[:, None] - pictures[None]).abs().mean((-3, -2, -1)) + 99 * torch.eye(len(pictures))
    assert gaps.min() > 1.5  # of 255, over the whole picture


def test_the_policy_sees_a_picture_and_its_hand(dropped):
    look = dropped.observe()
    assert look.image.shape == (TESTED, 64, 64, 3)
    assert look.image.dtype == torch.uint8
    assert look.image.float().std() > 20
    assert (look.image[0] != look.image[1]).any()
    assert look.closed.tolist() == [0.0] * TESTED
    torch.testing.assert_close(look.height, torch.full((TESTED,), START_HEIGHT), atol=0.01, rtol=0)


def test_places_start_anywhere_above_the_plate(dropped):
    world = BinWorld(WorldConfig(num_envs=64, seed=3))
    world.hand_over()
    offset = world.place[:, :2] - torch.tensor(LEFT_BIN)
    assert (offset.abs() <= PLATE_RADIUS + 1e-6).all()
    assert (offset.abs().amax(0) > 0.08).all() and (offset.norm(dim=-1) > 0.045).float().mean() > 0.5
    assert world.holds().float().mean() > 0.9, "objects stay in the hand on the way"
    assert ((dropped.place[:, :2] - torch.tensor(RIGHT_BIN)).abs() <= 0.03 + 1e-6).all()


def test_a_world_with_a_lid_starts_places_with_an_empty_plate():
    world = BinWorld(WorldConfig(num_envs=4, lid=True, assisted=True))
    assert not world.truth(("place-any",)).any()
    world.hand_over()
    action = still(4)
    action[:, 6] = 1.0
    heights = []
    travel = world._travel
    world._travel = lambda goal, yaw, segments: heights.append(goal[:, 2].clone()) or travel(goal, yaw, segments)
    world.step(action)
    world.present()
    assert heights[1].tolist() == pytest.approx([PLACE_HEIGHT] * 4), "an object is put down, not dropped as the lid is"
    assert (world.situation().lid[:, 2] < 0.05).all(), "the lid lies on the table"


def test_a_lid_world_has_an_object_to_cover_and_a_lid_to_hold():
    world = BinWorld(WorldConfig(num_envs=4, lid=True))
    world.reset(covers=True)
    assert world.truth(("place-any",)).all()  # one object lies on the plate
    world.hand_over(lid=True)
    assert world.holds().all()
    world.present()
    assert (world.situation().lid[:, 2] > 0.2).all()
    assert not world.truth(("cover-object",)).any()
    assert not world.truth(("place-any",)).any(), "an object lies on the plate, but the hand is not empty"


def test_places_are_right_in_a_world_with_a_lid():
    """Nothing lies on the plate before a place, and what was placed counts; only covering starts otherwise."""
    world = BinWorld(WorldConfig(num_envs=4, lid=True, seed=4))
    places = [task for task in ALL_TASKS if TASKS[task].skill == "place"]
    assert not world.truth(places).any()
    assert world.go_on("place", (), hand_over=True).all()
    assert not world.truth(places).any()
    action = still(4)
    action[:, 6] = 1.0
    world.step(action)
    world.present()
    assert world.truth(["place-any"]).float().mean() >= 0.5
    assert world.go_on("cover", ("place",), hand_over=True).all()
    assert (world.situation().lid[:, 2] > 0.1).all(), "the hand holds the lid"


@pytest.mark.slow
def test_both_simulators_agree_and_draw_the_same_pictures():
    pytest.importorskip("mujoco_warp")
    worlds = [BinWorld(WorldConfig(num_envs=2, sim=sim, seed=2)) for sim in ("cpu", "warp")]
    cpu, warp = worlds
    everyone = torch.ones(2, dtype=torch.bool)
    warp.batch.reset(everyone, cpu.batch.qpos, cpu.batch.qvel)  # falling objects part soon: start from one drop
    warp.batch.forward()
    for world in worlds:
        action = still(2)
        action[:, 0], action[:, 2] = 0.5, -0.5
        for _ in range(2):
            world.step(action)
    gap = (cpu.situation().objects - warp.situation().objects).norm(dim=-1)
    assert gap.median() < 0.002
    torch.testing.assert_close(fingertips(cpu.batch), fingertips(warp.batch), atol=0.002, rtol=0)
    first, second = cpu.observe().image.int(), warp.observe().image.int()
    assert first.shape == second.shape
    assert (first - second).abs().float().mean() < 6
    assert cpu.present().shape == warp.present().shape


def test_a_world_without_references_is_freed_at_once():
    """Otherwise the garbage collector would free its OpenGL contexts, possibly in another thread."""
    world = BinWorld(WorldConfig(num_envs=1, image_size=8))
    world.observe()
    watched = weakref.ref(world)
    gc.disable()
    try:
        del world
        assert watched() is None
    finally:
        gc.enable()
