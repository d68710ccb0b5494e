"""PPO from TorchRL's parts learns reach on the CPU: `python examples/adapters/torchrl_reach.py [frames]`."""

import sys

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.envs import ExplorationType, ObservationNorm, TransformedEnv, set_exploration_type
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import polytask
from polytask.adapters import TorchRLEnv

FRAMES = int(sys.argv[1]) if len(sys.argv) > 1 else 130_000
torch.set_num_threads(1)
torch.manual_seed(0)

worlds = TorchRLEnv(polytask.make(tasks="reach", num_envs=64, episode_length=100))
seen = worlds.rollout(100, break_when_any_done=False)["observation"]  # of random actions, to normalize observations
center, spread = seen.mean((0, 1)), seen.std((0, 1)).clamp(min=0.02)  # some entries are constant
env = TransformedEnv(worlds, ObservationNorm(center, spread, ["observation"], standard_normal=True))
net = torch.nn.Sequential(MLP(39, 4, num_cells=[64, 64]), AddStateIndependentNormalScale(4))
mean = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
actor = ProbabilisticActor(mean, ["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True)
critic = ValueOperator(MLP(39, 1, num_cells=[64, 64]), in_keys=["observation"])
gae = GAE(gamma=0.9, lmbda=0.95, value_network=critic, average_gae=True)
loss = ClipPPOLoss(actor, critic, entropy_coeff=0.0)
optimizer = torch.optim.Adam(loss.parameters(), lr=2e-3)
state = env.reset()
for _ in range(FRAMES // (24 * 64)):
    with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
        steps = []
        for _ in range(24):
            step, state = env.step_and_maybe_reset(actor(state))
            steps.append(step)
        batch = gae(torch.stack(steps, 1))
    for rows in torch.cat([torch.randperm(24 * 64) for _ in range(5)]).split(384):
        values = loss(batch.reshape(-1)[rows])
        optimizer.zero_grad()
        (values["loss_objective"] + values["loss_critic"]).backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
        optimizer.step()

# Play an episode in each of 50 new worlds, without noise.
test = polytask.make(tasks="reach", num_envs=50, episode_length=100, stagger=False, seed=1)
with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
    TransformedEnv(TorchRLEnv(test), env.transform.clone()).rollout(100, actor)
print(f"success {test.pop_metrics()['success'].item() / 50:.2f} after {FRAMES:,} frames")
