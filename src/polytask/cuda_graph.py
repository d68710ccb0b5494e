"""Launch fewer kernels: capture a function into a CUDA graph, or compile it. On the CPU the function is simply called.

A captured function must read its inputs from tensors that live as long as the graph, and write its results to such
tensors. It must not synchronize with the host and must not branch on data. The graph must do what the eager call does.
So what is loaded or reset later must be copied into the captured tensors; `fixed_addresses` checks that.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn

from polytask.result import note

Function = TypeVar("Function", bound=Callable[..., Any])


def fused(function: Function, device: torch.device, *, is_wanted: bool) -> Function:
    """Return a function that does the same in fewer, larger kernels, if this is wanted and the device is a GPU.

    The kernels are compiled when the function is first called with tensors of a new shape. This takes seconds. They are
    kept in torch's cache on disk, so that the next start is faster.
    """
    if device.type != "cuda" or not is_wanted or not can_compile(device):
        return function
    # Torch counts the compiled versions of a function over all objects of the process, such as the runs of a sweep.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 256)
    compiled: Any = torch.compile(function, dynamic=False)
    return cast("Function", compiled)


@cache
def can_compile(device: torch.device) -> bool:
    """Try whether this machine can compile kernels, which needs Triton, a C compiler and Python's headers."""
    try:
        torch.compile(torch.neg, dynamic=False)(torch.zeros(2, device=device))
    except Exception as error:  # each missing part raises another error
        note(
            f"kernels cannot be compiled here ({type(error).__name__}); updates are slower, as with algo.compile=false"
        )
        return False
    return True


RECORDS = ("polytask", "mujoco_warp")  # packages whose objects are looked into for tensors and arrays


@contextmanager
def fixed_addresses(owner: object) -> Iterator[None]:
    """Check that a block leaves every tensor of an object, and every array of Warp, at its address, on every device.

    A captured graph goes on using the old memory of a tensor that was replaced. On a GPU this gives wrong numbers and
    no error, so it must be noticed where it happens.

    Raises:
        RuntimeError: If one has been replaced.
    """
    before = addresses(owner)
    yield
    after = addresses(owner)
    moved = [name for name, address in before.items() if after.get(name) != address]
    if moved:
        raise RuntimeError(f"{moved[0]} was replaced, but captured graphs use the old tensor; copy into it instead")


def addresses(owner: object) -> dict[str, int]:
    """Return the address of each tensor of an object and of the objects of `RECORDS` inside it, by its path.

    Arrays of Warp count as tensors. They are known by the name of their type, because this module does not import Warp.
    Left out are the moments of optimizers, which torch replaces when it loads them; learners then capture again. A
    class lists in `computed` those of its tensors that a captured function always computes before it uses them.
    """
    found: dict[str, int] = {}
    seen: set[int] = set()

    def walk(value: Any, path: str) -> None:
        if isinstance(value, Tensor):
            found[path] = value.data_ptr()
            return
        package = type(value).__module__.partition(".")[0]
        if package == "warp" and type(value).__name__ == "array":
            found[path] = value.ptr or 0  # an empty one has no memory
            return
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, dict):
            parts = value
        elif isinstance(value, list | tuple):
            parts = dict(enumerate(value))
        elif isinstance(value, nn.Module) or package in RECORDS:
            parts = vars(value)
        else:
            return
        computed = getattr(type(value), "computed", ())
        for name, part in parts.items():
            if name not in computed:
                walk(part, f"{path}.{name}")

    walk(owner, type(owner).__name__)
    return found


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep Python's garbage collector from running: it could free an older graph, which invalidates a capture.

    A collection before the capture would serve too. But it looks at every object of the process, which takes a third of
    a second, and an environment of fifty tasks captures ninety graphs.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass
class Graphed:
    """A function without arguments that is captured on its first calls and replayed afterwards.

    Attributes:
        function: The function to run.
        device: On a CUDA device the function is captured, on other devices it is called.
        generator: The generator that `function` draws from, if any. It is registered, so that every replay draws new
            numbers.
        warmup: Number of eager calls before the capture. Lazy initialization (cuBLAS, optimizer state) happens there.
    """

    function: Callable[[], Any]
    device: torch.device
    generator: torch.Generator | None = None
    warmup: int = 2
    _graph: torch.cuda.CUDAGraph | None = field(default=None, init=False)
    _result: Any = field(default=None, init=False)

    def __call__(self) -> Any:
        """Run the function once and return its result. After the capture, every call returns the same tensors."""
        if self.device.type != "cuda":
            return self.function()
        if self._graph is not None:
            self._graph.replay()
            return self._result
        if self.warmup > 0:
            self.warmup -= 1
            return self._on_side_stream()
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        if self.generator is not None:
            graph.register_generator_state(self.generator)
        # Capturing only records the kernels. The replay below runs them. With several ranks, a thread of NCCL asks for
        # the state of earlier work at any time, which must not count as an error of the capture.
        mode = "thread_local" if distributed.is_available() and distributed.is_initialized() else "global"
        with no_collection(), torch.cuda.graph(graph, capture_error_mode=mode):
            self._result = self.function()
        self._graph = graph
        graph.replay()
        return self._result

    def _on_side_stream(self) -> Any:
        """Run the function eagerly on a side stream, as the capture does.

        Autograd remembers the stream of an operation, and the default stream cannot be captured.
        """
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            result = self.function()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return result
