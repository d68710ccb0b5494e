"""Build an environment from names: `polytask.make("mt10", num_envs=64)`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.util import find_spec
from inspect import cleandoc
from numbers import Integral, Real
from typing import Any, get_args, get_type_hints

from polytask.device import check_device
from polytask.envs.domain import Domain, EnvConfig
from polytask.envs.manipulation.task import Task
from polytask.envs.manipulation.worlds import DOMAIN as MANIPULATION
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.options import CurriculumOptions, EnvOptions, RealityOptions, WorldOptions
from polytask.envs.parkour.terrain import Terrain
from polytask.envs.parkour.worlds import DOMAIN as PARKOUR
from polytask.envs.suites import SUITES
from polytask.envs.tasks import OURS, TASKS
from polytask.envs.warmup import prepare
from polytask.errors import UserError, require_known, shown
from polytask.parallel.ranks import ALONE, Ranks
from polytask.parallel.worlds import WorldShare
from polytask.robots import ROBOTS, LeggedRobot
from polytask.settings import check_values
from polytask.sim.config import SIMS, AutoSim, CpuSim, WarpSettings, WarpSim

# The domain of each kind of task record.
DOMAINS: dict[type, Domain] = {Task: MANIPULATION, Terrain: PARKOUR}
# Options that only some domains have, or whose default differs between domains.
DOMAIN_OPTIONS = (
    "robot",
    "episode_length",
    "reward_scale",
    "termination_on_success",
    "goals",
    "levels",
    "level",
    "tiles",
    "body",
    "privileged",
)

PARKOUR_GROUPS = ("curriculum", "scan", "tuning", "reality")  # groups of options that only parkour has


def make(suite: str = "mt10", *, copy: bool = True, **options: Any) -> MultiTaskEnv:
    """Create a multi-task environment.

    Args:
        suite: Name of a suite, such as "mt10"; ignored if `tasks` is given.
        copy: Return tensors that belong to the caller. With False, `obs`, `reset` and `step` return buffers that the
            next step overwrites: faster, but copy what you keep.
        options: Any field of `EnvOptions`, such as `tasks`, `num_envs`, `device`, `robot`, `episode_length` or `seed`.
            `sim` is a name or a config of `polytask.sim`: `AutoSim`, `CpuSim` or `WarpSim`. `curriculum`, `scan`,
            `tuning` and `reality` are mappings such as `{"feet": True}`. `tasks` may contain records of your own,
            `Task` or `Terrain`, beside names.

    Raises:
        UserError: If an option is unknown, has an invalid value, or does not apply to these tasks.
    """
    if not isinstance(suite, str):
        raise UserError(f"suite={shown(suite)} is not valid; give its name, or a list of tasks as tasks=[...]")
    for name in options:
        require_known("option", name, (each.name for each in fields(EnvOptions)))
    _check_numbers(options)
    for name in PARKOUR_GROUPS:
        if isinstance(group := options.get(name), Mapping):
            kind = type(getattr(EnvOptions(), name))
            for key in group:
                require_known(f"setting of {name}", key, (each.name for each in fields(kind)))
            options[name] = kind(**group)
    given = options.get("tasks")
    if (isinstance(given, Iterable) and not isinstance(given, str)) or isinstance(given, Task | Terrain):
        options["tasks"] = [name_of(task) for task in ([given] if isinstance(given, Task | Terrain) else given)]
    config = resolve(EnvOptions(suite=suite, **options))
    check_curriculum(config.options)
    return _build(config, copy=copy)


# `help(polytask.make)` then lists every option.
make.__doc__ = f"{cleandoc(make.__doc__ or '')}\n\nOptions:\n" + "".join(
    f"    {each.name}: {each.metadata['about']}\n" for each in fields(EnvOptions)
)


def _check_numbers(options: Mapping[str, Any]) -> None:
    """Check that options which are numbers are given as such.

    Raises:
        UserError: If one is something else, such as a text.
    """
    words = {int: "a whole number", float: "a number"}
    hints = get_type_hints(EnvOptions)
    for name, value in options.items():
        kinds = set(get_args(hints[name]) or [hints[name]]) - {type(None)}
        if kinds <= words.keys() and value is not None:
            kind = float if float in kinds else int
            if isinstance(value, bool) or not isinstance(value, Real if kind is float else Integral):
                raise UserError(f"{name}={shown(value)} is not valid; give {words[kind]}")


def name_of(task: str | Task | Terrain) -> str:
    """Return the name of a task. A record is added to the table of tasks.

    Raises:
        UserError: If a task of the package has its name.
    """
    if isinstance(task, str):
        return task
    if not isinstance(task, Task | Terrain):
        raise UserError(f"a task is a name, a Task or a Terrain, not {type(task).__name__}")
    if task.name in OURS and TASKS[task.name] != task:
        raise UserError(f"there is already a task '{task.name}'; choose another name")
    TASKS[task.name] = task
    return task.name


def make_env(options: EnvOptions, ranks: Ranks = ALONE, *, copy: bool = False) -> MultiTaskEnv:
    """Create the environment that the options describe; with several ranks, the worlds of this rank.

    On a GPU, kernels that no earlier run compiled come first. Without `copy`, which learners do not need, the tensors
    of a step are buffers that the next step overwrites.
    """
    return _build(resolve(options, ranks), copy=copy)


def _build(config: EnvConfig, *, copy: bool) -> MultiTaskEnv:
    if config.sim == "warp" and config.device.type == "cuda" and find_spec("mujoco_warp") is not None:
        prepare(config)
    return MultiTaskEnv(config, copy=copy)


def resolve(options: EnvOptions, ranks: Ranks = ALONE) -> EnvConfig:
    """Look up every name and fill in every default.

    Args:
        options: The options, which count the worlds of all ranks.
        ranks: The processes that share these worlds.

    Raises:
        UserError: If a name is unknown or a value is invalid.
    """
    if isinstance(options.tasks, str):
        options = replace(options, tasks=[name.strip() for name in options.tasks.split(",")])
    _check_names(options)
    # With `tasks` the suite is ignored, so it may be anything.
    check_values(options if options.tasks is None else replace(options, suite=EnvOptions.suite))
    names = list(options.task_names)
    if len(set(names)) != len(names):
        raise UserError(f"a task is named twice in {names}; give it more worlds with envs_per_task instead")
    tasks = tuple(TASKS[require_known("task", name, TASKS)] for name in names)
    domain = domain_of(tasks)
    options = _fill_in(options, domain, ranks)
    _check_reward(options.reward, tasks)
    _check_exempted(options)
    device = check_device(options.device)
    sim = _sim(options.sim)
    counts = _counts(len(names), options.num_envs, options.envs_per_task)
    robots = [name for name, robot in ROBOTS.items() if isinstance(robot, domain.robot)]
    robot = ROBOTS[require_known(f"robot of {domain.name}", str(options.robot), robots)]
    if options.reality != RealityOptions() and not (isinstance(robot, LeggedRobot) and robot.motors):
        raise UserError(f"the settings reality.* do not apply: robot={robot.name} is not a real one; use go1_real")
    return EnvConfig(
        options=options,
        domain=domain,
        tasks=tasks,
        envs_per_task=counts,
        share=WorldShare(ranks, counts, device),
        robot=robot,
        sim=("warp" if device.type == "cuda" else "cpu") if sim.name == "auto" else sim.name,
        sim_config=sim if isinstance(sim, WarpSettings) else WarpSettings(),
        device=device,
    )


def check_curriculum(options: WorldOptions) -> None:
    """Check that worlds with settings of a curriculum have one.

    Evaluations have none, but the settings of the run that they evaluate; so only where worlds are asked for.
    """
    if options.curriculum == CurriculumOptions() or options.chosen_levels == "curriculum":
        return
    domain = domain_of([TASKS[require_known("task", name, TASKS)] for name in options.task_names])
    has_levels = "levels" in domain.defaults
    reason = "there is none; use levels=curriculum" if has_levels else f"tasks of {domain.name} have none"
    raise UserError(f"the settings curriculum.* do not apply: {reason}")


def _check_names(options: EnvOptions) -> None:
    """Check that tasks are a list, and that the name of a task is not given as a suite."""
    tasks: Any = options.tasks
    if tasks is not None and not isinstance(tasks, list | tuple):
        raise UserError(f"tasks={shown(tasks)} is not valid; give one name or a list of names (polytask list tasks)")
    if tasks is None and options.suite not in SUITES and options.suite in TASKS:
        raise UserError(f"'{options.suite}' is a task, not a suite; give it as tasks={options.suite}")


def domain_of(tasks: Sequence[Task | Terrain]) -> Domain:
    """Return the domain that all tasks belong to."""
    domains = {DOMAINS[type(task)].name: task.name for task in tasks}  # one example task per domain
    if len(domains) > 1:
        (first, one), (second, other), *_ = domains.items()
        raise UserError(f"'{one}' is {first} and '{other}' is {second}; all tasks must be of one kind")
    return DOMAINS[type(tasks[0])]


def _fill_in(options: EnvOptions, domain: Domain, ranks: Ranks) -> EnvOptions:
    """Set missing options to the defaults of the domain, and reject options that the domain does not have."""
    defaults = {**domain.defaults}
    if "levels" in defaults:
        defaults["levels"] = options.chosen_levels or defaults["levels"]
    cores = max(1, len(os.sched_getaffinity(0)) // ranks.local_size)
    filled: dict[str, Any] = {
        "device": ranks.device(options.device),
        "threads": cores if options.threads is None else options.threads,
        "stagger": options.stagger is not False,
    }
    for name in () if "levels" in defaults else PARKOUR_GROUPS:
        if getattr(options, name) != type(getattr(options, name))():
            raise UserError(f"the settings {name}.* do not apply: tasks of {domain.name} have none")
    if options.level is not None and defaults.get("levels") == "curriculum":
        raise UserError(f"level={options.level} does not apply: a curriculum moves the worlds; use levels=hard")
    for name in DOMAIN_OPTIONS:
        given = getattr(options, name)
        if name not in defaults and given is not None:
            text = str(given).lower() if isinstance(given, bool) else given  # as it is typed
            raise UserError(f"{name}={text} does not apply to tasks of {domain.name}")
        filled[name] = defaults.get(name) if given is None else given
    return replace(options, **filled)


def _check_exempted(options: EnvOptions) -> None:
    """Check that exempted tasks are tasks of the environment, and that there is something to exempt them from."""
    for name in options.exempted_tasks or ():
        require_known("exempted task", name, options.task_names)
    if options.exempted_tasks and not options.stagger:
        raise UserError("exempted_tasks applies only with stagger=true; else all episodes start at their first step")


def _check_reward(reward: str, tasks: Sequence[Task | Terrain]) -> None:
    """Check that every task has the reward."""
    for task in tasks:
        if reward == "shaped" and (isinstance(task, Terrain) or task.shaped is None):
            raise UserError(f"reward=shaped does not apply: task '{task.name}' has no stages; use dense or sparse")


def _sim(sim: Any) -> AutoSim | CpuSim | WarpSim:
    """Return the config of the physics backend; None, the default of version 0.1, means auto."""
    if sim is None:
        return AutoSim()
    if isinstance(sim, str):
        return SIMS[require_known("sim", sim, SIMS)]()
    if isinstance(sim, AutoSim | CpuSim | WarpSim):
        return sim
    raise UserError("sim must be a name (auto, cpu, warp) or an AutoSim, CpuSim or WarpSim")


def _counts(num_tasks: int, num_envs: int | None, envs_per_task: Sequence[int] | None) -> tuple[int, ...]:
    """Return the number of worlds of each task."""
    if envs_per_task is not None:
        counts = tuple(int(count) for count in envs_per_task)
        if len(counts) != num_tasks:
            raise UserError(f"envs_per_task has {len(counts)} entries for {num_tasks} tasks; give one per task")
        return counts
    total = num_tasks if num_envs is None else num_envs
    if total < num_tasks:
        raise UserError(f"num_envs={total} is too few for {num_tasks} tasks; give at least one world per task")
    share, remainder = divmod(total, num_tasks)
    return tuple(share + (index < remainder) for index in range(num_tasks))
