"""The episode store: every collected episode, and every verdict on it."""

from polytask.mtopt.store.check import StoreReport, Tail
from polytask.mtopt.store.index import Commanded, DamagedIndexError, EpisodeRow
from polytask.mtopt.store.store import EpisodeStore, episode_of_pictures
from polytask.mtopt.store.writer import ShardWriter

__all__ = [
    "Commanded",
    "DamagedIndexError",
    "EpisodeRow",
    "EpisodeStore",
    "ShardWriter",
    "StoreReport",
    "Tail",
    "episode_of_pictures",
]
