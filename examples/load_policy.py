"""Load the policy of a finished run and use it in worlds of your own.

python examples/load_policy.py RUN
"""

import sys

import polytask

policy = polytask.load_policy(sys.argv[1])  # a run directory, a checkpoint or a policy file; none of its code is run
tasks = list(policy.tasks)

env = polytask.make(tasks=tasks, robot=policy.info.robot, num_envs=4 * len(tasks), stagger=False, seed=100)
for _ in range(env.spec.episode_length):
    env.step(policy(env.obs, env.task))  # noiseless: obs (N, O), task (N,) -> action (N, A)

metrics = env.pop_metrics()
for task, success, episodes in zip(tasks, metrics["success"].tolist(), metrics["episodes"].tolist(), strict=True):
    print(f"{task:16} {success:.0f} of {episodes:.0f} episodes succeeded")
env.close()
