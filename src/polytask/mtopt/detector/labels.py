"""The labels of a store that train and measure detectors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence

from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.seeds import uniform_hashes
from polytask.mtopt.store import EpisodeStore

TEACHERS = ("oracle", "person")  # sources whose labels train detectors; a person outranks the stand-in
Labels = Mapping[str, Mapping[int, bool]]  # task -> episode -> success


def labels_by_task(store: EpisodeStore, sources: Sequence[str] = TEACHERS) -> dict[str, dict[int, bool]]:
    """Return the labels that count, by task; where two sources labelled an episode, the later source counts.

    Without `sources`, these are the labels of people and of their stand-in: every detector of a store learns from them.
    """
    found: dict[str, dict[int, bool]] = {}
    for source in sources:
        for label in store.labels(source=source):
            found.setdefault(label.task, {})[label.episode] = label.value > 0.5
    return found


def teachable(labels: Labels) -> tuple[str, ...]:
    """Return the tasks that labels can teach a detector: those with at least one success and one failure."""
    return tuple(task for task, each in labels.items() if set(each.values()) == {True, False})


def lacking(learned: Mapping[int, bool], held: Mapping[int, bool]) -> str | None:
    """Say which kind of labels of a task is missing among those that train; None if they teach it.

    Args:
        learned: Labels of the task that train, by episode.
        held: Those that are kept aside to measure.
    """
    train, measure = ((sum(part.values()), len(part) - sum(part.values())) for part in (learned, held))
    counts = (
        f"{train[0]} successes and {train[1]} failures train a detector, {measure[0]} and {measure[1]} only measure it"
    )
    missing = [(word, measure[place]) for place, word in enumerate(("success", "failure")) if not train[place]]
    if not missing:
        return None
    word, kept = max(missing, key=lambda one: one[1])
    if not kept:
        return f"no {word} of it is labelled; label more ({counts})"
    noun = {"success": "successes", "failure": "failures"}[word]
    which = f"its {kept} {noun} are all" if kept > 1 else f"its only {word} is"
    return f"{which} kept aside to measure; label more ({counts})"


def is_held_out(episodes: Sequence[int], share: float) -> set[int]:
    """Return which episodes only measure detectors: a share of all, fixed for ever."""
    chance = uniform_hashes(list(episodes), "held out").tolist()
    return {episode for episode, lot in zip(episodes, chance, strict=True) if lot < share}


def kept_aside(count: float) -> int:
    """Return how many of some labels that are drawn at random only measure detectors, on average."""
    return round(MEASURED * count)


def fewest(drawn: Callable[[int], float], least: int) -> int:
    """Return the smallest number of labels of which at least `least` measure a detector.

    Args:
        drawn: Returns how many of some labels are drawn at random.
        least: How many must measure it.
    """
    return next(count for count in itertools.count() if kept_aside(drawn(count)) >= least)


def split(
    labels: Labels, share: float, examples: Collection[int] = ()
) -> tuple[dict[str, dict[int, bool]], dict[str, dict[int, bool]]]:
    """Divide labels into those that train a detector and a share that measures it.

    An episode is on the same side for every task and for every later detector, so no detector is measured on an episode
    that trained it or one before it. Uploaded examples always train: somebody chose them, so they measure nothing.

    Args:
        labels: By task and episode.
        share: Of the episodes that measure.
        examples: Uploaded ones.
    """
    learned: dict[str, dict[int, bool]] = {}
    held: dict[str, dict[int, bool]] = {}
    for task, values in labels.items():
        aside = is_held_out(list(values), share).difference(examples)
        learned[task] = {episode: value for episode, value in values.items() if episode not in aside}
        held[task] = {episode: value for episode, value in values.items() if episode in aside}
    return learned, held


def stand_in_counts(store: EpisodeStore, learned: Labels) -> dict[str, int]:
    """Count, by task, the labels that only the stand-in gave; they are never counted as a person's."""
    people = labels_by_task(store, ("person",))
    return {task: sum(one not in people.get(task, {}) for one in values) for task, values in learned.items()}
