"""A trained success detector: what it says of outcomes, and the file it is kept in."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.files import write_atomically
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.networks import DetectorNetwork, seed_zero

KIND = "polytask success detector"
FORMAT = 1  # raised when the layout of the file changes


class Detector:
    """Tells how likely an outcome is a success of a task.

    Training deals successes and failures out equally, so a probability is that of a success where both are as frequent.
    """

    def __init__(  # noqa: PLR0913 - what a file of a detector holds
        self,
        version: str,
        tasks: Sequence[str],
        network: DetectorNetwork,
        threshold: float = 0.5,
        temperature: float = 1.0,
        config: NetworkConfig | None = None,
        taught: Collection[str] | None = None,
    ) -> None:
        """Take a network into use.

        Args:
            version: Name that labels and logs carry.
            tasks: Names in the order of their indices.
            network: In its final state.
            threshold: Probability above which an outcome counts as a success.
            temperature: Logits are divided by it.
            config: What the network was built from; None for the defaults.
            taught: Tasks of which it has seen successes and failures; None for all. What the network says of the
                others comes from columns that nothing trained.
        """
        if not set(tasks if taught is None else taught) <= set(tasks):
            raise ValueError("a detector cannot have been taught a task that it has no column for")
        self.taught = tuple(task for task in tasks if taught is None or task in taught)
        self.version, self.tasks = version, tuple(tasks)
        self.network = network.eval()
        self.threshold, self.temperature = threshold, temperature
        self.config = config or NetworkConfig()

    @property
    def views(self) -> int:
        """Tell how many pictures an outcome has."""
        return self.network.views

    def to(self, device: torch.device | str) -> Detector:
        """Move the network to a device."""
        self.network.to(device)
        return self

    def index(self, task: str) -> int:
        """Return a task's index.

        Raises:
            UserError: If the detector has no column for it.
        """
        if task not in self.tasks:
            raise UserError(f"detector {self.version} does not know '{task}'; it knows {', '.join(self.tasks)}")
        return self.tasks.index(task)

    def predict(self, outcome: Tensor, task: Tensor, batch: int = 512) -> Tensor:
        """Return probabilities (B,) that views (B, V, S, S, 3) of bytes show successes of tasks (B,).

        Raises:
            UserError: If the outcomes have another number of views.
        """
        return (self.logits(outcome, task, batch) / self.temperature).sigmoid()

    @torch.no_grad()
    def logits(self, outcome: Tensor, task: Tensor, batch: int = 512) -> Tensor:
        """Return the network's logits (B,), before the temperature; see `predict`.

        Raises:
            UserError: If the outcomes have another number of views.
        """
        self._check(outcome)
        pairs = zip(outcome.split(batch), task.split(batch), strict=True)
        logits = [self.network(views, index) for views, index in pairs]
        return torch.cat(logits)

    @torch.no_grad()
    def predict_all(self, outcome: Tensor, batch: int = 128) -> Tensor:
        """Return probabilities (B, K) that views (B, V, S, S, 3) of bytes show successes of each task it knows.

        Raises:
            UserError: If the outcomes have another number of views.
        """
        self._check(outcome)
        logits = [self.network.all_tasks(views) for views in outcome.split(batch)]
        return (torch.cat(logits) / self.temperature).sigmoid()

    def _check(self, outcome: Tensor) -> None:
        if outcome.ndim != 5 or outcome.shape[1] != self.views:
            raise UserError(f"detector {self.version} judges {self.views} views, not outcomes {tuple(outcome.shape)}")
        self.network.eval()

    def accepts(self, outcome: Tensor, task: Tensor) -> Tensor:
        """Tell which outcomes count as successes (B,); see `predict`."""
        return self.predict(outcome, task) > self.threshold

    def save(self, path: Path) -> None:
        """Replace the file at `path` in one step."""
        state = {
            "kind": KIND,
            "format": FORMAT,
            "version": self.version,
            "tasks": list(self.tasks),
            "taught": list(self.taught),
            "views": self.views,
            "threshold": self.threshold,
            "temperature": self.temperature,
            "network": asdict(self.config),
            "weights": {name: value.cpu() for name, value in self.network.state_dict().items()},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary: torch.save(state, temporary))

    @classmethod
    def load(cls, path: str | Path) -> Detector:
        """Read a detector onto the CPU; opening a stranger's file runs none of its code.

        Raises:
            UserError: If there is no such file, or it holds no detector of this format.
        """
        state = read(Path(path).expanduser())
        try:
            config = NetworkConfig(**state["network"])
            network = DetectorNetwork(config, len(state["tasks"]), state["views"], seed_zero())
            network.load_state_dict(state["weights"])
            known = (str(state["version"]), state["tasks"], network, float(state["threshold"]))
            taught = state.get("taught")  # files that do not say are older than the question
            return cls(*known, temperature=float(state["temperature"]), config=config, taught=taught)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"'{path}' is damaged: its parts do not fit together") from error


def read(file: Path) -> dict[str, Any]:
    """Read a detector's file into plain values and CPU tensors."""
    if not file.is_file():
        raise UserError(f"no success detector at '{file}'")
    try:
        with warnings.catch_warnings(action="ignore"):  # on odd files torch warns before it fails
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, KeyError) as error:
        raise UserError(f"'{file}' cannot be read: it is truncated or no success detector") from error
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise UserError(f"'{file}' is not a success detector")
    if state.get("format") != FORMAT:
        raise UserError(f"'{file}' is a success detector of format {state.get('format')}; this version reads {FORMAT}")
    return state
