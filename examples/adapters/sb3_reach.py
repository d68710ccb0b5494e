"""Stable-Baselines3's PPO learns reach on the CPU: `python examples/adapters/sb3_reach.py [frames]`."""

import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

import polytask
from polytask.adapters import Sb3Env

FRAMES = int(sys.argv[1]) if len(sys.argv) > 1 else 130_000
torch.set_num_threads(1)

worlds = polytask.make(tasks="reach", num_envs=64, episode_length=100)
env = VecNormalize(VecMonitor(Sb3Env(worlds)), gamma=0.9)  # VecMonitor adds returns and lengths to the log
model = PPO(
    "MlpPolicy", env, n_steps=24, batch_size=384, n_epochs=5, gamma=0.9, learning_rate=2e-3, device="cpu", seed=0
)
model.learn(FRAMES)

# Play an episode in each of 50 new worlds, without noise.
test = Sb3Env(polytask.make(tasks="reach", num_envs=50, episode_length=100, stagger=False, seed=1))
obs, ended = test.reset(), [False]
while not all(ended):
    action, _ = model.predict(env.normalize_obs(obs), deterministic=True)
    obs, _, ended, infos = test.step(action)
print(f"success {sum(info['is_success'] for info in infos) / 50:.2f} after {FRAMES:,} frames")
