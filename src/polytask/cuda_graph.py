"""Capture a function of fixed-address tensors into a CUDA graph; on the CPU simply call it.

A captured function must read its inputs from, and write its results to, tensors that live as long as the graph, must
not synchronize with the host and must not branch on data. The eager call is the reference for what the graph does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Graphed:
    """A function without arguments that is captured on its first calls and replayed afterwards.

    Attributes:
        function: What to run.
        device: On a CUDA device the function is captured, elsewhere called.
        generator: The generator that `function` draws from, if any, so that every replay draws anew.
        warmup: Eager calls before the capture, to let lazy initialization (cuBLAS, optimizer state) happen.
    """

    function: Callable[[], Any]
    device: torch.device
    generator: torch.Generator | None = None
    warmup: int = 2
    _graph: torch.cuda.CUDAGraph | None = field(default=None, init=False)
    _result: Any = field(default=None, init=False)

    def __call__(self) -> Any:
        """Run the function once and return its result; a captured result is the same tensors every time."""
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
        # Capturing only records: the replay below is what runs the function this time.
        with torch.cuda.graph(graph):
            self._result = self.function()
        self._graph = graph
        graph.replay()
        return self._result

    def _on_side_stream(self) -> Any:
        """Run eagerly off the default stream, as capture will, so that what autograd remembers can be captured."""
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            result = self.function()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return result
