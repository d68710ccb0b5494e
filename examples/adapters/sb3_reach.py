"""Stable-Baselines3's PPO learns reach on the CPU: `OMP_NUM_THREADS=1 python examples/adapters/sb3_reach.py`."""

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

import polytask
from polytask.adapters import Sb3Env

worlds = polytask.make(tasks="reach", num_envs=64, episode_length=100)
env = VecNormalize(VecMonitor(Sb3Env(worlds)), gamma=0.9)  # VecMonitor adds returns and lengths to the log
sizes = {"n_steps": 24, "batch_size": 384, "n_epochs": 5}
model = PPO("MlpPolicy", env, gamma=0.9, learning_rate=2e-3, device="cpu", seed=0, **sizes)
test = Sb3Env(polytask.make(tasks="reach", num_envs=50, episode_length=100, stagger=False, seed=1))

for frames in (0, 130_000):  # an untrained policy and a trained one
    model.learn(frames)
    obs = test.reset()
    for _ in range(100):  # an episode without noise in each of 50 new worlds
        action, _ = model.predict(env.normalize_obs(obs), deterministic=True)
        obs, _, _, infos = test.step(action)
    success = sum(info["is_success"] for info in infos) / 50
    print(f"success {success:.2f} after {frames:,} frames")
