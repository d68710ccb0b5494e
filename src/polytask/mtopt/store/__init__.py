"""Keep every episode ever collected, and every verdict on it."""

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.store.check import StoreReport, Tail
from polytask.mtopt.store.index import EpisodeRow
from polytask.mtopt.store.store import EpisodeStore, uploaded
from polytask.mtopt.store.writer import ShardWriter

__all__ = ["EpisodeRow", "EpisodeStore", "ShardWriter", "StoreConfig", "StoreReport", "Tail", "uploaded"]
