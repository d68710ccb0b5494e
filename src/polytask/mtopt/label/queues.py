"""The order in which a person is asked about episodes: pure functions of labels and probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from polytask.mtopt.detector.labels import is_held_out
from polytask.mtopt.detector.metrics import disagreements, uncertain_first
from polytask.mtopt.seeds import uniform_hash, uniform_hashes

ORDERS = {
    "new": "New",
    "uncertain": "Most uncertain first",
    "likely": "Likely successes first",
    "disagrees": "Disagrees with my label",
}


def shuffled(episodes: NDArray[np.int64], task: str) -> NDArray[np.int64]:
    """Order episodes at random, the same way every time."""
    return episodes[np.argsort(uniform_hashes(episodes, task), kind="stable")]


def training_first(episodes: Iterator[int], share: float, count: int) -> list[int]:
    """Return the first `count` episodes, those that train a detector before those that are kept aside to measure it.

    Within both, the order is that of the episodes, so each remains a random draw if the episodes are in random order.
    """
    trains: list[int] = []
    aside: list[int] = []
    while len(trains) < count and (part := list(islice(episodes, count))):
        held = is_held_out(part, share)
        trains += [one for one in part if one not in held]
        aside += [one for one in part if one in held]
    return [*trains, *aside][:count]


def uncertain(unlabelled: Iterable[int], probability: Mapping[int, float], threshold: float) -> list[int]:
    """Order the episodes that the detector has judged from the least certain to the most certain."""
    judged = sorted(episode for episode in unlabelled if episode in probability)
    order = uncertain_first([probability[episode] for episode in judged], threshold)
    return [judged[place] for place in order.tolist()]


def likely(unlabelled: Iterable[int], probability: Mapping[int, float]) -> list[int]:
    """Order the episodes that the detector has judged from success to failure, to find rare successes."""
    judged = (episode for episode in unlabelled if episode in probability)
    return sorted(judged, key=lambda episode: (-probability[episode], episode))


def disagrees(labels: Mapping[int, bool], probability: Mapping[int, float], threshold: float) -> list[int]:
    """Order the labels that the detector contradicts, the surest verdict first."""
    judged = sorted(episode for episode in labels if episode in probability)
    said = [probability[episode] for episode in judged]
    order = disagreements([float(labels[episode]) for episode in judged], said, threshold)
    return [judged[place] for place in order.tolist()]


def due_again(labels: Iterable[int], task: str, share: float, done: Iterable[int]) -> list[int]:
    """Return the labels to ask about again: a fixed random share, without those that were asked again already."""
    finished = set(done)
    episodes = [episode for episode in labels if episode not in finished]
    chance = uniform_hashes(episodes, f"again {task}")
    return [episodes[place] for place in np.argsort(chance, kind="stable").tolist() if chance[place] < share]


def interleave(items: Sequence[int], again: Sequence[int], count: int) -> list[int]:
    """Insert second questions among `items` at random places; at most one in five, `count` in all."""
    some = list(again[: count // 5])
    mixed = list(items[: max(0, count - len(some))])
    if not mixed:  # without first questions, a person would notice that these are second ones
        return []
    for episode in some:
        mixed.insert(int(uniform_hash(episode, "place") * (len(mixed) + 1)), episode)
    return mixed
