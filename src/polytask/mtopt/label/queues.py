"""Which episodes a person is asked about next, and in which order: pure functions of labels and probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polytask.mtopt.detector import disagreements, uncertain_first

ORDERS = {
    "new": "New",
    "uncertain": "Most uncertain first",
    "likely": "Likely successes first",
    "disagrees": "Disagrees with my label",
}


def scatter(episode: int, salt: str = "") -> float:
    """Map an episode to a fixed number in [0, 1) that looks random: an order in which neighbours are strangers.

    New episodes fall between the old ones and move none of them, so that a queue keeps its order as the store grows.
    """
    return float(scatter_all([episode], salt)[0])


def scatter_all(episodes: Sequence[int], salt: str = "") -> NDArray[np.float64]:
    """Map many episodes as `scatter` does: a queue is ordered anew for every question, also of a hundred thousand."""
    start = sum(ord(c) * 131**i for i, c in enumerate(salt)) % 2**64
    state = np.array(episodes, np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)  # modulo 2**64
    # The finaliser of SplitMix64.
    state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return (state ^ state >> np.uint64(31)) / 2.0**64


def new(unlabelled: Iterable[int], task: str) -> list[int]:
    """Order what has no label by chance, the same way every time."""
    episodes = list(unlabelled)
    return [episodes[place] for place in np.argsort(scatter_all(episodes, task), kind="stable").tolist()]


def uncertain(unlabelled: Iterable[int], probability: Mapping[int, float], threshold: float) -> list[int]:
    """Order what the detector has judged by how close it is to not knowing."""
    judged = sorted(episode for episode in unlabelled if episode in probability)
    order = uncertain_first([probability[episode] for episode in judged], threshold)
    return [judged[place] for place in order.tolist()]


def likely(unlabelled: Iterable[int], probability: Mapping[int, float]) -> list[int]:
    """Order what the detector has judged from success to failure: rare successes are found this way."""
    judged = (episode for episode in unlabelled if episode in probability)
    return sorted(judged, key=lambda episode: (-probability[episode], episode))


def disagrees(labels: Mapping[int, bool], probability: Mapping[int, float], threshold: float) -> list[int]:
    """Order the labels that the detector contradicts, its surest contradiction first."""
    judged = sorted(episode for episode in labels if episode in probability)
    said = [probability[episode] for episode in judged]
    order = disagreements([float(labels[episode]) for episode in judged], said, threshold)
    return [judged[place] for place in order.tolist()]


def due_again(labels: Iterable[int], task: str, share: float, done: Iterable[int]) -> list[int]:
    """Name the labels to ask about a second time: a fixed share, drawn by chance, less those already asked about."""
    finished = set(done)
    episodes = [episode for episode in labels if episode not in finished]
    chance = scatter_all(episodes, f"again {task}")
    return [episodes[place] for place in np.argsort(chance, kind="stable").tolist() if chance[place] < share]


def interleave(items: Sequence[int], again: Sequence[int], count: int) -> list[int]:
    """Hide second questions among `items` at places that give nothing away; at most one in five, `count` in all."""
    some = list(again[: count // 5])
    mixed = list(items[: max(0, count - len(some))])
    if not mixed:  # nothing to hide among
        return []
    for episode in some:
        mixed.insert(int(scatter(episode, "place") * (len(mixed) + 1)), episode)
    return mixed
