"""The processes that train one policy together. Each is a *rank*; torchrun starts them and numbers them from 0.

Tensors on a GPU travel by NCCL, tensors and objects on the CPU by gloo. A process that is alone skips every exchange:
each method then returns its argument. A captured graph may contain `sum_`, `mean` and `gather` of GPU tensors. The
other methods wait for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from polytask.errors import UserError
from polytask.parallel.environment import is_parallel, number

Value = TypeVar("Value")

# The other ranks wait while rank 0 evaluates or writes a video, which can take longer than torch's ten minutes.
TIMEOUT = timedelta(days=7)
# Keys of the store: the numbers of ranks that have failed and that are done, and whether all are done.
FAILURES, LEAVING, ALL_LEFT = "polytask/failures", "polytask/leaving", "polytask/all_left"
# torch 2.13 renamed this function.
_all_gather: Callable[[Tensor, Tensor], Any] = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)


class LostRankError(UserError):
    """Another rank has ended."""


@dataclass(frozen=True)
class Ranks:
    """This process among all ranks.

    Attributes:
        rank: Number of this process. Rank 0 prints, writes files and evaluates.
        size: Number of ranks.
        local_rank: Number of this process on its machine.
        local_size: Number of ranks on this machine.
        store: Small shared memory of the ranks; None in a process that is alone.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    store: Store | None = None

    @property
    def is_alone(self) -> bool:
        """Whether there is nothing to exchange."""
        return self.store is None

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def device(self, name: str) -> str:
        """Return the device of this rank: `cuda` means one GPU per rank."""
        if self.is_alone or not name.startswith("cuda"):
            return name
        if name != "cuda":
            raise UserError(f"device={name} names one GPU, but there are {self.size} ranks; use device=cuda")
        return f"cuda:{self.local_rank}"

    def share(self, count: int) -> slice:
        """Return the part of `count` items that this rank owns; the sizes of the parts differ by at most one."""
        return share_of(self.rank, self.size, count)

    # Tensors

    def sum_(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over the ranks, in place."""
        if not self.is_alone:
            with _contact():
                dist.all_reduce(tensor)
        return tensor

    def sum_all(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Add up many tensors of one type over the ranks in a single exchange; return new tensors."""
        if self.is_alone or not tensors:
            return tensors
        flat = self.sum_(torch.cat([tensor.reshape(-1) for tensor in tensors]))
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def sum_dict(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add up named tensors over the ranks in a single exchange."""
        return dict(zip(tensors, self.sum_all(list(tensors.values())), strict=True))

    def mean(self, own: Tensor, rows: int) -> tuple[Tensor, Tensor | float]:
        """Average means (M,) over the rows of all ranks; return the average and this rank's share () of the rows.

        Args:
            own: Means over the rows of this rank.
            rows: Number of these rows; it may differ between the ranks.
        """
        if self.is_alone:
            return own, 1.0
        total = self.sum_(torch.cat([own * rows, own.new_full((1,), rows)]))
        return total[:-1] / total[-1], rows / total[-1]

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks in the order of the ranks; each must give the same number. (R * n, ...)"""
        if self.is_alone:
            return rows
        result = rows.new_empty(self.size * len(rows), *rows.shape[1:])
        with _contact():
            _all_gather(result, rows.contiguous())
        return result

    # Plain values

    def of_first(self, value: Value) -> Value:
        """Return rank 0's value on every rank."""
        if self.is_alone:
            return value
        box = [value if self.is_first else None]
        with _contact():
            dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]  # type: ignore[return-value]  # rank 0 has filled it

    def of_all(self, value: Value) -> list[Value]:
        """Return the values of all ranks, on every rank."""
        if self.is_alone:
            return [value]
        values: list[Any] = [None] * self.size
        with _contact():
            dist.all_gather_object(values, value)
        return values

    def largest(self, value: int) -> int:
        """Return the largest value of any rank, on every rank."""
        if self.is_alone:
            return value
        box = torch.tensor(value)
        with _contact():
            dist.all_reduce(box, dist.ReduceOp.MAX)
        return int(box)

    def wait(self) -> None:
        """Wait until all ranks are here."""
        self.largest(0)

    # The end

    def is_first_to_fail(self) -> bool:
        """Count this rank as failed; return whether no other has failed before, so that one rank prints the reason."""
        if self.store is None:
            return True
        try:
            return self.store.add(FAILURES, 1) == 1
        except RuntimeError:  # torchrun, which keeps the store, has ended
            return self.is_first

    def leave(self) -> None:
        """Close the connections, once all ranks are done; call it before the process ends."""
        if self.store is None:
            return
        # Not an exchange by gloo: its threads free their tensors later, which aborts a process that is ending.
        if self.store.add(LEAVING, 1) == self.size:
            self.store.set(ALL_LEFT, "yes")
        self.store.wait([ALL_LEFT], TIMEOUT)
        dist.destroy_process_group()


ALONE = Ranks()


def share_of(rank: int, size: int, count: int) -> slice:
    """Return the part of `count` items that one of `size` ranks owns."""
    return slice(count * rank // size, count * (rank + 1) // size)


def require_rows(ranks: Ranks, rows: int, hint: str) -> None:
    """Check that every rank gets a row of every task in an update.

    Args:
        ranks: The ranks.
        rows: Rows of one task in an update.
        hint: What the user can change.
    """
    if rows < ranks.size:
        raise UserError(f"an update has {rows} rows per task, too few for {ranks.size} ranks; {hint}")


@contextmanager
def _contact() -> Iterator[None]:
    """Turn the errors of an exchange with a rank that has ended into one line."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or any(word in str(error) for word in ("gloo", "Gloo", "onnection")):
            raise LostRankError("another rank has ended, so this run stops; its last checkpoint is kept") from error
        raise


@cache
def join() -> Ranks:
    """Connect this process to the others that torchrun started; without torchrun it is alone."""
    if not is_parallel():
        return ALONE
    return connect(*(number(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")))


def connect(rank: int, size: int, local_rank: int, local_size: int) -> Ranks:
    """Connect the processes that the variables of torchrun describe, also a single one."""
    has_gpu = torch.cuda.is_available()
    if has_gpu and local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)  # graphs are captured on the current device
    store, _, _ = next(rendezvous("env://", timeout=TIMEOUT))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if has_gpu else "gloo",
        store=PrefixStore("polytask/group", store),
        rank=rank,
        world_size=size,
        timeout=TIMEOUT,
    )
    return Ranks(rank, size, local_rank, local_size, store)
