"""Load the policy of a finished run and use it in worlds of your own.

python examples/load_policy.py RUN
"""

import sys

import torch

import polytask
from polytask.runs.checkpoint import load
from polytask.runs.setup import load_policy

state = load(sys.argv[1])  # a run directory or a checkpoint file; none of its code is run
tasks, saved = state["spec"]["tasks"], state["config"]

env = polytask.make(tasks=tasks, robot=saved["robot"], num_envs=4 * len(tasks), stagger=False, seed=100)
policy = load_policy(state, env)  # noiseless: obs (N, O), task (N,) -> action (N, A)

with torch.no_grad():
    for _ in range(env.spec.episode_length):
        env.step(policy(env.obs, env.task))

metrics = env.pop_metrics()
for task, success, episodes in zip(tasks, metrics["success"].tolist(), metrics["episodes"].tolist(), strict=True):
    print(f"{task:16} {success:.0f} of {episodes:.0f} episodes succeeded")
env.close()
