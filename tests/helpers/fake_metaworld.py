"""A stand-in for Meta-World, to run the real worker without the package: an environment that shows what it was told.

Observation: task number, goal number, steps since the reset, the last action, zeros. Reward: the steps since the reset.
Success: at the second step of odd goals, and after the environment's own time limit of 4 steps never.
"""

import sys
from pathlib import Path

MODULE = """
import os, pickle, sys
from types import SimpleNamespace

TASKS = ("reach-v3", "drawer-close-v3", "push-v3")
WIDTHS = (6, 3, 6)
print("libraries print")  # must not mix with the answers

class Env:
    max_path_length = 4

    def __init__(self, number):
        self.number = number

    def set_task(self, task):
        self.goal, self.steps = pickle.loads(task.data)["number"], None

    def reset(self):
        self.steps = 0
        return self.row([0, 0, 0, 0]), {}

    def row(self, action):
        return [self.number, self.goal, self.steps, *action, *[0.0] * 32]

    def step(self, action):
        assert self.steps < self.max_path_length, "reset first"
        self.steps += 1
        if os.environ.get("FAKE_DEATH") == str(self.steps):
            sys.exit("MuJoCo is sad")
        info = {"success": float(self.goal % 2 == 1 and self.steps == 2)}
        return self.row(action), float(self.steps), False, False, info

class MT1:
    def __init__(self, name, seed):
        if name not in TASKS:
            raise ValueError(f"{name} is not a V3 environment")
        number = TASKS.index(name)
        self.train_classes = {name: lambda: Env(number)}
        vector = [0.0, 0.6, 0.02, 0.05, 0.8, 0.1][:WIDTHS[number]]
        self.train_tasks = []
        for goal in range(50):
            data = {"number": goal + 100 * seed, "rand_vec": [vector[0] + 0.001 * goal, *vector[1:]]}
            self.train_tasks.append(SimpleNamespace(data=pickle.dumps(data)))
"""


def interpreter(folder: Path) -> str:
    """Make a command in a folder that runs this Python with the stand-in, and return its path."""
    packages = folder / "packages"
    (packages / "metaworld-0.0.dist-info").mkdir(parents=True)
    (packages / "metaworld-0.0.dist-info" / "METADATA").write_text("Name: metaworld\nVersion: 0.0\n")
    (packages / "metaworld.py").write_text(MODULE)
    command = folder / "python"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} "$@"\n')
    command.chmod(0o755)
    return str(command)
