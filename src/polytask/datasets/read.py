"""Read the data sets that `polytask collect` writes, and the training histories of runs.

The code is in `runs/episode_data.py`, because a run may read demonstrations.
"""

from polytask.runs.episode_data import DatasetEpisode, EpisodeDataset, load, load_with, read_index, stream

__all__ = ["DatasetEpisode", "EpisodeDataset", "load", "load_with", "read_index", "stream"]
