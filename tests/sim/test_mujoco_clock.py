"""MuJoCo's clock: stopped by the first batch, unless the user has installed another one."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own, because the clock is one variable of the process.
STEP = """
import mujoco, torch
from polytask.scenes import compile_scene
from polytask.sim import make_batch
from polytask.sim.mujoco_clock import stop_clock
model = compile_scene("puck", "sawyer.xml")
{first}
{then}
data = mujoco.MjData(model)
mujoco.mj_step(model, data)
print(data.timer[mujoco.mjtTimer.mjTIMER_STEP].number, data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration)
"""


def timed_step(first: str, then: str) -> tuple[int, float]:
    """Return the number of timed steps after one step, and how long it took by MuJoCo's clock."""
    script = STEP.format(first=first, then=then)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    number, seconds = done.stdout.split()
    return int(number), float(seconds)


def test_a_batch_stops_the_clock() -> None:
    assert timed_step("", 'make_batch("cpu", model, 1, torch.device("cpu"))') == (1, 0.0)


def test_the_clock_of_a_user_goes_on() -> None:
    assert timed_step("mujoco.set_mjcb_time(iter(range(10**6)).__next__)", "stop_clock()") >= (1, 1.0)
