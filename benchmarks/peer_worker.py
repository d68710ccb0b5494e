"""The peer's side of the comparisons. It runs in Meta-World's virtual environment and does not need polytask.

Questions are JSON lines on stdin, answers are JSON lines on stdout. After `open`, the exchange is binary: the input is
one observation of 39 float32 per goal, the output one action of 4 float32 per goal. A NaN ends the exchange.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from importlib.metadata import version
from typing import Any, BinaryIO

import gymnasium
import metaworld
import numpy as np
from metaworld.policies import ENV_POLICY_MAP

OBS, ACTIONS = 39, 4
SUFFIX = "-v3"


class Worker:
    """Answer questions. Each kind of question has a method."""

    def __init__(self, questions: BinaryIO, answers: BinaryIO) -> None:
        self.questions, self.answers = questions, answers
        self.vector_env: Any = None

    def run(self) -> None:
        """Answer questions until stdin is closed."""
        methods = {"versions": self.versions, "speed": self.speed, "open": self.open, "own": self.own}
        while line := self.questions.readline():
            question = json.loads(line)
            methods[question.pop("ask")](**question)
        if self.vector_env is not None:
            self.vector_env.close()

    def answer(self, content: dict[str, Any]) -> None:
        """Send one answer."""
        self.answers.write(json.dumps(content).encode() + b"\n")
        self.answers.flush()

    def versions(self) -> None:
        """Answer with the versions of the peer's packages."""
        self.answer({package: version(package) for package in ("metaworld", "gymnasium", "mujoco", "numpy")})

    def speed(self, name: str, steps: int) -> None:
        """Measure the time of random actions in Meta-World's vector environment, with one process per task."""
        if self.vector_env is None:
            self.vector_env = gymnasium.make_vec(name, vector_strategy="async", seed=0)
            self.vector_env.reset(seed=0)
        count = self.vector_env.num_envs
        actions = np.random.default_rng(0).uniform(-1, 1, (16, count, ACTIONS)).astype(np.float32)
        begin = time.perf_counter()
        for index in range(steps):
            self.vector_env.step(actions[index % len(actions)])
        self.answer({"num_envs": count, "frames": steps * count, "seconds": time.perf_counter() - begin})

    def open(self, task: str, goals: int, seed: int) -> None:
        """Answer with the random vectors of the goals, then return actions for observations of one world per goal."""
        vectors = [decode(each)["rand_vec"].tolist() for each in goals_of(task, goals, seed)]
        self.answer({"vectors": vectors})
        policies = [ENV_POLICY_MAP[task + SUFFIX]() for _ in range(goals)]
        while True:
            data = self.questions.read(goals * OBS * 4)
            obs = np.frombuffer(data, np.float32).reshape(goals, OBS).astype(np.float64)
            if np.isnan(obs[0, 0]):
                return
            actions = [policy.get_action(row) for policy, row in zip(policies, obs, strict=True)]
            self.answers.write(np.clip(actions, -1.0, 1.0).astype(np.float32).tobytes())
            self.answers.flush()

    def own(self, task: str, goals: int, seed: int, steps: int) -> None:
        """Run the peer's policy in the peer's environment. An episode ends at its first success."""
        env = metaworld.MT1(task + SUFFIX, seed=seed).train_classes[task + SUFFIX]()
        policy = ENV_POLICY_MAP[task + SUFFIX]()
        first = []
        for goal in goals_of(task, goals, seed):
            env.set_task(goal)
            obs, _ = env.reset()
            first.append(-1)
            for step in range(steps):
                obs, _, _, _, info = env.step(np.clip(policy.get_action(obs), -1.0, 1.0))
                if info["success"]:
                    first[-1] = step
                    break
        env.close()
        self.answer({"first": first})


def goals_of(task: str, goals: int, seed: int) -> list[Any]:
    """Return Meta-World's goals of a task."""
    return list(metaworld.MT1(task + SUFFIX, seed=seed).train_tasks[:goals])


def decode(task: Any) -> dict[str, Any]:
    """Decode the content of a goal of Meta-World."""
    content: dict[str, Any] = pickle.loads(task.data)
    return content


if __name__ == "__main__":
    # Output of libraries must not mix with the answers, so stdout becomes stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Worker(sys.stdin.buffer, answers).run()
