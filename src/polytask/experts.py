"""Drive an environment with the tasks' scripted experts."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.env import MultiTaskEnv
from polytask.tasks.task import Look


class ScriptedPolicy:
    """The scripted experts of all tasks of an environment, as one policy."""

    def __init__(self, env: MultiTaskEnv) -> None:
        """Remember which expert drives which rows."""
        self._experts = [task.expert for task in env.config.tasks]
        self._counts = list(env.spec.envs_per_task)

    def __call__(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions (N, A) for observations of the environment this policy was made for."""
        parts = obs.split(self._counts)
        return torch.cat([expert(Look.of(part)) for expert, part in zip(self._experts, parts, strict=True)])


if __name__ == "__main__":
    import importlib, sys
    from polytask.env import EnvConfig
    from polytask.robots import ROBOTS
    for name in sys.argv[1:]:
        t = importlib.import_module("polytask.tasks.manipulation." + name.replace("-", "_")).TASK
        env = MultiTaskEnv(EnvConfig((t,), (50,), ROBOTS["sawyer"], "cpu", torch.device("cpu"), episode_length=500, stagger=False))
        policy = ScriptedPolicy(env)
        first = torch.full((50,), -1)
        for step in range(500):
            s = env.step(policy(env.obs, env.task))
            first = torch.where((first < 0) & s.success, step, first)
        m = env.pop_metrics()
        ok = first >= 0
        print(name, "success", float(m["success"]) / 50, "at end", float(m["success_at_end"]) / 50, "mean first", float(first[ok].float().mean()), "return", float(m["return"]) / 50, "failed vectors", env.groups[0].tasks[0].state.vector[~ok].tolist()[:0], "diverged", float(m["diverged"]), flush=True)
