"""The peer's side of the comparisons: the worker of `polytask eval env=metaworld`, with questions of the benchmarks.

It runs in Meta-World's virtual environment and does not need polytask. Its argument is the folder of that worker. After
`experts`, the exchange is binary: the input is one observation of 39 float32 per goal, the output one action of 4
float32 per goal. A NaN ends the exchange.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import gymnasium
import numpy as np
from metaworld.policies import ENV_POLICY_MAP

sys.path.insert(0, sys.argv[1])
from worker import ACTIONS, OBS, SUFFIX, Worker, goals_of, main, vector_of


class BenchmarkWorker(Worker):
    """Measure speed, and run Meta-World's own policies, in our worlds and in Meta-World."""

    vector_env: Any = None

    def run(self) -> None:
        """Answer questions until stdin is closed."""
        super().run()
        if self.vector_env is not None:
            self.vector_env.close()

    def on_speed(self, name: str, steps: int) -> dict[str, Any]:
        """Measure the time of random actions in Meta-World's vector environment, with one process per task."""
        if self.vector_env is None:
            self.vector_env = gymnasium.make_vec(name, vector_strategy="async", seed=0)
            self.vector_env.reset(seed=0)
        count = self.vector_env.num_envs
        actions = np.random.default_rng(0).uniform(-1, 1, (16, count, ACTIONS)).astype(np.float32)
        begin = time.perf_counter()
        for index in range(steps):
            self.vector_env.step(actions[index % len(actions)])
        return {"num_envs": count, "frames": steps * count, "seconds": time.perf_counter() - begin}

    def on_experts(self, task: str, goals: int, seed: int) -> None:
        """Answer with the random vectors of the goals, then return actions for observations of one world per goal."""
        self.answer({"vectors": [vector_of(goal) for goal in goals_of(task, goals, seed)[1]]})
        policies = [ENV_POLICY_MAP[task + SUFFIX]() for _ in range(goals)]
        while True:
            data = self.questions.read(goals * OBS * 4)
            obs = np.frombuffer(data, np.float32).reshape(goals, OBS).astype(np.float64)
            if np.isnan(obs[0, 0]):
                return
            actions = [policy.get_action(row) for policy, row in zip(policies, obs, strict=True)]
            self.send(np.clip(actions, -1.0, 1.0).astype(np.float32).tobytes())

    def on_own(self, task: str, goals: int, seed: int, steps: int) -> dict[str, Any]:
        """Run the peer's policy in the peer's environment. An episode ends at its first success."""
        kind, tasks = goals_of(task, goals, seed)
        env, policy = kind(), ENV_POLICY_MAP[task + SUFFIX]()
        first = []
        for goal in tasks:
            env.set_task(goal)
            obs, _ = env.reset()
            first.append(-1)
            for step in range(steps):
                obs, _, _, _, info = env.step(np.clip(policy.get_action(obs), -1.0, 1.0))
                if info["success"]:
                    first[-1] = step
                    break
        env.close()
        return {"first": first}


if __name__ == "__main__":
    main(BenchmarkWorker)
