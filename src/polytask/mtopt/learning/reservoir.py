"""Choose which episodes of a log are held in memory, where not all of them fit (MT-Opt's log replay).

Every task has two reservoirs, of its successes and of its failures. All of them get the same number of episodes, as far
as they have so many; so rare successes stay as long as the log has them, however many failures come after them. An
episode is in the reservoirs of all tasks that use it and is held once.

The episodes lie on a circle, each at a place that never changes. A reservoir holds those that follow a starting point,
which moves on with every turn: after enough turns, every episode of the log has been held. The choice depends on the
log and on the turn alone, so a resumed run holds what an uninterrupted one holds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polytask.mtopt.seeds import uniform_hashes


def choose(
    number: NDArray[np.int64],
    frames: NDArray[np.int64],
    verdict: NDArray[np.int8],
    capacity: int,
    *,
    turn: int = 0,
    refresh: float = 0.1,
) -> NDArray[np.bool_]:
    """Return which episodes (E,) are held.

    Args:
        number: (E,) ids.
        frames: (E,) frames of each.
        verdict: (E, K) 1 success, 0 failure, -1 not used, for each task.
        capacity: Frames that can be held.
        turn: How often episodes were replaced before.
        refresh: Share of what a reservoir holds that is replaced in a turn, if it holds a part of its episodes.
    """
    total = int(frames.sum())
    if total <= capacity:
        return np.ones(len(number), bool)
    start = turn * refresh * capacity / total
    order = np.argsort((uniform_hashes(number.tolist(), "reservoir") - start) % 1.0, kind="stable")
    rank = np.full(len(number), len(number))  # best place of an episode in any reservoir that has it
    for task in range(verdict.shape[1]):
        for outcome in (0, 1):
            mine = order[verdict[order, task] == outcome]
            rank[mine] = np.minimum(rank[mine], np.arange(len(mine)))
    first = order[np.argsort(rank[order], kind="stable")]
    held = np.zeros(len(number), bool)
    held[first[frames[first].cumsum() <= capacity]] = True
    return held
