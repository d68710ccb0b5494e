"""rsl_rl's PPO learns reach on the CPU: `python examples/adapters/rsl_rl_reach.py [frames]`."""

import sys

import torch
from rsl_rl.runners import OnPolicyRunner

import polytask
from polytask.adapters import RslRlEnv

FRAMES = int(sys.argv[1]) if len(sys.argv) > 1 else 130_000
torch.set_num_threads(1)
torch.manual_seed(0)

net = {"class_name": "MLPModel", "hidden_dims": [64, 64], "obs_normalization": True}
config = {
    "num_steps_per_env": 24,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**net, "distribution_cfg": {"class_name": "GaussianDistribution"}},
    "critic": net,
    "algorithm": {"class_name": "PPO", "gamma": 0.9, "entropy_coef": 0.0, "desired_kl": 0.02},
}
env = RslRlEnv(polytask.make(tasks="reach", num_envs=64, episode_length=100))
runner = OnPolicyRunner(env, config)
runner.learn(FRAMES // (24 * 64))

# Play an episode in each of 50 new worlds, without noise.
test = polytask.make(tasks="reach", num_envs=50, episode_length=100, stagger=False, seed=1)
env, policy = RslRlEnv(test), runner.get_inference_policy()
for _ in range(100):
    with torch.inference_mode():
        env.step(policy(env.get_observations()))
print(f"success {test.pop_metrics()['success'].item() / 50:.2f} after {FRAMES:,} frames")
