"""Profile the physics of each task on the CPU: cost of a control step, contacts, constraint rows, solver, stages.

The cost is processor time of one thread, the smallest of several repetitions, so that other jobs on the machine change
it little. It is measured by repeating the commands of one episode in the physics alone.

    python benchmarks/physics_profile.py --out profile.json
    python benchmarks/physics_profile.py --before profile.json --out benchmarks/results/physics_profile_cpu.json
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch
from publish import origin, publish
from torch import Tensor

import polytask
from polytask.envs.manipulation.worlds import SUBSTEPS
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.scripted import ScriptedPolicy
from polytask.envs.suites import SUITES
from polytask.sim.mujoco_clock import clock

STEPS = 149  # control steps: an episode without its last step, which would reset the world
HOLD = {"held": 15, "mixed": 8}  # control steps for which these keep the random part
STAGES = ("POSITION", "COL_BROAD", "COL_NARROW", "POS_MAKE", "VELOCITY", "CONSTRAINT", "ADVANCE")
PACKAGE_CLOCK = clock().value  # read before the first batch stops it
TIMED = ("random", "scripted")
DRIVES: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {  # (expert's action, random numbers in [-1, 1], step)
    "random": lambda expert, noise, step: noise,
    "scripted": lambda expert, noise, step: expert,
    "noisy": lambda expert, noise, step: expert + noise,
    "held": lambda expert, noise, step: noise.sign(),
    "mixed": lambda expert, noise, step: torch.stack([noise.sign(), expert + noise, expert])[
        torch.arange(len(noise)) % 3, torch.arange(len(noise))
    ],
    "down": lambda expert, noise, step: torch.tensor([0.0, 0.0, -1.0, 1.0]).expand_as(noise),
}


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(SUITES["mt50"]), help="task names (default: all 50)")
    parser.add_argument("--robots", nargs="+", default=["sawyer"], help="robots")
    parser.add_argument("--drives", nargs="+", default=list(TIMED), choices=list(DRIVES), help="who acts")
    parser.add_argument("--worlds", type=int, default=8, help="worlds of each task")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each timing")
    parser.add_argument("--before", type=Path, help="an earlier profile, to be published beside this one")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    return parser.parse_args()


def record(env: MultiTaskEnv, drive: str) -> tuple[dict[str, Tensor], list[tuple[Tensor, Tensor]], list[np.ndarray]]:
    """Play one episode; return the first physics state, the commands of every step, and the states they apply to."""
    expert, batch = ScriptedPolicy(env), env.groups[0].batch
    generator = torch.Generator().manual_seed(0)
    noise = torch.zeros(env.spec.num_envs, env.spec.action_dim)
    start, commands, states = batch.state_dict(), [], []
    for step in range(STEPS):
        if step % HOLD.get(drive, 1) == 0:
            noise.uniform_(-1.0, 1.0, generator=generator)
        env.step(DRIVES[drive](expert(env.obs, env.task), noise, step))
        commands.append((batch.ctrl.clone(), batch.mocap_pos.clone()))
        states.append(batch.state_dict()["state"].numpy())
    return start, commands, states


def cost(env: MultiTaskEnv, start: dict[str, Tensor], commands: list[tuple[Tensor, Tensor]], repeat: int) -> float:
    """Return the processor time of a control step of one world, in microseconds."""
    batch, best = env.groups[0].batch, float("inf")
    for _ in range(repeat):
        batch.load_state_dict(start)
        begin = time.process_time()
        for ctrl, mocap in commands:
            batch.ctrl.copy_(ctrl)
            batch.mocap_pos.copy_(mocap)
            batch.step(SUBSTEPS)
        best = min(best, time.process_time() - begin)
    return best / (len(commands) * env.spec.num_envs) * 1e6


def inside(model: mujoco.MjModel, states: list[np.ndarray]) -> dict[str, Any]:
    """Repeat every control step with MuJoCo's own functions, and look at each time step."""
    data = mujoco.MjData(model)
    contacts, rows, iterations, stages = [], [], [], np.zeros(len(STAGES))
    with package_clock():
        for state in np.concatenate(states):
            mujoco.mj_setState(model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
            for _ in range(SUBSTEPS):
                mujoco.mj_step(model, data)
                contacts.append(data.ncon)
                rows.append(data.nefc)
                iterations.append(int(data.solver_niter[: max(data.nisland, 1)].sum()))
    for index, stage in enumerate(STAGES):
        timer = data.timer[getattr(mujoco.mjtTimer, f"mjTIMER_{stage}")]
        stages[index] = timer.duration
    per_step = stages / len(rows) * 1e6
    return {
        "contacts": {"mean": round(float(np.mean(contacts)), 1), "most": max(contacts)},
        "rows": {"mean": round(float(np.mean(rows)), 1), "most": max(rows)},
        "iterations": {"mean": round(float(np.mean(iterations)), 2), "most": max(iterations)},
        "stage_microseconds_per_time_step": {
            stage.lower(): round(float(value), 2) for stage, value in zip(STAGES, per_step, strict=True)
        },
    }


@contextmanager
def package_clock() -> Iterator[None]:
    """Let MuJoCo's timers run with the clock of its Python package."""
    variable: ctypes.c_void_p = clock()
    before, variable.value = variable.value, PACKAGE_CLOCK
    try:
        yield
    finally:
        variable.value = before


def profile(task: str, robot: str, options: argparse.Namespace) -> dict[str, Any]:
    """Profile one task with one robot."""
    found: dict[str, Any] = {}
    for drive in options.drives:
        env = polytask.make(
            tasks=[task], robot=robot, num_envs=options.worlds, sim="cpu", stagger=False, seed=0, threads=1, copy=False
        )
        start, commands, states = record(env, drive)
        timing = {"microseconds": round(cost(env, start, commands, options.repeat), 1)} if drive in TIMED else {}
        found[drive] = {**timing, **inside(env.groups[0].batch.model, states)}
        env.close()
    return {"scene": env.config.tasks[0].scene, **found}


def main() -> None:
    """Profile all tasks and publish the result."""
    options = parse()
    torch.set_num_threads(1)
    tasks: dict[str, Any] = {}
    for robot in options.robots:
        for task in options.tasks:
            tasks[f"{robot}/{task}"] = profile(task, robot, options)
            print(f"{robot}/{task}", json.dumps(tasks[f"{robot}/{task}"]), file=sys.stderr, flush=True)
    means = {
        drive: round(float(np.mean([each[drive]["microseconds"] for each in tasks.values()])), 1)
        for drive in TIMED
        if drive in options.drives
    }
    result = {
        "what": "processor time of the physics of one control step of one world; other jobs shared the cores",
        **origin(),
        "worlds": options.worlds,
        "mean_microseconds": means,
        "tasks": tasks,
    }
    if options.before is not None:
        result["before"] = json.loads(options.before.read_text(encoding="utf-8"))
    publish(result, options.out)


if __name__ == "__main__":
    main()
