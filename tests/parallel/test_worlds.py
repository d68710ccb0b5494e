"""The worlds of each rank, and the order in which they are put together."""

import pytest
import torch

from polytask.errors import UserError
from polytask.parallel.ranks import ALONE, Ranks
from polytask.parallel.worlds import WorldShare

CPU = torch.device("cpu")
COUNTS = (3, 5, 4)
SIZE = 3


class Recorded(Ranks):
    """Ranks whose exchange gives what the test has recorded."""

    sent: tuple = ()

    def gather(self, rows):
        self.sent.append(rows)
        return torch.cat(self.sent)


def shares(counts=COUNTS, size=SIZE):
    return [WorldShare(Ranks(rank, size, store=object()), counts, CPU) for rank in range(size)]


def test_every_rank_has_a_part_of_every_task():
    assert [share.envs_per_task for share in shares()] == [(1, 1, 1), (1, 2, 1), (1, 2, 2)]


def test_the_own_worlds_are_consecutive_within_a_task():
    numbers = [share.own(torch.arange(12)).tolist() for share in shares()]
    assert numbers == [[0, 3, 8], [1, 4, 5, 9], [2, 6, 7, 10, 11]]


def test_every_rank_draws_for_all_worlds_and_keeps_its_rows():
    def numbers(count):
        return torch.rand(count, 2, generator=torch.Generator().manual_seed(0))

    alone = WorldShare(ALONE, COUNTS, CPU).draw(numbers)
    for share in shares():
        assert torch.equal(share.draw(numbers), share.own(alone))


@pytest.mark.parametrize("axis", [0, 1])
def test_gathered_rows_are_in_the_order_of_a_single_process(axis):
    everyone = torch.rand(12, 4, 2).movedim(0, axis)
    sent = []
    for rank in range(SIZE):  # the last rank finds the rows of all
        ranks = Recorded(rank, SIZE, store=object())
        object.__setattr__(ranks, "sent", sent)
        share = WorldShare(ranks, COUNTS, CPU)
        own = share.own(everyone.movedim(axis, 0)).movedim(0, axis)
        if rank < SIZE - 1:
            sent.append(torch.cat([own.movedim(axis, 0), torch.zeros(5, *own.movedim(axis, 0).shape[1:])])[:5])
    assert torch.equal(share.gather(own, axis), everyone)


def test_flags_and_numbers_travel_together():
    ranks = Recorded(0, 1, store=object())
    share = WorldShare(ranks, (2, 1), CPU)
    own = (torch.rand(4, 3, 2), torch.rand(4, 3), torch.rand(4, 3) > 0.5)
    everyone = [torch.zeros_like(tensor) for tensor in own]
    object.__setattr__(ranks, "sent", [])
    share.gather_into(everyone, own, axis=1)
    assert all(torch.equal(one, other) for one, other in zip(everyone, own, strict=True))


def test_a_task_with_fewer_worlds_than_ranks_is_refused():
    with pytest.raises(UserError, match="every task needs a world on each of the 3 ranks, but one has only 2 of them"):
        shares((2, 5))
