"""Seeds of a run, and fixed numbers for episodes."""

import pytest

from polytask.mtopt.seeds import derive, uniform_hash, uniform_hashes


def test_seeds_for_different_purposes_differ():
    seeds = {derive(seed, word, number) for seed in range(3) for word in ("a", "b") for number in range(10)}
    assert len(seeds) == 60
    assert derive(0, "a", 1) == derive(0, "a", 1)


def test_hashes_are_uniform_and_stay_the_same():
    values = [uniform_hash(episode, "lift-any") for episode in range(10_000)]
    assert values == [uniform_hash(episode, "lift-any") for episode in range(10_000)]
    shares = [sum(low / 10 <= value < (low + 1) / 10 for value in values) / 10_000 for low in range(10)]
    assert shares == pytest.approx([0.1] * 10, abs=0.01)


def test_hashes_have_not_changed_between_versions():
    """Otherwise episodes that measured detectors would train them."""
    assert [uniform_hash(episode, "lift-any") for episode in (0, 1, 99_999)] == [
        0.6321575613430616,
        0.5585101173034057,
        0.146407176236209,
    ]
    episodes = [0, 7, 2**62 + 5, 2**63 - 1]
    assert uniform_hashes(episodes, "a").tolist() == [uniform_hash(episode, "a") for episode in episodes]
