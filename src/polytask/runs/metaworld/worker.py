"""A process with the original Meta-World. It runs as a script, in an interpreter that has metaworld but not polytask.

Questions are JSON lines on stdin, answers are JSON lines on stdout. After the question `play` the exchange is binary,
one message per control step for all tasks: in come actions (K, 4), out go observation, reward and success (K, 41), all
float32. The first message out has the observations after the reset. After the last
step, or actions with a NaN, questions follow again.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from importlib.metadata import version
from typing import Any, BinaryIO

import numpy as np

OBS, ACTIONS = 39, 4
COLUMNS = OBS + 2  # what a step returns: observation, reward, success
SUFFIX = "-v3"
MT1_GOALS = 50  # of one seed
SEEDS = 2**32  # NumPy's seeds are smaller


class Worker:
    """Answer questions. The method `on_<question>` returns the answer, or None after a binary exchange.

    A question that fails ends the process; the last line of its stderr then tells the cause.
    """

    def __init__(self, questions: BinaryIO, answers: BinaryIO) -> None:
        self.questions, self.answers = questions, answers
        self.envs: list[Any] = []  # one per task
        self.goals: list[list[Any]] = []  # of each task
        self.steps = 0

    def run(self) -> None:
        """Answer questions until stdin is closed."""
        while line := self.questions.readline():
            question = json.loads(line)
            answer = getattr(self, "on_" + question.pop("ask"))(**question)
            if answer is not None:
                self.answer(answer)

    def answer(self, content: dict[str, Any]) -> None:
        """Send one answer."""
        self.send(json.dumps(content).encode() + b"\n")

    def send(self, data: bytes) -> None:
        """Send bytes at once."""
        self.answers.write(data)
        self.answers.flush()

    def on_versions(self) -> dict[str, str]:
        """Return the versions of Meta-World and of what it needs."""
        import metaworld  # noqa: F401  an installation that cannot be imported is found here

        return {package: version(package) for package in ("metaworld", "gymnasium", "mujoco", "numpy")}

    def on_open(self, tasks: list[str], episodes: int, seed: int, steps: int) -> dict[str, Any]:
        """Build the environments of some tasks, draw a goal per episode, and return the goals' random vectors."""
        vectors = []
        self.steps = steps
        for task in tasks:
            kind, goals = goals_of(task, episodes, seed)
            env = kind()
            env.max_path_length = max(steps, env.max_path_length)  # beyond it, a step is refused
            self.envs.append(env)
            self.goals.append(goals)
            vectors.append([vector_of(goal) for goal in goals])
        return {"vectors": vectors}

    def on_play(self, episode: int) -> None:
        """Play one episode of every task, with actions that come over the pipe."""
        rows = np.zeros((len(self.envs), COLUMNS), np.float32)
        for row, env, goals in zip(rows, self.envs, self.goals):  # noqa: B905  this interpreter may be old
            env.set_task(goals[episode])
            row[:OBS], _ = env.reset()
        self.send(rows.tobytes())
        for _ in range(self.steps):
            data = self.questions.read(4 * ACTIONS * len(rows))
            if not data:  # whoever asked has stopped
                return
            actions = np.frombuffer(data, np.float32).reshape(-1, ACTIONS)
            if np.isnan(actions).any():
                return
            for row, env, action in zip(rows, self.envs, np.clip(actions, -1.0, 1.0)):  # noqa: B905
                row[:OBS], row[OBS], _, _, info = env.step(action)
                row[OBS + 1] = info["success"]
            self.send(rows.tobytes())


def goals_of(task: str, count: int, seed: int) -> tuple[Any, list[Any]]:
    """Return the class of a task and Meta-World's goals of it: those of MT1(seed), then of MT1(seed + 1), and so on."""
    import metaworld

    name, goals, kind = task + SUFFIX, [], None
    for number in range(-(-count // MT1_GOALS)):
        benchmark = metaworld.MT1(name, seed=(seed + number) % SEEDS)
        kind = benchmark.train_classes[name]
        goals += benchmark.train_tasks
    return kind, goals[:count]


def vector_of(goal: Any) -> list[float]:
    """Return the random vector of a goal, which fixes the start of the objects and the target."""
    return [float(number) for number in pickle.loads(goal.data)["rand_vec"]]


def main(kind: type[Worker]) -> None:
    """Run a worker on this process's stdin and stdout."""
    # Output of libraries must not mix with the answers, so stdout becomes stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    kind(sys.stdin.buffer, answers).run()


if __name__ == "__main__":
    main(Worker)
