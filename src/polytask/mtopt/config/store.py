"""Settings of the episode store."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.settings import setting


@dataclass
class StoreConfig:
    """Settings of how a store writes."""

    fsync: bool = setting(
        True, "wait for the disk before an episode counts; without it a power cut may lose the last episodes"
    )
    compression: int = setting(1, "deflate level of the frames, 1 (fast) to 9 (small)", within=(1, 9))
    shard_bytes: int = setting(256_000_000, "size at which a shard is closed and the next one starts", at_least=1)
    threads: int = setting(1, "threads that compress and decompress several episodes at once", within=(1, 1_024))
    busy_seconds: float = setting(
        60.0, "time to wait for another process that writes to the index, s", within=(0.0, 86_400.0)
    )
