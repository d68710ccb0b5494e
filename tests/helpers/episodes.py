"""Small episodes whose content follows from their seed, and a process that writes them until it is killed."""

import sys

import numpy as np

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import Episode
from polytask.mtopt.store import EpisodeStore


def make(seed=0, steps=3, size=8, task="lift-any", truth=None, has_pose=True):
    """Make an episode of noise."""
    rng = np.random.default_rng(seed)
    return Episode(
        images=rng.integers(0, 256, (steps + 1, size, size, 3), np.uint8),
        closed=rng.integers(0, 2, steps + 1).astype(np.float32),
        height=rng.random(steps + 1, np.float32),
        actions=rng.uniform(-1, 1, (steps, 8)).astype(np.float32),
        outcome=rng.integers(0, 256, (2, size + 4, size + 4, 3), np.uint8),
        task=task,
        policy="script-1",
        seed=seed,
        truth={"lift-any": True, "lift-can": False} if truth is None else truth,
        pose=rng.random((steps + 1, 3), np.float32) if has_pose else None,
    )


def same(one, other):
    """Compare all but the truth."""
    arrays = ("images", "closed", "height", "actions", "outcome")
    equal = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
    kinds = all(getattr(one, name).dtype == getattr(other, name).dtype for name in arrays)
    if one.pose is None or other.pose is None:
        equal = equal and one.pose is other.pose
    else:
        equal = equal and np.array_equal(one.pose, other.pose)
    return equal and kinds and (one.task, one.policy, one.seed) == (other.task, other.policy, other.seed)


def write(root, name, count, size, at_once):
    """Append episodes and print their ids, once the store has promised them."""
    store = EpisodeStore(root, StoreConfig(fsync=False))
    writer = store.writer(name)
    for first in range(0, count, at_once):
        ids = writer.append_many([make(seed, size=size) for seed in range(first, first + at_once)])
        print(*ids, flush=True)
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], *(int(word) for word in sys.argv[3:]))
