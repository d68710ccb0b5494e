"""The shaped reward: what a stage pays, which stage a state is in, and that every task's stages can be climbed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import pytest
import torch
from shaped_rewards import OTHERS, judge, rank_correlation, worlds_of
from torch import Tensor
from torch.testing import assert_close

import polytask
from polytask.envs.manipulation.stages import (
    UNFINISHED,
    Hold,
    Leg,
    Stages,
    bring,
    carry_over,
    climbed,
    gaps,
    goal_at,
    line_up,
    nearness,
    shaped_reward,
    share_done,
    the_fingertips,
)
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.tasks import TASKS
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

AT = (0.0, 0.0, 0.04)
GRIP = Stages(bring("to the goal", within=0.02), Hold(AT, closed=0.6))
FIRST = torch.tensor([[0.22, 0.35]])  # gaps of a first and of a second leg at the start of the episode


def state(
    hand: tuple[float, float, float] = (0.0, 0.0, 0.04),
    openness: float = 1.0,
    obj: tuple[float, float, float] = (0, 0, 0),
) -> State:
    """Return a world with the goal 20 cm from the origin along y."""
    row = torch.tensor([hand], dtype=torch.float32)
    none = torch.zeros(1, 3)
    return State(
        hand=row,
        openness=torch.tensor([openness]),
        tcp=row - torch.tensor([[0.0, 0.0, 0.045]]),
        left_pad=none,
        right_pad=none,
        action=torch.zeros(1, 4),
        vector=none,
        target=torch.tensor([[0.0, 0.2, 0.0]]),
        obj_init=none,
        tcp_init=none,
        scene=cast(SceneView, None),  # these stages read no scene
        obj=torch.tensor([obj], dtype=torch.float32),
        first_obj=none,
    )


def height(s: State, stages: Stages = GRIP) -> float:
    return climbed(s, stages, FIRST[:, : len(stages.legs)]).item()


def reward_of(s: State, stages: Stages, *, success: bool = False) -> float:
    return shaped_reward(s, stages, torch.tensor([success]), FIRST[:, : len(stages.legs)]).item()


def share(gap: float, length: float = 0.22) -> float:
    """Return the share of a way that is done, which ends 2 cm from the goal."""
    return 1 - (gap - 0.02) / (length - 0.02)


def test_nearness_has_three_scales() -> None:
    gap = torch.tensor([0.0, 0.1, 9.0])
    at_10_cm = 1 - 0.5 * math.tanh(0.25) - 0.3 * math.tanh(1.0) - 0.2 * math.tanh(5.0)
    assert_close(nearness(gap), torch.tensor([1.0, at_10_cm, 0.0]), atol=1e-6, rtol=0)


def test_nearness_slopes_over_the_whole_table() -> None:
    assert (nearness(torch.linspace(0, 0.6, 120)).diff() < -5e-4).all()


def test_a_grip_climbs_through_four_stages() -> None:
    path = [
        (state(hand=(0.3, 0.0, 0.2)), 0),
        (state(hand=(0.04, 0.0, 0.14)), 0),
        (state(hand=(0.02, 0.0, 0.14)), 1),
        (state(hand=(0.0, 0.0, 0.08)), 1),
        (state(), 2),
        (state(openness=0.7), 2),
        (state(openness=0.5), 3),
        (state(hand=(0.0, 0.1, 0.04), openness=0.5, obj=(0.0, 0.1, 0.0)), 3),
    ]
    heights = [height(s) for s, _ in path]
    assert heights == sorted(heights)
    assert [int(each) for each in heights] == [stage for _, stage in path]


def test_fingers_that_closed_on_nothing_hold_nothing() -> None:
    stages = Stages(bring("to the goal", within=0.02), Hold(AT, closed=0.6, empty=0.3))
    assert 2 < height(state(openness=0.7), stages) < 3 < height(state(openness=0.35), stages)
    assert height(state(openness=0.25), stages) == 2


def test_a_lost_object_costs_the_stages_after_the_approach() -> None:
    held = state(hand=(0.0, 0.1, 0.04), openness=0.5, obj=(0.0, 0.1, 0.0))
    assert height(held) > 3 > 1 > height(replace(held, hand=held.hand + torch.tensor([[0.0, 0.05, 0.0]])))


def test_no_leg_begins_without_the_object() -> None:
    over = Stages(carry_over("over", level=0.1, hole=0.03, within=0.02), Hold(AT, closed=0.6))
    held, thrown = (state(hand, 0.5, obj=(0.0, 0.1, 0.15)) for hand in ((0.0, 0.1, 0.19), (0.3, 0.1, 0.19)))
    assert int(height(held, over)) == 4
    assert int(height(thrown, over)) == 0


def test_an_object_on_a_joint_that_has_moved_is_taken_without_a_grip() -> None:
    lever = Stages(bring("turn it", within=0.02), Hold(AT, closed=0.6, moved=lambda s: s.obj[:, 1] > 0.01))
    hand = (0.3, 0.0, 0.2)  # far from where a grip would be
    at_rest, moved, further = (height(state(hand, obj=(0.0, y, 0.0)), lever) for y in (0.0, 0.02, 0.1))
    assert at_rest < 1
    assert (moved, further) == pytest.approx([3 + share(gap) for gap in (0.18, 0.1)])


@pytest.mark.parametrize("task", ["handle-pull", "handle-pull-side"])
def test_a_handle_has_moved_once_it_is_a_centimetre_higher(task: str) -> None:
    env = polytask.make(tasks=[task], num_envs=3, reward="shaped", threads=1, seed=0)
    worlds = worlds_of(cast(MultiTaskEnv, env))[0]
    shaped = worlds.task.shaped
    assert shaped is not None and shaped.hold is not None and shaped.hold.moved is not None
    env.step(torch.zeros(3, 4))
    for rise, expected in ((0.0, False), (0.009, False), (0.011, True)):
        higher = replace(worlds.state, obj=worlds.state.obj + torch.tensor([0.0, 0.0, rise]))
        assert shaped.hold.moved(higher).tolist() == [expected] * 3


@pytest.mark.parametrize("hand", [(0.2, 0.0, 0.2), (0.0, 0.0, 0.1)])
def test_closed_fingers_earn_half_on_the_way_to_a_grip(hand: tuple[float, float, float]) -> None:
    opened, closed = height(state(hand)), height(state(hand, openness=0.3))
    assert closed % 1 == pytest.approx(opened % 1 / 2)


def test_fingers_in_the_air_grip_nothing() -> None:
    assert height(state(hand=(0.0, 0.0, 0.12), openness=0.3)) < 2
    assert height(state(hand=(0.05, 0.0, 0.04), openness=0.3)) < 1


def test_a_hook_needs_open_fingers() -> None:
    hook = Stages(bring("pull", within=0.02), Hold(AT, hooks=True))
    assert int(height(state(openness=1.0), hook)) == 2
    assert int(height(state(openness=0.3), hook)) == 1


@pytest.mark.parametrize(
    ("side", "hand"), [("above", (0, 0, 0.14)), ("the front", (0, -0.1, 0.04)), ("below", (0, 0, -0.06))]
)
def test_the_hand_lines_up_on_its_side(side: str, hand: tuple[float, float, float]) -> None:
    push = Stages(bring("push", within=0.02), Hold(AT, side=side))
    assert int(height(state(hand), push)) == 1
    assert int(height(state((0.1, hand[1], hand[2])), push)) == 0


def test_every_small_step_of_the_approach_pays() -> None:
    generator = torch.Generator().manual_seed(0)
    hands = torch.rand(2000, 3, generator=generator) - 0.5
    hands[1000:, :2] *= 0.03  # lined up
    hands[1000:, 2] = 0.08 + hands[1000:, 2].abs()
    aims = torch.tensor([[0.0, 0.0, 0.14]]).repeat(2000, 1)
    aims[1000:] = torch.tensor(AT)

    def heights(hand: Tensor) -> Tensor:
        one = state()
        many = {name: value.expand(2000, *value.shape[1:]) for name, value in vars(one).items() if name != "scene"}
        return climbed(State(**{**many, "hand": hand, "scene": one.scene}), GRIP, FIRST[:, :1].expand(2000, 1))

    steps = aims - hands
    steps = 0.005 * steps / torch.linalg.vector_norm(steps, dim=-1, keepdim=True)
    assert (heights(hands + steps) > heights(hands) + 1e-4).all()


def test_only_distances_along_the_axes_count() -> None:
    along = Stages(bring("along x", within=0.02, point=the_fingertips, along="x"))
    assert height(state(hand=(0.1, 0.7, 0.3)), along) == pytest.approx(share(0.1))


def test_moving_sideways_pays_only_above_the_level() -> None:
    over = Stages(carry_over("over", level=0.1, hole=0.03, within=0.02, point=the_fingertips))
    low, nearer, high = (state(hand=(0.0, y, z + 0.045)) for y, z in ((0.0, 0.05), (0.1, 0.05), (0.0, 0.1)))
    assert height(nearer, over) == height(low, over) < 1 < height(high, over)
    assert height(state(hand=(0.0, 0.1, 0.145)), over) > height(high, over)


def test_over_the_goal_the_object_may_be_low() -> None:
    over = Stages(carry_over("over", level=0.1, hole=0.03, within=0.02, point=the_fingertips))
    above, down = (state(hand=(0.0, 0.19, z + 0.045)) for z in (0.1, 0.02))
    assert 1 < height(above, over) < height(down, over)


def test_the_rest_of_the_way_pays_only_once_lined_up() -> None:
    def height_error(s: State) -> Tensor:
        return (s.tcp - s.target)[:, 2].abs()

    def way(s: State) -> Tensor:
        return (s.tcp - s.target)[:, 1].abs()

    through = Stages(line_up("level", height_error, slack=0.02, then="through", rest=way, within=0.02))
    assert through.words == ("level", "through")
    off, nearer, level, further = (
        height(state(hand=(0.0, y, z + 0.045)), through)
        for y, z in ((0.0, 0.03), (0.1, 0.03), (0.0, 0.01), (0.1, 0.01))
    )
    assert off == nearer == pytest.approx(share(0.03))
    assert (level, further) == pytest.approx([1 + share(gap, 0.45) for gap in (0.2, 0.1)])  # 10 cm longer than at first


def test_a_goal_may_be_at_another_height() -> None:
    above = Stages(bring("above", within=0.02, point=the_fingertips, goal=goal_at(0.3)))
    assert height(state(hand=(0.0, 0.2, 0.345)), above) == pytest.approx(1.0)


def test_the_share_of_a_leg_rises_evenly_from_its_start_to_its_end() -> None:
    leg = Leg("go", gap=lambda s: s.obj[:, 0], within=0.05)
    gap = torch.tensor([0.40, 0.35, 0.25, 0.15, 0.05, 0.01])
    assert_close(share_done(leg, gap, torch.tensor(0.35)), torch.tensor([0.0, 0.0, 1 / 3, 2 / 3, 1.0, 1.0]))


def test_short_legs_count_as_ten_centimetres_and_ways_as_one() -> None:
    short, near = (Leg("go", gap=lambda s: s.obj[:, 0], within=within) for within in (0.02, 0.2))
    assert share_done(short, torch.tensor(0.06), torch.tensor(0.01)).item() == pytest.approx(0.5)
    assert share_done(near, torch.tensor(0.205), torch.tensor(0.1)).item() == pytest.approx(0.5)


def test_success_pays_ten_and_everything_else_at_most_five() -> None:
    finished = state(openness=0.5, obj=(0.0, 0.2, 0.0), hand=(0.0, 0.2, 0.04))
    assert reward_of(finished, GRIP) == pytest.approx(5.0)
    assert reward_of(state(), GRIP, success=True) == 10.0


def test_taking_the_object_pays_a_quarter_and_bringing_it_the_rest() -> None:
    assert reward_of(state(), GRIP) == pytest.approx(1.25 * 2 / 3)
    assert reward_of(state(openness=0.5), GRIP) == pytest.approx(1.25 + 3.75 * share(0.2))  # the goal is 20 cm away
    two_legs = Stages(carry_over("over", level=0.1, hole=0.03, within=0.02), Hold(AT, closed=0.6))
    lifted = state((0.0, 0.2, 0.14), 0.5, obj=(0.0, 0.2, 0.1))
    assert reward_of(lifted, two_legs) == pytest.approx(1.25 + 3.75 / 2 * (1 + share(0.1, 0.45)))
    alone = Stages(bring("go", within=0.02, point=the_fingertips))
    assert reward_of(state(hand=(0.0, 0.1, 0.045)), alone) == pytest.approx(5 * share(0.1))


def test_holding_the_object_where_it_was_pays_for_taking_it_alone() -> None:
    first = gaps(state(), GRIP)  # 20 cm
    held = shaped_reward(state(openness=0.5), GRIP, torch.tensor([False]), first)
    assert held.item() == pytest.approx(1.25)


def test_lengths_are_those_of_the_episodes_first_step_and_are_saved() -> None:
    make = partial(polytask.make, tasks=["pick-place"], num_envs=3, reward="shaped", threads=1, episode_length=4)
    env = cast(MultiTaskEnv, make(seed=0, stagger=False))
    worlds = worlds_of(env)[0]
    stages = worlds.task.shaped
    assert stages is not None
    env.step(torch.zeros(3, 4))
    first = gaps(worlds.state, stages)
    env.step(torch.tensor([[1.0, -1.0, -1.0, 0.0]]).expand(3, 4))
    assert torch.equal(worlds.first_gaps, first)
    other = cast(MultiTaskEnv, make(seed=1))
    other.load_state_dict(env.state_dict())
    assert torch.equal(worlds_of(other)[0].first_gaps, first)
    for _ in range(3):  # the episodes end in the second step, and new ones begin
        env.step(torch.zeros(3, 4))
    assert not torch.equal(worlds.first_gaps, first)
    assert_close(worlds.first_gaps, distance(worlds.state.obj_init, worlds.state.target)[:, None], atol=0.02, rtol=0)


def test_a_checkpoint_without_lengths_has_usual_ones() -> None:
    env = cast(MultiTaskEnv, polytask.make(tasks=["reach"], num_envs=2, reward="shaped", threads=1))
    worlds = worlds_of(env)[0]
    env.step(torch.zeros(2, 4))
    older = {name: value for name, value in worlds.state_dict().items() if name not in ("first_gaps", "is_new")}
    worlds.load_state_dict(older)
    assert worlds.first_gaps.tolist() == [[pytest.approx(0.3)]] * 2
    assert not worlds.is_new.any()


def test_every_task_has_stages_in_words() -> None:
    for task in TASKS.values():
        assert task.shaped is not None, task.name
        legs, hold = task.shaped.legs, task.shaped.hold
        assert len(task.shaped.words) == len(legs) + (0 if hold is None else 2 + (hold.closed is not None)), task.name
        assert legs[0].begins is None, f"the first leg of {task.name} must begin with the hold"
        assert all(leg.begins is not None for leg in legs[1:]), f"a later leg of {task.name} begins at once"


def test_a_task_without_stages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polytask.envs.make.TASKS", {"reach": replace(TASKS["reach"], shaped=None)})
    with pytest.raises(UserError, match="reward=shaped does not apply: task 'reach' has no stages"):
        polytask.make(tasks=["reach"], reward="shaped")


def test_the_reward_changes_neither_worlds_nor_success() -> None:
    shaped, dense = (
        polytask.make(tasks=["drawer-open", "reach"], num_envs=4, seed=3, threads=1, reward=reward)
        for reward in ("shaped", "dense")
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        action = 2 * torch.rand(4, 4, generator=generator) - 1
        one, other = shaped.step(action), dense.step(action)
        assert torch.equal(one.obs, other.obs)
        assert torch.equal(one.success, other.success)
    assert not torch.equal(one.reward, other.reward)


def check(tasks: list[str], goals: int, others: Sequence[str] = OTHERS) -> None:
    """Assert that experts climb, and that nothing else pays nearly as much."""
    for task, one in judge(tasks, goals, 1, others).items():
        assert one["correlation"] > 0.8, task
        assert one["falls"] <= 1.0, task
        assert one["highest_without_success"] < UNFINISHED, f"the last leg of {task} ends before success"
        paid = dict(one["reward_per_step"])
        expert = paid.pop("expert")
        for name, value in paid.items():
            assert value is None or value < 0.65 * expert, f"{task}: {name} earns {value} of {expert}"


def test_experts_climb_a_pull_and_a_carry() -> None:
    check(["drawer-open", "shelf-place"], goals=2, others=["hold"])


@pytest.mark.slow
def test_experts_climb_every_task() -> None:
    check(list(TASKS), goals=8)


def test_rank_correlation_by_hand() -> None:
    assert rank_correlation(torch.tensor([1.0, 2.0, 5.0, 9.0])) == pytest.approx(1.0)
    assert rank_correlation(torch.tensor([3.0, 2.0, 1.0])) == pytest.approx(-1.0)
    assert rank_correlation(torch.tensor([0.0, 1.0, 1.0])) == pytest.approx(3**0.5 / 2)
