"""Which episodes are held where not all fit."""

import numpy as np

from polytask.mtopt.learning.reservoir import choose

NUMBER = np.arange(1, 1001)
FRAMES = np.full(1000, 2)


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
