"""The iteration of `solvers.descend` as one GPU kernel, which avoids dozens of small launches per step.

One program holds the whole problem. The (K, K) matrix is in registers, padded to the next power of two, and threads
exchange vectors through shared memory. The kernel does the same line by line as the tensor operations in `solvers`,
which are the reference. Without a GPU the tests run it in Triton's interpreter.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_TASKS = 128  # a larger matrix does not fit into the registers of one program


def descend(matrix: Tensor, drift: Tensor, price: Tensor, start: Tensor, iterations: int) -> Tensor:
    """Launch the kernel on contiguous float64 tensors; see `solvers.descend`."""
    result = torch.empty_like(start)
    width = triton.next_power_of_2(len(start))
    warps = max(1, min(32, width * width // 256))  # eight entries of the matrix per thread, up to 32 warps
    tensors = (each.contiguous() for each in (matrix, drift, price, start))
    _descend[(1,)](*tensors, result, len(start), iterations, WIDTH=width, num_warps=warps)
    return result


@triton.jit  # type: ignore[untyped-decorator]
def _descend(  # noqa: PLR0913 - a kernel takes its tensors one by one
    matrix_at: tl.tensor,
    drift_at: tl.tensor,
    price_at: tl.tensor,
    start_at: tl.tensor,
    result_at: tl.tensor,
    num_tasks: tl.tensor,
    iterations: tl.tensor,
    WIDTH: tl.constexpr,
) -> None:
    index = tl.arange(0, WIDTH)
    is_task = index < num_tasks
    inside = is_task[:, None] & is_task[None, :]
    matrix = tl.load(matrix_at + index[:, None] * num_tasks + index[None, :], mask=inside, other=0.0)
    drift = tl.load(drift_at + index, mask=is_task, other=0.0)
    price = tl.load(price_at + index, mask=is_task, other=0.0)
    divisor = tl.where(is_task, price, 1.0)
    current = tl.load(start_at + index, mask=is_task, other=0.0)
    ahead = current
    age = tl.sum(drift * 0.0, axis=0)  # zero, in float64

    for _ in range(iterations):
        # The step: a gradient step and the projection onto the simplex.
        image = tl.sum(matrix * ahead[None, :], axis=1)
        length = tl.sqrt(tl.maximum(tl.sum(ahead * image, axis=0), 1e-12))
        point = ahead - image - length * drift
        ratio = tl.where(is_task, point / divisor, -float("inf"))
        sets = (ratio[None, :] >= ratio[:, None]) & inside
        spent = tl.sum(tl.where(sets, (price * point)[None, :], 0.0), axis=1)
        weight = tl.sum(tl.where(sets, (price * price)[None, :], 0.0), axis=1)
        shifts = tl.where(is_task, (spent - 1.0) / tl.where(is_task, weight, 1.0), -float("inf"))
        following = tl.maximum(point - tl.max(shifts, axis=0) * price, 0.0)
        # The momentum, restarted where it points uphill.
        move = following - current
        downhill = tl.sum((ahead - following) * move, axis=0) <= 0.0
        age = tl.where(downhill, age + 1.0, 0.0)
        ahead = following + age / (age + 3.0) * move
        current = following
    tl.store(result_at + index, current, mask=is_task)
