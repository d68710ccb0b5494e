"""The training history: the episodes of some worlds, from the first to the last, kept as a data set beside the run."""
