"""What the algorithms share: rollouts, replay, returns, normalizers and learners."""
