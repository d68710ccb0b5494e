"""Roll out a scripted expert in forty worlds of ten tasks, and print how often each task succeeds.

python examples/roll_out.py [steps]
"""

import sys

import polytask
from polytask.envs.scripted import ScriptedPolicy

env = polytask.make("mt10", num_envs=40, stagger=False)  # 4 worlds per task; device="cuda" uses the GPU
policy = ScriptedPolicy(env)

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 150):
    # `step.obs` and the other tensors are yours to keep; with make(copy=False) the next step overwrites them.
    step = env.step(policy(env.obs, env.task))

metrics = env.pop_metrics()  # sums over the episodes that ended, one entry per task
for index, task in enumerate(env.spec.tasks):
    episodes, success = int(metrics["episodes"][index]), float(metrics["success"][index])
    print(f"{task:22} {success:.0f} of {episodes} episodes succeeded")
env.close()
