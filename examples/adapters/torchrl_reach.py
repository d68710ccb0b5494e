"""PPO from TorchRL's parts learns reach on the CPU: `OMP_NUM_THREADS=1 python examples/adapters/torchrl_reach.py`."""

import torch
from torchrl.envs import ExplorationType, ObservationNorm, set_exploration_type
from torchrl.modules import MLP, IndependentNormal, NormalParamExtractor, ProbabilisticActor, SafeModule, ValueOperator
from torchrl.objectives import ClipPPOLoss

import polytask
from polytask.adapters import TorchRLEnv

torch.manual_seed(0)
env = TorchRLEnv(polytask.make(tasks="reach", num_envs=64, episode_length=100, stagger=False))
env = env.append_transform(ObservationNorm(in_keys=["observation"], standard_normal=True, eps=0.02))
env.transform.init_stats(100, reduce_dim=(0, 1), cat_dim=1)  # from an episode of random actions in each world
net = torch.nn.Sequential(MLP(39, 8, num_cells=[64, 64]), NormalParamExtractor())
normal = SafeModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
actor = ProbabilisticActor(normal, ["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True)
loss = ClipPPOLoss(actor, ValueOperator(MLP(39, 1, num_cells=[64, 64])), entropy_coeff=0.0)
loss.make_value_estimator(gamma=0.9, lmbda=0.95, average_gae=True)
optimizer = torch.optim.Adam(loss.parameters(), lr=2e-3)
for frames in range(0, 130_000, 64 * 100):
    with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
        batch = env.rollout(100, actor)  # an episode in each world, with other goals every time
    print(f"success {batch['next', 'success'].any(1).float().mean():.2f} after {frames:,} frames")
    loss.value_estimator(batch)
    for rows in torch.cat([torch.randperm(64 * 100) for _ in range(5)]).split(400):
        losses = loss(batch.reshape(-1)[rows])
        optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        optimizer.step()
