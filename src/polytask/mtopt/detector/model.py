"""A trained success detector: its verdicts on outcomes, and its file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polytask.errors import UserError, require_known
from polytask.files import Fields, check_fields, check_finite, load_tensors, make_folder, save_tensors
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.networks import DetectorNetwork

KIND = "polytask success detector"
FORMAT = 1  # raised when the layout of the file changes
_FIELDS: Fields = {
    "version": str,
    "tasks": list,
    "slots": int | None,
    "taught": list | None,
    "views": int,
    "threshold": float,
    "thresholds": dict | None,
    "refused": dict | None,
    "temperature": float,
    "network": dict,
    "weights": dict,
}


class Detector:
    """Returns the probability that an outcome is a success of a task.

    Training draws successes and failures equally often, so the probabilities hold where both are equally frequent.
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
        thresholds: Mapping[str, float] | None = None,
        refused: Mapping[str, str] | None = None,
    ) -> None:
        """Wrap a trained network.

        Args:
            version: Name in labels and logs.
            tasks: Names in the order of their places; the network may have more, for tasks that are added later.
            network: The trained network.
            threshold: Probability above which an outcome counts as a success, for tasks without their own.
            temperature: Divides the logits.
            config: The network's configuration; None for the defaults.
            taught: Tasks with both successes and failures in training; None for all. The network's columns of other
                tasks are untrained.
            thresholds: Thresholds of single tasks.
            refused: Tasks whose verdicts must not become rewards, with the reason.
        """
        if not set(tasks if taught is None else taught) <= set(tasks):
            raise ValueError("a detector cannot be taught a task that it has no column for")
        self.taught = tuple(task for task in tasks if taught is None or task in taught)
        self.version, self.tasks = version, tuple(tasks)
        self.network = network.eval()
        self.threshold, self.temperature = threshold, temperature
        self.thresholds, self.refused = dict(thresholds or {}), dict(refused or {})
        self.config = config or NetworkConfig()

    @property
    def views(self) -> int:
        """Return the number of pictures of an outcome."""
        return self.network.views

    @property
    def used(self) -> tuple[str, ...]:
        """Return the tasks whose verdicts may become rewards: taught, and not refused."""
        return tuple(task for task in self.taught if task not in self.refused)

    def threshold_of(self, task: str) -> float:
        """Return the probability above which an outcome counts as a success of a task."""
        return self.thresholds.get(task, self.threshold)

    def to(self, device: torch.device | str) -> Detector:
        """Move the network to a device."""
        self.network.to(device)
        return self

    def index(self, task: str) -> int:
        """Return a task's index.

        Raises:
            UserError: If the detector has no column for it.
        """
        return self.tasks.index(require_known(f"task of detector {self.version}", task, self.tasks))

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
        """Return probabilities (B, K) that views (B, V, S, S, 3) of bytes show successes of each of its tasks.

        Raises:
            UserError: If the outcomes have another number of views.
        """
        self._check(outcome)
        logits = [self.network.all_tasks(views) for views in outcome.split(batch)]
        return (torch.cat(logits) / self.temperature).sigmoid()

    def _check(self, outcome: Tensor) -> None:
        if outcome.ndim != 5 or outcome.shape[1] != self.views:
            raise UserError(f"detector {self.version} needs {self.views} views, not outcomes {tuple(outcome.shape)}")
        self.network.eval()

    def accepts(self, outcome: Tensor, task: Tensor) -> Tensor:
        """Return which outcomes (B,) count as successes; see `predict`."""
        bounds = torch.tensor([self.threshold_of(name) for name in self.tasks], device=task.device)
        return self.predict(outcome, task) > bounds[task]

    def save(self, path: Path) -> None:
        """Replace the file at `path` in one step."""
        state = {
            "kind": KIND,
            "format": FORMAT,
            "version": self.version,
            "tasks": list(self.tasks),
            "slots": self.network.tasks,
            "taught": list(self.taught),
            "views": self.views,
            "threshold": self.threshold,
            "thresholds": self.thresholds,
            "refused": self.refused,
            "temperature": self.temperature,
            "network": asdict(self.config),
            "weights": {name: value.cpu() for name, value in self.network.state_dict().items()},
        }
        make_folder(path.parent)
        save_tensors(path, state)

    @classmethod
    def load(cls, path: str | Path) -> Detector:
        """Read a detector onto the CPU; no code in the file is run.

        Raises:
            UserError: If there is no such file, or it holds no detector of this format.
        """
        state = load_tensors(Path(path).expanduser(), "success detector", kind=KIND)
        if state.get("format") != FORMAT:
            found = state.get("format")
            raise UserError(f"'{path}' is a success detector of format {found}; this version reads {FORMAT}")
        check_fields(state, _FIELDS, Path(path))
        check_finite(state["weights"], Path(path), "weights.")
        try:
            config = NetworkConfig(**state["network"])
            network = DetectorNetwork(config, state.get("slots") or len(state["tasks"]), state["views"])
            network.load_state_dict(state["weights"])
            known = (str(state["version"]), state["tasks"], network, float(state["threshold"]))
            # Files of older versions lack these: they were taught all tasks, with one threshold, and none was refused.
            later: dict[str, Any] = {name: state.get(name) for name in ("taught", "thresholds", "refused")}
            return cls(*known, temperature=float(state["temperature"]), config=config, **later)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"'{path}' is damaged: its parts do not fit together") from error
