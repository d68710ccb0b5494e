"""rsl_rl's PPO learns reach on the CPU: `OMP_NUM_THREADS=1 python examples/adapters/rsl_rl_reach.py`."""

import torch
from rsl_rl.runners import OnPolicyRunner

import polytask
from polytask.adapters import RslRlEnv

torch.manual_seed(0)
net = {"class_name": "MLPModel", "hidden_dims": [64, 64], "obs_normalization": True}
config = {
    "num_steps_per_env": 24,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**net, "distribution_cfg": {"class_name": "GaussianDistribution"}},
    "critic": net,
    "algorithm": {"class_name": "PPO", "gamma": 0.9, "entropy_coef": 0.0, "desired_kl": 0.02},
}
runner = OnPolicyRunner(RslRlEnv(polytask.make(tasks="reach", num_envs=64, episode_length=100)), config)
worlds = polytask.make(tasks="reach", num_envs=50, episode_length=100, stagger=False, seed=1)
test = RslRlEnv(worlds)

for iterations in (0, 85):  # an untrained policy and a trained one
    runner.learn(iterations)
    policy = runner.get_inference_policy()
    with torch.inference_mode():
        for _ in range(100):  # an episode without noise in each of 50 new worlds
            test.step(policy(test.get_observations()))
    success = worlds.pop_metrics()["success"].item() / 50
    print(f"success {success:.2f} after {iterations * 24 * 64:,} frames")
