"""Which episodes are held where not all fit."""

import numpy as np
import pytest

from polytask.mtopt.learning import reservoir
from polytask.mtopt.learning.reservoir import Reservoirs
from polytask.mtopt.seeds import uniform_hashes

NUMBER = np.arange(1, 1001)
FRAMES = np.full(1000, 2)


def choose(number, frames, verdict, capacity, **turns):
    held = np.zeros(len(number), bool)
    held[Reservoirs(number, frames, verdict).choose(capacity, **turns)] = True
    return held


def choose_from_all(number, frames, verdict, capacity, turn, refresh):
    """Rank every episode of the log in every reservoir."""
    start = turn * refresh * capacity / frames.sum()
    order = np.argsort((uniform_hashes(number, "reservoir") - start) % 1.0, kind="stable")
    rank = np.full(len(number), len(number))
    for task in range(verdict.shape[1]):
        for outcome in (0, 1):
            mine = order[verdict[order, task] == outcome]
            rank[mine] = np.minimum(rank[mine], np.arange(len(mine)))
    first = order[np.argsort(rank[order], kind="stable")]
    held = np.zeros(len(number), bool)
    held[first[frames[first].cumsum() <= capacity]] = True
    return held


def verdicts(*columns):
    return np.stack(columns, 1).astype(np.int8)


def test_everything_is_held_where_it_fits():
    assert choose(NUMBER, FRAMES, verdicts(NUMBER % 2), 2000).all()


def test_every_reservoir_gets_the_same_number_of_episodes():
    one, other = NUMBER % 2, np.where(NUMBER % 50 == 0, 1, -1)  # 500 of each; 20 successes of the rare task
    held = choose(NUMBER, FRAMES, verdicts(one, other), 240)
    assert held.sum() == 120
    assert (other[held] == 1).sum() == 20, "all of the rare ones"
    assert abs((one[held] == 1).sum() - (one[held] == 0).sum()) <= 20


def test_the_choice_does_not_depend_on_the_order_of_the_log():
    table = verdicts(NUMBER % 2, NUMBER % 3 - 1)
    shuffled = np.random.default_rng(0).permutation(1000)
    one, other = choose(NUMBER, FRAMES, table, 300), choose(NUMBER[shuffled], FRAMES, table[shuffled], 300)
    assert set(NUMBER[one]) == set(NUMBER[shuffled][other])


def test_long_episodes_take_their_room():
    frames = np.where(NUMBER % 2 == 0, 10, 2)
    held = choose(NUMBER, frames, verdicts(np.zeros(1000)), 500)
    assert 490 <= frames[held].sum() <= 500


def test_turns_move_on_by_a_share_of_what_is_held():
    table = verdicts(np.zeros(1000))
    first, second = (choose(NUMBER, FRAMES, table, 400, turn=turn, refresh=0.25) for turn in (0, 1))
    assert 30 <= (second & ~first).sum() <= 70  # about a quarter of the 200


@pytest.mark.parametrize("first_look", [1, 7, 1024])
def test_a_look_at_the_next_episodes_gives_what_a_look_at_all_gives(monkeypatch, first_look):
    monkeypatch.setattr(reservoir, "_FIRST_LOOK", first_look)
    rng = np.random.default_rng(3)
    table = rng.choice([-1, 0, 0, 0, 1], (1000, 4)).astype(np.int8)
    table[:, 0] = rng.choice([0, 0, 0, 0, 1], 1000)  # some task uses every episode
    frames = rng.integers(2, 9, 1000)
    log = Reservoirs(NUMBER, frames, table)
    for turn in range(0, 60, 7):
        for capacity in (8, 100, 1500, int(frames.sum()) - 1):
            wanted = choose_from_all(NUMBER, frames, table, capacity, turn, 0.3)
            assert (log.choose(capacity, turn=turn, refresh=0.3) == np.flatnonzero(wanted)).all()
