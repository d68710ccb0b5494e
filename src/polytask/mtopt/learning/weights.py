"""Versioned weights in a folder: the trainer publishes them; collectors, updaters and evaluators load them.

    FOLDER/q-000012.pt    the two target networks of version 12

A file appears in one step, so any process may load any file it finds in the folder. Old versions are removed once
enough newer ones exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from polytask.errors import UserError
from polytask.files import can_write, check_fields, check_finite, load_tensors, make_folder, save_tensors
from polytask.mtopt.config.learning import LearnerConfig
from polytask.mtopt.learning.learner import frozen_copy
from polytask.mtopt.networks import QNetwork
from polytask.mtopt.policy_names import policy_name

HEADER = {"kind": "polytask mtopt weights", "format": 1}  # the format is raised when the layout of the file changes
_FILE = re.compile(r"q-(\d{6,})\.pt")


@dataclass(frozen=True)
class Weights:
    """The two networks that compute targets; the first also acts."""

    version: int
    q1: QNetwork
    q2: QNetwork

    @property
    def policy(self) -> str:
        """Return the name of the policy that acts by these weights."""
        return policy_name(self.version)


class WeightFolder:
    """A folder of versions; one process publishes, any number load."""

    def __init__(self, folder: str | Path, keep: int = 5) -> None:
        """Use a folder, which need not exist; the `keep` newest versions stay, 0 keeps all."""
        self.folder, self.keep = Path(folder).expanduser(), keep

    def versions(self) -> list[int]:
        """List the versions in the folder, oldest first."""
        found = (_FILE.fullmatch(path.name) for path in self.folder.glob("q-*.pt"))
        return sorted(int(match[1]) for match in found if match)

    def newest(self) -> int | None:
        """Return the newest version; None if nothing was published."""
        return max(self.versions(), default=None)

    def publish(self, version: int, step: int, q1: QNetwork, q2: QNetwork) -> None:
        """Write a version in one step, replace a file of the same version, and remove versions that are too old."""
        state = {
            **HEADER,
            "version": version,
            "step": step,
            "tasks": q1.tasks,
            "q1": {name: value.cpu() for name, value in q1.state_dict().items()},
            "q2": {name: value.cpu() for name, value in q2.state_dict().items()},
        }
        make_folder(self.folder)
        save_tensors(self.path(version), state)
        for old in self.versions()[: -self.keep] if self.keep else ():
            with can_write(self.path(old)):
                self.path(old).unlink(missing_ok=True)

    def load(self, config: LearnerConfig, device: torch.device | str, version: int | None = None) -> Weights:
        """Read a version, or the newest, onto a device; no code in the file is run.

        Raises:
            UserError: If there is no such version, or it does not fit the configured network.
        """
        known = self.versions()
        wanted = max(known, default=None) if version is None else version
        if wanted is None or wanted not in known:
            valid = f"known: {', '.join(map(str, known))}" if known else "nothing was published yet"
            raise UserError(f"no weights {'' if version is None else f'{version} '}in '{self.folder}'; {valid}")
        state = load_tensors(self.path(wanted), "file of MT-Opt weights", **HEADER)
        check_fields(state, {"tasks": int, "q1": dict, "q2": dict}, self.path(wanted))
        check_finite({"q1": state["q1"], "q2": state["q2"]}, self.path(wanted))
        try:
            q1 = QNetwork(config.network, int(state["tasks"]))
            q2 = QNetwork(config.network, int(state["tasks"]))
            q1.load_state_dict(state["q1"])
            q2.load_state_dict(state["q2"])
        except RuntimeError as error:
            raise UserError(f"weights {wanted} in '{self.folder}' are of another network than configured") from error
        return Weights(wanted, frozen_copy(q1).to(device), frozen_copy(q2).to(device))

    def newer(self, held: Weights | None, config: LearnerConfig, device: torch.device | str) -> Weights | None:
        """Load the newest version if it is newer than the held one, else return the held one; None if there is none."""
        newest = self.newest()
        if newest is None or (held is not None and newest <= held.version):
            return held
        return self.load(config, device, newest)

    def path(self, version: int) -> Path:
        """Return the file of a version."""
        return self.folder / f"q-{version:06d}.pt"
