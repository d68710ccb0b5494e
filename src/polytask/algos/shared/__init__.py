"""Parts that the algorithms share: rollouts, replay buffer, returns, normalizers and learners."""
