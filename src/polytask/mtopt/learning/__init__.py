"""Q-learning from stored episodes."""
