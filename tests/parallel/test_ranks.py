"""Shares of items, and what a process does that is alone."""

import pytest
import torch

from polytask.errors import UserError
from polytask.parallel.environment import VARIABLES, is_parallel
from polytask.parallel.ranks import ALONE, Ranks, require_rows, share_of


@pytest.mark.parametrize(("count", "size"), [(8, 2), (7, 3), (3, 3), (2, 5)])
def test_shares_are_consecutive_and_differ_by_at_most_one(count, size):
    shares = [share_of(rank, size, count) for rank in range(size)]
    assert [item for share in shares for item in range(count)[share]] == list(range(count))
    lengths = {share.stop - share.start for share in shares}
    assert max(lengths) - min(lengths) <= 1


def test_alone_everything_is_returned_as_it_is():
    rows = torch.rand(3)
    assert ALONE.is_first and ALONE.is_alone and ALONE.is_first_to_fail()
    assert ALONE.sum_(rows) is rows and ALONE.gather(rows) is rows
    assert ALONE.mean(rows, 5) == (rows, 1.0)
    assert ALONE.sum_all([rows]) == [rows] and ALONE.sum_dict({"a": rows}) == {"a": rows}
    assert (ALONE.of_first("a"), ALONE.of_all("a"), ALONE.largest(3)) == ("a", ["a"], 3)
    assert ALONE.share(7) == slice(0, 7)
    assert ALONE.device("cuda:1") == "cuda:1"


def test_every_rank_has_its_own_gpu():
    second = Ranks(5, 8, 1, 4, store=object())
    assert second.device("cuda") == "cuda:1"
    assert second.device("cpu") == "cpu"
    with pytest.raises(UserError, match="device=cuda:3 names one GPU, but there are 8 ranks; use device=cuda"):
        second.device("cuda:3")


def test_an_update_has_a_row_for_every_rank():
    two = Ranks(0, 2, store=object())
    require_rows(two, 2, "use more")
    with pytest.raises(UserError, match="an update has 1 rows per task, too few for 2 ranks; use more"):
        require_rows(two, 1, "use more")


def test_only_torchrun_with_several_processes_is_parallel(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert not is_parallel()
    monkeypatch.setenv("WORLD_SIZE", "2")  # some clusters set it for everything
    assert not is_parallel()
    for name in VARIABLES:
        monkeypatch.setenv(name, "2")
    assert is_parallel()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not is_parallel()
