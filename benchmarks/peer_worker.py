"""The peer's side of the comparisons; runs in Meta-World's own environment and needs nothing of polytask.

Questions come as JSON lines on stdin, answers go as JSON lines to stdout. After `open`, actions are asked for in
binary: `count` observations of 39 float32 each in, as many actions of 4 float32 out, until a row of NaN closes.
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
    """Answers questions, one method each."""

    def __init__(self, questions: BinaryIO, answers: BinaryIO) -> None:
        self.questions, self.answers = questions, answers
        self.vector_env: Any = None

    def run(self) -> None:
        """Answer until stdin is closed."""
        methods = {"versions": self.versions, "speed": self.speed, "open": self.open, "own": self.own}
        while line := self.questions.readline():
            question = json.loads(line)
            methods[question.pop("ask")](**question)
        if self.vector_env is not None:
            self.vector_env.close()

    def answer(self, content: dict[str, Any]) -> None:
        """Send one line."""
        self.answers.write(json.dumps(content).encode() + b"\n")
        self.answers.flush()

    def versions(self) -> None:
        """Tell what the peer consists of."""
        self.answer({package: version(package) for package in ("metaworld", "gymnasium", "mujoco", "numpy")})

    def speed(self, name: str, steps: int) -> None:
        """Time random actions in the peer's vector environment, one process per task, as its users run it."""
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
        """Tell the random vectors of the peer's goals, then choose actions for observations of that many worlds."""
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
        """Drive the peer's own environment with its own policy; an episode ends with its first success."""
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
    """Return the peer's goals of a task."""
    return list(metaworld.MT1(task + SUFFIX, seed=seed).train_tasks[:goals])


def decode(task: Any) -> dict[str, Any]:
    """Unpack what a peer's goal consists of."""
    content: dict[str, Any] = pickle.loads(task.data)
    return content


if __name__ == "__main__":
    # Whatever a library prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Worker(sys.stdin.buffer, answers).run()
