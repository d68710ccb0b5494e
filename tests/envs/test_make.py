"""Environments from names: defaults, look-ups, and rejected options."""

from __future__ import annotations

import pytest

import polytask
from polytask.envs.make import resolve
from polytask.envs.options import EnvOptions
from polytask.errors import UserError
from polytask.parallel.ranks import Ranks
from polytask.sim import AutoSim, CpuSim, WarpSettings, WarpSim


def test_each_domain_fills_in_its_own_defaults() -> None:
    arm, legs = resolve(EnvOptions(tasks=["reach"])), resolve(EnvOptions(tasks=["beam"]))
    assert (arm.robot.name, arm.options.goals, arm.options.levels, arm.episode_length) == (
        "sawyer",
        "random",
        None,
        150,
    )
    assert (legs.robot.name, legs.options.goals, legs.options.levels, legs.episode_length) == (
        "go1",
        None,
        "hard",
        2000,
    )
    assert arm.options.threads == legs.options.threads >= 1


@pytest.mark.parametrize(
    ("suite", "levels", "expected"),
    [("parkour-easy", None, "easy"), ("parkour-hard-cl", None, "curriculum"), ("parkour-hard-cl", "flat", "flat")],
)
def test_a_parkour_suite_chooses_its_terrain_unless_told(suite: str, levels: str | None, expected: str) -> None:
    assert resolve(EnvOptions(suite=suite, levels=levels)).options.levels == expected


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"tasks": ["reach"], "levels": "easy"}, "levels=easy does not apply to tasks of manipulation"),
        (
            {"tasks": ["beam"], "termination_on_success": True},
            "termination_on_success=true does not apply to tasks of parkour",
        ),
        ({"tasks": ["beam"], "goals": "fixed"}, "goals=fixed does not apply to tasks of parkour"),
        ({"tasks": ["beam"], "robot": "panda"}, "unknown robot of parkour 'panda'; known: go1, go1_real"),
        ({"tasks": ["reach"], "robot": "go1"}, "unknown robot of manipulation 'go1'; known: sawyer, panda"),
        ({"tasks": ["reach"], "robbot": "panda"}, "unknown option 'robbot'; did you mean 'robot'?"),
        ({"tasks": ["reach"], "reward": "none"}, "reward=none is not valid; known: dense, shaped, sparse"),
        (
            {"tasks": ["beam"], "reward": "shaped"},
            "reward=shaped does not apply: task 'beam' has no stages; use dense or sparse",
        ),
        (
            {"tasks": ["flat"], "curriculum": {"revisit": 0.3}},
            "the settings curriculum.* do not apply: there is none; use levels=curriculum",
        ),
        (
            {"tasks": ["reach"], "curriculum": {"revisit": 0.3}},
            "the settings curriculum.* do not apply: tasks of manipulation have none",
        ),
        (
            {"suite": ["reach", "push"]},
            "suite=['reach', 'push'] is not valid; give its name, or a list of tasks as tasks=[...]",
        ),
        ({"suite": "mt10", "num_envs": "a"}, "num_envs=a is not valid; give a whole number"),
        ({"suite": "mt10", "num_envs": 2.5}, "num_envs=2.5 is not valid; give a whole number"),
        ({"suite": "mt10", "reward_scale": True}, "reward_scale=True is not valid; give a number"),
        ({"suite": "reach"}, "'reach' is a task, not a suite; give it as tasks=reach"),
        ({"tasks": 3}, "tasks=3 is not valid; give one name or a list of names (polytask list tasks)"),
        ({"tasks": "reech"}, "unknown task 'reech'; did you mean 'reach'?"),
        ({"tasks": ["reach"], "sim": "wrap"}, "unknown sim 'wrap'; did you mean 'warp'?"),
    ],
)
def test_options_that_do_not_apply_are_refused(options: dict[str, object], line: str) -> None:
    with pytest.raises(UserError) as caught:
        polytask.make(**options)
    assert str(caught.value) == line


def test_physics_is_chosen_by_name_or_with_its_settings() -> None:
    assert resolve(EnvOptions(sim="auto")).sim == resolve(EnvOptions(sim="cpu")).sim == "cpu"
    config = resolve(EnvOptions(sim=WarpSim(contacts_per_world=7)))
    assert (config.sim, config.sim_config.contacts_per_world) == ("warp", 7)
    assert resolve(EnvOptions(sim="warp")).sim_config == WarpSim()
    assert isinstance(resolve(EnvOptions(sim="cpu")).sim_config, WarpSettings)


def test_physics_of_none_is_auto() -> None:
    config = resolve(EnvOptions(sim=None))
    assert (config.sim, config.sim_config) == ("cpu", AutoSim())
    assert resolve(EnvOptions(sim=CpuSim())).sim == "cpu"


@pytest.mark.parametrize("sim", [WarpSettings(), 3, CpuSim])
def test_physics_of_another_type_is_refused(sim: object) -> None:
    with pytest.raises(UserError) as caught:
        polytask.make(tasks=["reach"], sim=sim)
    assert str(caught.value) == "sim must be a name (auto, cpu, warp) or an AutoSim, CpuSim or WarpSim"


def test_the_suite_is_ignored_if_tasks_are_given() -> None:
    assert [task.name for task in resolve(EnvOptions(suite="nope", tasks=["reach"])).tasks] == ["reach"]
    with pytest.raises(UserError, match="nope"):
        resolve(EnvOptions(suite="nope"))


def test_tasks_may_be_named_without_a_list() -> None:
    assert [task.name for task in resolve(EnvOptions(tasks="reach, push")).tasks] == ["reach", "push"]  # type: ignore[arg-type]
    assert [task.name for task in resolve(EnvOptions(tasks="reach")).tasks] == ["reach"]  # type: ignore[arg-type]
    with pytest.raises(UserError, match="tasks is empty"):
        resolve(EnvOptions(tasks=[]))


def test_help_lists_every_option() -> None:
    assert all(f"    {name}: " in (polytask.make.__doc__ or "") for name in vars(EnvOptions()))


def test_the_ranks_of_a_machine_share_its_worlds_and_cores() -> None:
    cores = resolve(EnvOptions(tasks=["reach"])).options.threads
    assert cores is not None
    options = EnvOptions(tasks=["reach", "push"], envs_per_task=[3, 4])
    config = resolve(options, Ranks(1, 2, 1, 2, store=object()))  # type: ignore[arg-type]
    assert (config.envs_per_task, config.share.envs_per_task) == ((3, 4), (2, 2))
    assert config.options.threads == max(1, cores // 2)


def test_groups_of_parkour_settings_are_mappings() -> None:
    env = polytask.make(tasks=["flat"], num_envs=1, threads=1, scan={"feet": True}, tuning={"mirror": True})
    assert env.spec.obs_dim == 248
    assert env.config.options.tuning.mirror
    with pytest.raises(UserError, match="unknown setting of scan 'foot'"):
        polytask.make(tasks=["flat"], scan={"foot": True})
    with pytest.raises(UserError, match=r"scan\.every=0"):
        polytask.make(tasks=["flat"], scan={"every": 0})
