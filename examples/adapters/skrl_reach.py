"""skrl's PPO learns reach on the CPU: `OMP_NUM_THREADS=1 python examples/adapters/skrl_reach.py`."""

import torch
from skrl.utils.runner.torch import Runner

import polytask
from polytask.adapters import SkrlEnv

net = {"network": [{"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "elu"}]}
policy = {"class": "GaussianMixin", **net, "output": "ACTIONS"}
value = {"class": "DeterministicMixin", **net, "output": "ONE"}
normalizers = {"observation_preprocessor": "RunningStandardScaler", "value_preprocessor": "RunningStandardScaler"}
config = {
    "seed": 0,
    "models": {"separate": True, "policy": policy, "value": value},
    "memory": {"class": "RandomMemory", "memory_size": -1},  # as large as a rollout
    "agent": {"class": "PPO", "rollouts": 24, "learning_rate": 2e-3, "discount_factor": 0.9, **normalizers},
    "trainer": {"class": "SequentialTrainer", "headless": True},  # otherwise skrl draws every step
}
runner = Runner(SkrlEnv(polytask.make(tasks="reach", num_envs=64, episode_length=100)), config)
test = polytask.make(tasks="reach", num_envs=50, episode_length=100, stagger=False, seed=1)

for steps in (0, 3000):  # an untrained policy and a trained one
    runner.trainer.cfg.timesteps = steps
    runner.run("train")
    runner.agent.enable_training_mode(False)
    with torch.no_grad():
        for _ in range(100):  # an episode without noise in each of 50 new worlds
            test.step(runner.agent.act(test.obs, None, timestep=0, timesteps=0)[1]["mean_actions"])
    print(f"success {test.pop_metrics()['success'].item() / 50:.2f} after {steps * 64:,} frames")
