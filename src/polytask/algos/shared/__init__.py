"""What the algorithms share: rollouts, replay, returns, normalisers and learners."""
