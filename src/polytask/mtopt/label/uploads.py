"""Uploaded example pictures, stored as episodes without actions whose views have the shape of all others."""

from __future__ import annotations

from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.label.pictures import UploadLimits, decode, views
from polytask.mtopt.store import EpisodeStore, ShardWriter, episode_of_pictures


class Uploads:
    """Checks pictures and appends them to a store; for one thread at a time."""

    def __init__(self, store: EpisodeStore, config: LabelConfig) -> None:
        self.store = store
        self.config = config
        self.limits = UploadLimits(config.max_upload_bytes, config.max_upload_pixels)
        self._writer: ShardWriter | None = None
        self._known: tuple[int, tuple[int, int]] | None = None  # shape of the episodes that a robot made

    def add(self, task: str, data: bytes) -> int:
        """Store a picture as the outcome of an episode of a task and return the episode's id.

        Raises:
            UserError: If the picture is refused.
        """
        outcome = views(decode(data, self.limits), *self.shape())
        if self._writer is None:
            self._writer = self.store.writer("upload")
        return self._writer.append(episode_of_pictures(outcome, task))

    def close(self) -> None:
        """Complete the shard of the pictures."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def shape(self) -> tuple[int, tuple[int, int]]:
        """Return the number, and height and width, of the views of the store's episodes; else the configured ones."""
        if self._known is None:
            number = self.store.first_made()
            if number is None:
                height = self.config.outcome_size
                return self.config.views, (height, self.config.outcome_width or height)
            count, height, width = self.store.outcome(number).shape[:3]
            self._known = count, (height, width)
        return self._known
