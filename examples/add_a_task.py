"""Add a manipulation task without editing polytask: python examples/add_a_task.py"""

from torch import Tensor

import polytask
from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.expert import act
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Start, Task
from polytask.envs.scripted import ScriptedPolicy
from polytask.sim.geometry import distance


def place(vector: Tensor) -> Placement:  # where a reset puts things, from random vectors (N, 3)
    return Placement(target=offset(vector, z=0.2), obj_init=vector, joints={"obj": vector})


def reward(s: State) -> tuple[Tensor, Tensor]:  # reward (N,) and success (N,)
    gap = distance(s.hand, s.target)
    return 10 * tolerance(gap, 0.0, 0.03, margin=0.3), gap < 0.03


def expert(look: Look) -> Tensor:  # action (N, 4) from what an observation shows
    return act(look.hand, look.goal, gain=10.0, effort=0.0)


words = {"summary": "Hold the hand above the puck.", "success_rule": "hand within 3 cm of the goal"}
start = Start(low=(-0.1, 0.6, 0.02), high=(0.1, 0.7, 0.02), place=place)  # low, high: range of the random vector
hover = Task(
    name="hover", start=start, scene="puck", slots=free_object_slots_xyzw, reward=reward, expert=expert, **words
)

env = polytask.make(tasks=[hover], num_envs=8, stagger=False)  # register_task(hover) makes it known by its name
policy = ScriptedPolicy(env)
for _ in range(150):
    env.step(policy(env.obs, env.task))
print(f"hover: the expert succeeds in {env.pop_metrics()['success'].item():.0f} of 8 worlds")
