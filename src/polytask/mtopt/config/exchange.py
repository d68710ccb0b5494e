"""Settings of the commands that connect MT-Opt with other robots: import episodes, serve actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polytask.errors import UserError
from polytask.mtopt.config.commands import FolderCommandConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.settings import MAX_SEED, setting

FITS = ("exact", "crop", "stretch")
_FIT = "pictures of another size: exact refuses them, crop uses their central square, stretch distorts them"


@dataclass
class ImportConfig(FolderCommandConfig):
    """`polytask mtopt import`."""

    reserved: ClassVar[dict[str, str]] = {"from": "source"}

    source: str = setting(
        "folder", "lerobot, minari or folder: format of the data (also from=)", choices=("lerobot", "minari", "folder")
    )
    data: str | None = setting(None, "folder of the data set", is_path=True)
    task: str | None = setting(None, "task of all episodes (default: the name or sentence that each of them has)")
    labels: bool = setting(False, "take the successes that the data set states as people's labels")
    camera: str | None = setting(
        None, "from=lerobot or minari: feature that the policy sees (default: the only camera)"
    )
    outcome_cameras: list[str] = setting(
        [], "from=lerobot or minari: features whose last pictures show the outcome (default: that of the policy)"
    )
    fit: str = setting("exact", _FIT, choices=FITS)
    image_size: int | None = setting(
        None,
        "side of the policy's pictures in a new run, pixels (default: fit=exact that of the data, else 64)",
        within=(8, 1_024),
    )
    outcome_size: int | None = setting(
        None,
        "side of the outcome's pictures in a new run, pixels (default: fit=exact that of the data, else 96)",
        within=(8, 1_024),
    )
    network: NetworkConfig = setting(
        NetworkConfig, "Q-network of a new run (default: merge=added, which needs no pose and no camera)"
    )

    def check_together(self, prefix: str = "") -> None:
        """Check that there is a data set."""
        if self.data is None:
            raise UserError(f"name the folder of the data set: {prefix}data=DIR")


@dataclass
class ActConfig(FolderCommandConfig):
    """`polytask mtopt act`."""

    host: str = setting("127.0.0.1", "where to listen; any address but this machine's own makes a token necessary")
    port: int = setting(8009, "port to listen on", within=(0, 65_535))
    token: str = setting("", "token that a client must send when it listens elsewhere (default: a random one)")
    weights: int | None = setting(None, "version of the weights (default: the newest)", at_least=1)
    fit: str = setting("exact", _FIT, choices=FITS)
    max_body_bytes: int = setting(8 * 1024 * 1024, "largest request, bytes", at_least=1)
    seed: int = setting(0, "seed of the search for actions", within=(0, MAX_SEED))
    device: str = setting("cpu", "torch device of the network")
