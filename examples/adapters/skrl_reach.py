"""skrl's PPO learns reach on the CPU: `python examples/adapters/skrl_reach.py [frames]`."""

import sys

import torch
from skrl.agents.torch.ppo import PPO
from skrl.memories.torch import RandomMemory
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model

import polytask
from polytask.adapters import SkrlEnv

FRAMES = int(sys.argv[1]) if len(sys.argv) > 1 else 130_000
torch.set_num_threads(1)
torch.manual_seed(0)

env = SkrlEnv(polytask.make(tasks="reach", num_envs=64, episode_length=100))
spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
layers = {"network": [{"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "elu"}]}
models = {"policy": gaussian_model(**spaces, **layers, output="ACTIONS", initial_log_std=0.0)}
models["value"] = deterministic_model(**spaces, **layers, output="ONE")
config = {"rollouts": 24, "learning_epochs": 5, "mini_batches": 4, "discount_factor": 0.9, "learning_rate": 2e-3}
config |= {"observation_preprocessor": RunningStandardScaler, "value_preprocessor": RunningStandardScaler}
config |= {"observation_preprocessor_kwargs": {"size": env.observation_space}, "value_preprocessor_kwargs": {"size": 1}}
config |= {"experiment": {"write_interval": 0, "checkpoint_interval": 0}}
agent = PPO(models=models, memory=RandomMemory(memory_size=24, num_envs=64), cfg=config, **spaces)
SequentialTrainer(env=env, agents=agent, cfg={"timesteps": FRAMES // 64, "disable_progressbar": True}).train()

# Play an episode in each of 50 new worlds, without noise.
test = polytask.make(tasks="reach", num_envs=50, episode_length=100, stagger=False, seed=1)
agent.enable_training_mode(False)
for _ in range(100):
    with torch.no_grad():
        test.step(agent.act(test.obs, None, timestep=0, timesteps=0)[1]["mean_actions"])
print(f"success {test.pop_metrics()['success'].item() / 50:.2f} after {FRAMES:,} frames")
