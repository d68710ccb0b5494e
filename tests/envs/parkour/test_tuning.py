"""What a parkour run may add to the benchmark: each option does what it says, and without them nothing changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import polytask
from polytask.config.compose import compose
from polytask.config.schema import CollectConfig, EvalConfig, TrainConfig
from polytask.config.watching import RecordConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.options import ScanOptions, TuningOptions
from polytask.envs.parkour.reward import Change, reward
from polytask.envs.parkour.tasks import TASKS
from polytask.envs.parkour.tiles import Tiles, cell_at
from polytask.envs.parkour.worlds import ParkourGroup
from polytask.errors import UserError
from polytask.robots.go1 import DEFAULT, Motion, Touch, read_feet
from polytask.runs.evaluate import Evaluator
from polytask.runs.policy import saved_settings
from polytask.runs.train import train
from polytask.sim.geometry import rotation_matrix

CPU = torch.device("cpu")


def make(*tasks: str, **options: Any) -> MultiTaskEnv:
    return polytask.make(tasks=tasks, threads=1, **{"stagger": False, "num_envs": 2, **options})


def only(env: MultiTaskEnv) -> ParkourGroup:
    group = env.groups[0]
    assert isinstance(group, ParkourGroup)
    return group


def put(env: MultiTaskEnv, qpos: torch.Tensor, qvel: torch.Tensor | None = None) -> ParkourGroup:
    """Put all worlds into a state (N, 19), as if a control step had reached it, and conclude the step."""
    group = only(env)
    speed = torch.zeros_like(group.batch.qvel) if qvel is None else qvel
    group.batch.reset(torch.ones(len(qpos), dtype=torch.bool), qpos, speed)
    group.episode.clock.fill_(4)
    group.buffers.length += 1
    group.conclude()
    return group


def standing(x: float, y: float) -> torch.Tensor:
    return torch.tensor([[x, y, 0.3, 1.0, 0.0, 0.0, 0.0, *DEFAULT]])


def test_a_waypoint_pays_its_bonus_once() -> None:
    env = make("flat", num_envs=1, tuning=TuningOptions(waypoint_bonus=3.0))
    group = only(env)
    x, y = group.tiles.goals[0, 0].tolist()
    for expected in (0.0, 3.0, 0.0):  # a waypoint counts on the second step near it
        put(env, standing(x, y))
        assert float(group.buffers.reward) // 1 == expected


def test_standing_pays_nothing_if_it_is_not_to() -> None:
    zero = torch.zeros(1)
    vectors = {name: torch.zeros(1, 3) for name in ("position", "velocity_body", "spin_body")}
    joints = {"joints": torch.zeros(1, 12), "speeds": torch.zeros(1, 12)}
    angles = {"roll": zero, "pitch": zero, "yaw": zero}
    touch = Touch(torch.zeros(1, 4), torch.zeros(1, 8), torch.zeros(1, 12))
    goal, command = torch.tensor([[2.0, 0.0]]), torch.tensor([0.5])
    change = Change(pays_standing=False)
    for speed, expected in ((0.0, 0.0), (0.25, 0.02 * (4 + 1) * 0.5), (0.5, 0.1), (2.0, 0.1), (-1.0, 0.0)):
        motion = Motion(velocity=torch.tensor([[speed, 0.0, 0.0]]), **vectors, **joints, **angles)
        assert_close(reward(motion, touch, goal, zero, command, change), torch.tensor([expected]), atol=1e-5, rtol=0)
    still = Motion(velocity=torch.zeros(1, 3), **vectors, **joints, **angles)
    assert_close(reward(still, touch, goal, zero, command), torch.tensor([0.02]))
    penalty = Change(penalty=torch.tensor([0.4]))
    assert_close(reward(still, touch, goal, zero, command, penalty), torch.tensor([0.02 * 0.6]))


def test_a_stall_ends_the_episode_and_is_no_fall() -> None:
    env = make("flat", num_envs=2, tuning=TuningOptions(stall_seconds=0.1))
    group = only(env)
    ended = []
    for step in range(5):
        if step == 2:
            group.episode.goal_step[1] = group.buffers.length[1]  # the second robot reaches a waypoint
        ended.append(env.step(torch.zeros(2, 12)).terminated.tolist())
    assert ended == [[False, False]] * 4 + [[True, False]]
    assert env.pop_metrics()["falls"].tolist() == [0.0]


def test_a_shortened_first_episode_does_not_stall() -> None:
    env = make("flat", num_envs=8, stagger=True, tuning=TuningOptions(stall_seconds=1.0))
    assert (only(env).buffers.length > 50).any()
    assert not env.step(torch.zeros(8, 12)).terminated.any()


def test_feet_are_where_mujoco_has_them() -> None:
    env = make("flat", num_envs=1)
    batch = only(env).batch
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        qpos = torch.randn(1, 19, generator=generator)
        qpos[:, 3:7] /= qpos[:, 3:7].norm()
        batch.reset(torch.ones(1, dtype=torch.bool), qpos, torch.zeros(1, 18))
        batch.forward()
        calves = [batch.model.body(f"{leg}_calf").id for leg in ("FL", "FR", "RL", "RR")]
        down = torch.tensor([0.0, 0.0, -0.213])  # from the knee to the foot
        feet = batch.xpos[:, calves] + rotation_matrix(batch.xquat[:, calves]) @ down
        assert_close(read_feet(batch), feet, atol=1e-5, rtol=0)


def test_edges_are_where_the_ground_drops() -> None:
    tiles = Tiles.build([TASKS["even-gaps"], TASKS["flat"]], "hard", CPU)
    edges = tiles.edges()
    near = edges[0, cell_at(torch.tensor([1.5, 1.92, 1.97]), torch.zeros(3))]
    assert near.tolist() == [False, False, True]  # the spawn pad ends at 2 m
    inside = edges[10].view(360, 80)[4:-4, 4:-4]
    assert not inside.any()  # flat ground has none but at its walls


def test_the_foot_of_a_step_or_a_wall_is_no_edge() -> None:
    tiles = Tiles.build([TASKS["box-climb"], TASKS["even-gaps"]], "hard", CPU)
    edges = tiles.edges()
    before, above = cell_at(torch.tensor([1.97, 2.02]), torch.zeros(2)).tolist()  # the first box begins at 2 m
    assert float(tiles.ground[9, above] - tiles.ground[9, before]) > 0.4
    assert (bool(edges[9, before]), bool(edges[9, above])) == (False, True)
    beside_wall = cell_at(torch.full((3,), 1.0), torch.tensor([1.93, 1.88, 1.5]))  # the wall begins at 1.9 m
    assert edges[9, beside_wall].tolist() == [True, False, False]
    bottom = tiles.ground[10] < -0.5
    assert bottom.any() and not edges[10, bottom].any()  # of a gap


def test_feet_near_an_edge_cost_and_only_if_they_touch() -> None:
    paid = {}
    for weight in (0.0, 1.0):
        env = make("even-gaps", num_envs=1, tuning=TuningOptions(edge_penalty=weight))
        group = only(env)
        feet = torch.full((1, 4), 10.0)
        qpos = standing(1.79, 0.0)  # front feet at 1.96 m, near the end of the pad
        group.batch.reset(torch.ones(1, dtype=torch.bool), qpos, torch.zeros_like(group.batch.qvel))
        touch = Touch(feet, torch.zeros(1, 8), torch.zeros(1, 12))
        paid[weight] = group._edge_penalty(touch)
        lifted = Touch(torch.zeros(1, 4), torch.zeros(1, 8), torch.zeros(1, 12))
        if weight:
            assert group._edge_penalty(lifted).tolist() == [0.0]
    assert paid[0.0] is None
    assert paid[1.0].tolist() == [2.0]


def test_a_finer_scan_looks_more_often_at_a_smaller_area() -> None:
    env = make("box-climb", num_envs=1, level=9, scan=ScanOptions(every=1, spacing=0.05))
    group = only(env)
    offsets = group.tiles.offsets
    assert offsets[:, 0].min() == pytest.approx(-0.15)
    assert offsets[:, 0].max() == pytest.approx(0.4)
    assert offsets[:, 1].abs().max() == pytest.approx(0.25)
    for _ in range(3):
        before = group.episode.scan.clone()
        env.step(torch.zeros(1, 12))
        assert not torch.equal(group.episode.scan, before)  # the robot drops to the ground, so every look differs
    assert make("flat").spec.obs_dim == env.spec.obs_dim


def test_evaluations_are_without_tuning() -> None:
    words = ["tasks=[flat]", "policy=random", "threads=1", "tuning.stall_seconds=0.1", "tuning.mirror=true"]
    evaluator = Evaluator(compose(EvalConfig, words), episodes=1)
    assert evaluator.env.config.options.tuning == TuningOptions()
    evaluator.close()


def test_films_and_data_of_a_tuned_run_are_without_tuning_unless_it_is_given(tmp_path: Path) -> None:
    small = ["num_envs=1", "algo.horizon=4", "net.hidden=[4]", "max_iterations=1", "eval_episodes=0", "video=false"]
    tuned = ["tuning.stall_seconds=5", "scan.every=2", f"run_dir={tmp_path}"]
    train(compose(TrainConfig, ["tasks=[flat]", "threads=1", *small, *tuned]))
    for kind in (RecordConfig, CollectConfig):
        for given, stall in (([], 0.0), (["tuning.stall_seconds=7"], 7.0)):
            words = [f"checkpoint={tmp_path}", *given]
            config = compose(kind, words, saved=saved_settings(compose(kind, words)))
            assert (config.tuning.stall_seconds, config.scan.every) == (stall, 2)


def test_manipulation_has_no_such_settings() -> None:
    for group in ({"tuning": TuningOptions(mirror=True)}, {"scan": ScanOptions(every=1)}):
        with pytest.raises(UserError, match="do not apply: tasks of manipulation have none"):
            polytask.make(tasks=["reach"], **group)
