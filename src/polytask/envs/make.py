"""Build an environment from names: `polytask.make("mt10", num_envs=64)`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence

import torch

from polytask.envs import parkour
from polytask.envs.domain import Domain, EnvConfig
from polytask.envs.manipulation import worlds as group
from polytask.envs.manipulation.task import Task
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.parkour.tasks import LEVELS, Terrain
from polytask.envs.suites import SUITE_LEVELS
from polytask.envs.tasks import SUITES, TASKS
from polytask.robots import ROBOTS
from polytask.sim import SIMS, SimConfig
from polytask.types import UserError

# The domain of each kind of task record.
DOMAINS: dict[type, Domain] = {Task: group.DOMAIN, Terrain: parkour.DOMAIN}


def make(  # noqa: PLR0913 - the public entry point: one keyword per thing a user may want to say
    suite: str = "mt10",
    *,
    tasks: Sequence[str] | None = None,
    num_envs: int | None = None,
    envs_per_task: Sequence[int] | None = None,
    device: str | torch.device = "cpu",
    sim: str | None = None,
    sim_config: SimConfig | None = None,
    robot: str = "sawyer",
    episode_length: int | None = None,
    reward: str = "dense",
    goals: str = "random",
    levels: str | None = None,
    stagger: bool = True,
    seed: int = 0,
    threads: int | None = None,
) -> MultiTaskEnv:
    """Create a multi-task environment.

    Args:
        suite: Name of a suite, such as "mt10"; ignored when `tasks` is given.
        tasks: Task names, for a suite of one's own.
        num_envs: Number of worlds over all tasks; the first tasks get one more where it does not divide evenly.
        envs_per_task: Number of worlds of each task, instead of `num_envs`.
        device: Where tensors live: "cpu", "cuda", "cuda:1".
        sim: "cpu" (MuJoCo) or "warp" (MuJoCo Warp); default is what fits the device.
        sim_config: Settings of the GPU simulator.
        robot: Name of the arm that manipulates; parkour is run by the Go1 whatever it says.
        episode_length: Control steps per episode; default is MTBench's, 150 for manipulation (Meta-World's own
            protocol: 500) and 2000 for parkour.
        reward: "dense" or "sparse" (1 on success, else 0).
        goals: "random" draws a goal every episode, "fixed" draws each world's goal once; of no effect on parkour.
        levels: Terrain of parkour tasks: "flat", "easy", "hard" or "curriculum"; default is the suite's, else "hard".
        stagger: Start worlds at different step counts, so that episodes do not end in lock-step.
        seed: Seed of everything random in the environment.
        threads: CPU threads for sim=cpu; default is all available cores.
    """
    names = list(tasks) if tasks is not None else list(SUITES[_known(suite, SUITES, "suite")])
    if not names:
        raise UserError("tasks is empty; name at least one task")
    if len(set(names)) != len(names):
        raise UserError(f"a task is named twice in {names}; give it more worlds with envs_per_task instead")
    chosen = tuple(TASKS[_known(name, TASKS, "task")] for name in names)
    domain = domain_of(chosen)
    default_levels = SUITE_LEVELS.get(suite, "hard") if tasks is None else "hard"
    place = _device(device)
    chosen_sim = sim if sim is not None else ("warp" if place.type == "cuda" else "cpu")
    config = EnvConfig(
        domain=domain,
        tasks=chosen,
        envs_per_task=_counts(len(names), num_envs, envs_per_task),
        robot=ROBOTS[_known(robot, ROBOTS, "robot")],
        sim=_known(chosen_sim, SIMS, "sim"),
        device=place,
        sim_config=sim_config or SimConfig(),
        episode_length=_positive("episode_length", domain.episode_length if episode_length is None else episode_length),
        reward=_known(reward, ("dense", "sparse"), "reward"),
        goals=_known(goals, ("random", "fixed"), "goals"),
        levels=_known(default_levels if levels is None else levels, LEVELS, "levels"),
        stagger=stagger,
        seed=seed,
        threads=_positive("threads", len(os.sched_getaffinity(0)) if threads is None else threads),
    )
    return MultiTaskEnv(config)


def domain_of(tasks: Sequence[Task | Terrain]) -> Domain:
    """Find the one domain that all tasks belong to."""
    domains = {DOMAINS[type(task)].name: task.name for task in tasks}  # of each domain, a task as an example
    if len(domains) > 1:
        (first, one), (second, other), *_ = domains.items()
        raise UserError(f"'{one}' is {first} and '{other}' is {second}; an environment has tasks of one kind")
    return DOMAINS[type(tasks[0])]


def _known(name: str, table: Iterable[str], kind: str) -> str:
    names = list(table)
    if name in names:
        return name
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise UserError(f"unknown {kind} '{name}'; {hint}valid: {', '.join(names)}")


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise UserError(f"{name} must be at least 1, not {value}")
    return value


def _counts(num_tasks: int, num_envs: int | None, envs_per_task: Sequence[int] | None) -> tuple[int, ...]:
    """Decide the number of worlds of each task."""
    if envs_per_task is not None:
        counts = tuple(int(count) for count in envs_per_task)
        if len(counts) != num_tasks:
            raise UserError(f"envs_per_task has {len(counts)} entries for {num_tasks} tasks")
        if min(counts) < 1:
            raise UserError(f"every task needs at least one world, but envs_per_task is {list(counts)}")
        if num_envs is not None and num_envs != sum(counts):
            raise UserError(f"envs_per_task adds up to {sum(counts)}, but num_envs is {num_envs}")
        return counts
    total = num_tasks if num_envs is None else num_envs
    if total < num_tasks:
        raise UserError(f"num_envs={total} is too few for {num_tasks} tasks; give at least one world per task")
    share, remainder = divmod(total, num_tasks)
    return tuple(share + (index < remainder) for index in range(num_tasks))


def _device(device: str | torch.device) -> torch.device:
    """Check that the device exists, with its index made explicit."""
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UserError(f"unknown device '{device}'; valid: cpu, cuda, cuda:N") from error
    if chosen.type not in ("cpu", "cuda"):
        raise UserError(f"unknown device '{device}'; valid: cpu, cuda, cuda:N")
    if chosen.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = chosen.index or 0
        if index >= count:
            found = f"{count} CUDA device(s)" if count else "no CUDA device"
            raise UserError(f"device '{device}' is not there: this machine has {found}; use device=cpu")
        return torch.device("cuda", index)
    return torch.device("cpu")
