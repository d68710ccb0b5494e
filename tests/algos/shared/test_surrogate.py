"""The estimate of the divergence; the tests of PPO and GRPO cover losses and acting."""

from __future__ import annotations

import torch
from torch.distributions import Normal, kl_divergence
from torch.testing import assert_close

from polytask.algos.shared.surrogate import divergence


def test_divergence_is_estimated_without_bias_and_never_negative() -> None:
    old, new = Normal(0.0, 1.0), Normal(0.2, 1.1)
    actions = torch.randn(400_000, generator=torch.Generator().manual_seed(0))
    estimate = divergence(new.log_prob(actions) - old.log_prob(actions))
    assert_close(estimate.mean(), kl_divergence(old, new), rtol=0.02, atol=0)
    assert estimate.min() >= 0
