"""Evaluations of parkour: all levels are played, flat ground is apart, tiles and bodies can be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import polytask
from polytask.config.compose import compose
from polytask.config.schema import EvalConfig, TrainConfig
from polytask.config.watching import RecordConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.parkour.layout import spread_levels
from polytask.errors import UserError
from polytask.runs.evaluate import Evaluator, Outcome, evaluate, evaluation_tables, summarize
from polytask.runs.parkour_eval import terrain_summary
from polytask.runs.train import train
from polytask.tools.video import record

SHORT = ("policy=random", "episode_length=3", "threads=1")


def config(*words: str) -> EvalConfig:
    found: EvalConfig = compose(EvalConfig, [*SHORT, *words])
    return found


def levels_of(env: MultiTaskEnv) -> list[list[int]]:
    groups: list[Any] = list(env.groups)
    return torch.cat([group.episode.level for group in groups]).view(env.spec.num_tasks, -1).tolist()


@pytest.mark.parametrize("episodes", range(1, 25))
def test_any_number_of_episodes_is_spread_evenly(episodes: int) -> None:
    levels = torch.stack([spread_levels(episodes, task) for task in range(20)])
    counts = torch.stack([torch.bincount(row, minlength=10) for row in levels])
    assert (counts.max(1).values - counts.min(1).values <= 1).all()  # in each task
    assert (counts.sum(0) == 2 * episodes).all()  # over all tasks, every level has the same number
    if episodes == 5:
        assert levels[0].tolist() == [1, 3, 5, 7, 9]


def test_a_few_episodes_play_easy_and_hard_levels() -> None:
    evaluator = Evaluator(config("tasks=[beam,dome]", "levels=curriculum"), episodes=4)
    assert levels_of(evaluator.env) == [[1, 3, 6, 8], [2, 4, 7, 9]]
    first = evaluator.play(lambda obs, task: torch.zeros(8, 12))
    assert first.metrics["level"].T.tolist() == [[1, 3, 6, 8], [2, 4, 7, 9]]
    again = evaluator.play(lambda obs, task: torch.zeros(8, 12))
    assert np.array_equal(first.returns, again.returns)
    tiles: Any = evaluator.env.groups[0]
    placed = tiles.batch.model.__copy__()
    tiles.batch.copy_layout(7, placed)  # the last world stands on level 9 of the second task
    assert placed.geom_pos[:56] == pytest.approx(tiles.tiles.shapes.pos[19].numpy())
    evaluator.close()


def test_numbers_that_fit_are_played_as_before() -> None:
    evaluator = Evaluator(config("tasks=[beam]"), episodes=20)
    assert levels_of(evaluator.env) == [[*range(10), *range(10)]]
    evaluator.close()


def test_episodes_that_all_arrive_leave_room_for_some_that_would_not() -> None:
    ones, none = np.ones((25, 1)), np.zeros((25, 1))
    metrics = {"falls": none, "level": none, "steps": 700 * ones}
    found = terrain_summary(ones, ones, metrics, ["dome"], "hard")["terrains"]
    assert found["progress"] == 1.0
    assert found["interval"] == pytest.approx([25 / (25 + 1.96**2), 1.0], abs=1e-3)  # Wilson's


def outcome(level: list[float]) -> Outcome:
    """Two terrains and flat ground, two episodes each."""
    success = np.array([[1.0, 0.5, 1.0], [0.0, 0.25, 1.0]])
    column = np.repeat(np.array(level)[:, None], 3, axis=1)
    falls = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    steps = np.array([[800.0, 90.0, 700.0], [40.0, 2000.0, 900.0]])
    return Outcome(success, success >= 1.0, success, {"level": column, "falls": falls, "steps": steps})


def test_flat_is_in_no_mean() -> None:
    summary = summarize(outcome([2.0, 7.0]), ("beam", "dome", "flat"))
    assert summary["mean_success"] == pytest.approx((0.5 + 0.375) / 2)
    assert summary["mean_success_at_end"] == 0.25
    parkour = summary["parkour"]
    assert parkour["terrains"]["tasks"] == 2
    assert parkour["terrains"]["progress"] == summary["mean_success"]
    assert parkour["terrains"]["falls"] == 0.5
    assert parkour["terrains"]["stopped"] == 0.25  # the second episode of the dome neither arrived nor fell
    assert parkour["terrains"]["steps"] == (800 + 90 + 40 + 2000) / 4
    assert parkour["stopped"] == {"beam": 0.0, "dome": 0.5, "flat": 0.0}
    assert parkour["steps"] == {"beam": 420.0, "dome": 1045.0, "flat": 800.0}
    assert parkour["flat"]["progress"] == 1.0
    assert parkour["levels"]["2"] == {
        "progress": 0.75, "all_waypoints": 0.5, "falls": 0.5, "stopped": 0.0, "steps": 445.0, "episodes": 2
    }  # fmt: skip
    assert parkour["levels"]["7"]["progress"] == 0.125
    assert parkour["levels"]["0"] == {"episodes": 0}
    assert parkour["task_levels"]["dome"][2] == 0.5
    assert parkour["task_levels"]["dome"][3] is None


def test_flat_alone_is_its_own_mean() -> None:
    whole = outcome([2.0, 7.0])
    alone = Outcome(*(array[:, 2:] for array in (whole.success, whole.success_at_end, whole.returns)))
    assert summarize(alone, ("flat",))["mean_success"] == 1.0


def test_tables_have_terrains_then_flat_and_every_level() -> None:
    per_terrain, per_level, matrix = evaluation_tables("x", summarize(outcome([2.0, 7.0]), ("beam", "dome", "flat")))
    assert [row[0] for row in per_terrain.rows] == ["beam", "dome", "mean of 2 terrains", "flat, apart"]
    assert per_terrain.rows[2][1] == pytest.approx(0.4375)
    assert per_terrain.columns[-3:] == ("falls", "stopped", "steps")
    assert per_terrain.rows[1][-3:] == (0.5, 0.5, 1045.0)
    assert per_level.title == "per level, without flat"
    assert per_level.columns[0] == "level"
    assert per_level.rows[7][-4:] == (0.5, 0.5, 1020.0, 2)
    assert [row[0] for row in per_level.rows] == [str(level) for level in range(10)]
    assert matrix.rows[0][:4] == ("beam", None, None, 1.0)


def test_tiles_of_easy_and_flat_are_variants_not_levels() -> None:
    for suite, title in (("easy", "per variant of the lowest level"), ("flat", "per variant, all of them flat ground")):
        result = evaluate(config("tasks=[beam]", f"levels={suite}", "episodes=2"))
        assert [table.title for table in result.tables[1:]] == [f"{title}, without flat", f"progress {title}"]
        assert result.tables[1].columns[0] == "variant"
    evaluator = Evaluator(config("tasks=[beam]", "levels=curriculum"), episodes=1)
    assert evaluator.run(lambda obs, task: torch.zeros(1, 12))["parkour"]["tiles"] == "hard"
    evaluator.close()


def test_steps_are_those_of_the_first_episode_alone() -> None:
    evaluator = Evaluator(config("tasks=[flat]", "episode_length=60"), episodes=2)
    env: Any = evaluator.env

    def lie_down(obs: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        if int(env.episode_step[0]) == 9:  # turn the second robot over; its next episodes would be counted too
            qpos = env.groups[0].batch.qpos.clone()
            qpos[1, 3:7] = torch.tensor([0.0, 1.0, 0.0, 0.0])
            env.groups[0].batch.reset(torch.tensor([False, True]), qpos, torch.zeros(2, 18))
        return torch.zeros(2, 12)

    outcome = evaluator.play(lie_down)
    assert outcome.metrics["falls"].tolist() == [[0.0], [1.0]]
    assert outcome.metrics["steps"].tolist() == [[60.0], [10.0]]
    evaluator.close()


def test_tiles_and_bodies_are_evaluated_beside_each_other() -> None:
    result = evaluate(config("tasks=[box-climb,flat]", "tiles=both", "body=both", "episodes=2"))
    assert result.payload["worlds"] == "trained tiles, randomized bodies"
    assert list(result.payload["others"]) == [
        "trained tiles, nominal bodies",
        "held-out tiles, randomized bodies",
        "held-out tiles, nominal bodies",
    ]
    assert len(result.tables) == 4 * 3
    assert result.tables[3].title.endswith(", trained tiles, nominal bodies")


def test_held_out_tiles_differ_and_are_as_hard() -> None:
    envs = [
        polytask.make(tasks=["box-climb"], num_envs=10, threads=1, tiles=tiles) for tiles in ("trained", "held_out")
    ]
    trained, held_out = (group.tiles for env in envs for group in env.groups)
    assert not any(torch.equal(one, two) for one, two in zip(trained.ground, held_out.ground, strict=True))
    for tiles in (trained, held_out):
        top = tiles.ground.view(10, 360, 80)[:, 4:-4, 4:-4].amax((1, 2))
        assert top[0] < 0.36 and top[9] > 0.6


def test_nominal_bodies_are_all_alike() -> None:
    env = polytask.make(tasks=["flat"], num_envs=3, threads=1, body="nominal", stagger=False)
    body = torch.tensor([0.0] * 4 + [1.0] + [0.0] * 24)
    assert torch.equal(env.obs[:, 183:], body.expand(3, -1))
    group: Any = env.groups[0]
    model = group.batch.model.__copy__()
    group.batch.copy_layout(1, model)  # on the CPU, the whole model of a world
    for field in ("body_mass", "body_ipos", "actuator_gainprm", "geom_friction"):
        assert getattr(model, field) == pytest.approx(getattr(group.batch.model, field)), field


def test_one_level_for_all_worlds() -> None:
    env = polytask.make(tasks=["beam", "dome"], num_envs=4, threads=1, level=7)
    assert levels_of(env) == [[7, 7], [7, 7]]
    with pytest.raises(UserError, match="level=7 does not apply: a curriculum moves the worlds"):
        polytask.make("parkour-hard-cl", num_envs=21, level=7)
    with pytest.raises(UserError, match="tiles=held_out does not apply to tasks of manipulation"):
        polytask.make(tasks=["reach"], tiles="held_out")


def test_a_film_shows_the_level_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[list[int]]] = {}

    def film(env: MultiTaskEnv, policy: Any, path: Path, video: Any) -> int:
        seen[path.name] = levels_of(env)
        return 2

    monkeypatch.setattr("polytask.tools.video.record_video", film)
    words = ("suite=parkour-hard-cl", "policy=random", "threads=1", f"output={tmp_path / 'film.mp4'}", "task=beam")
    record(compose(RecordConfig, [*words, "level=9"]))
    assert seen == {"film.mp4": [[9]]}
    seen.clear()
    result = record(compose(RecordConfig, [*words, "all_levels=true"]))
    assert seen == {f"film-level-{level}.mp4": [[level]] for level in range(10)}
    assert len(result.payload["outputs"]) == 10


@pytest.mark.parametrize("policy", ["policy=pretrained", "checkpoint"])
def test_a_policy_of_other_worlds_is_refused_with_the_options_that_differ(policy: str, tmp_path: Path) -> None:
    words = ["suite=parkour-hard", "tasks=[dome]", "episodes=1", "threads=1"]
    if policy == "checkpoint":
        small = ["num_envs=1", "algo.horizon=4", "net.hidden=[4]", "max_iterations=1", "eval_episodes=0", "video=false"]
        train(compose(TrainConfig, ["tasks=[dome]", "threads=1", f"run_dir={tmp_path}", *small]))
        policy = f"checkpoint={tmp_path}"
    line = "trained on observations of 212 numbers, and these worlds show 248; in parkour robot, privileged, scan.feet"
    with pytest.raises(UserError, match=line):
        evaluate(compose(EvalConfig, [policy, *words, "scan.feet=true"]))
