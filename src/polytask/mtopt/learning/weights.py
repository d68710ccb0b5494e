"""Versioned weights in a folder: what the trainer publishes, and collectors, updaters and evaluators load.

    FOLDER/q-000012.pt    the two target networks of version 12

A file appears whole or not at all, so whoever lists the folder may load what is there. Old versions are removed once
enough newer ones exist.
"""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from polytask.errors import UserError
from polytask.files import write_atomically
from polytask.mtopt.config.learning import LearnerConfig
from polytask.mtopt.learning.learner import frozen_copy
from polytask.mtopt.networks import QNetwork, seed_zero
from polytask.mtopt.policy_names import policy_name

KIND = "polytask mtopt weights"
FORMAT = 1  # raised when the layout of the file changes
_FILE = re.compile(r"q-(\d{6,})\.pt")


@dataclass(frozen=True)
class Weights:
    """The two networks that targets come from; the first also acts."""

    version: int
    step: int  # updates that made them
    q1: QNetwork
    q2: QNetwork

    @property
    def policy(self) -> str:
        """Name the policy that these weights are."""
        return policy_name(self.version)


class WeightFolder:
    """A folder of versions; one process publishes, any number load."""

    def __init__(self, folder: str | Path, keep: int = 5) -> None:
        """Name the folder; `keep` newest versions stay, 0 keeps all."""
        self.folder, self.keep = Path(folder).expanduser(), keep

    def versions(self) -> list[int]:
        """List the versions that are there, oldest first."""
        found = (_FILE.fullmatch(path.name) for path in self.folder.glob("q-*.pt"))
        return sorted(int(match[1]) for match in found if match)

    def newest(self) -> int | None:
        """Return the newest version; None where nothing was published."""
        return max(self.versions(), default=None)

    def publish(self, version: int, step: int, q1: QNetwork, q2: QNetwork) -> None:
        """Write a version in one step, over one of the same number, and remove what is too old."""
        state = {
            "kind": KIND,
            "format": FORMAT,
            "version": version,
            "step": step,
            "tasks": q1.tasks,
            "q1": {name: value.cpu() for name, value in q1.state_dict().items()},
            "q2": {name: value.cpu() for name, value in q2.state_dict().items()},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path(version), lambda temporary: torch.save(state, temporary))
        for old in self.versions()[: -self.keep] if self.keep else ():
            self._path(old).unlink(missing_ok=True)

    def load(self, config: LearnerConfig, device: torch.device | str, version: int | None = None) -> Weights:
        """Read a version, or the newest, onto a device; opening a stranger's file runs none of its code.

        Raises:
            UserError: If there is no such version, or it does not fit the configured network.
        """
        known = self.versions()
        wanted = max(known, default=None) if version is None else version
        if wanted is None or wanted not in known:
            there = f"there are {', '.join(map(str, known))}" if known else "nothing was published yet"
            raise UserError(f"no weights {'' if version is None else version} in '{self.folder}'; {there}")
        state = self._read(self._path(wanted))
        try:
            q1 = QNetwork(config.network, int(state["tasks"]), seed_zero())
            q2 = QNetwork(config.network, int(state["tasks"]), seed_zero())
            q1.load_state_dict(state["q1"])
            q2.load_state_dict(state["q2"])
        except (KeyError, RuntimeError) as error:
            raise UserError(f"weights {wanted} in '{self.folder}' are of another network than configured") from error
        return Weights(wanted, int(state["step"]), frozen_copy(q1).to(device), frozen_copy(q2).to(device))

    def _path(self, version: int) -> Path:
        return self.folder / f"q-{version:06d}.pt"

    @staticmethod
    def _read(file: Path) -> dict[str, Any]:
        try:
            with warnings.catch_warnings(action="ignore"):  # on odd files torch warns before it fails
                state = torch.load(file, map_location="cpu", weights_only=True)
        except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, KeyError) as error:
            raise UserError(f"'{file}' cannot be read: it is truncated or no weights") from error
        if not isinstance(state, dict) or state.get("kind") != KIND or state.get("format") != FORMAT:
            raise UserError(f"'{file}' holds no weights of format {FORMAT}")
        return state
