"""The index of a sweep's folder, `index.json`: which setting each folder has, and how each run stands.

A setting keeps its folder for ever: a repeated sweep, or one with more values, finds it by its whole configuration and
gives only new settings new numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.files import Fields, check_fields, exists, finite, read_json, write_text
from polytask.runs.file_names import INDEX_FILE, OUTPUT
from polytask.runs.sweep.grid import Setting, identity

VERSION = 1
FIELDS: Fields = {"version": int, "settings": dict, "runs": dict}
SETTING_FIELDS: Fields = {"label": str, "words": [str], "config": dict}


class Index:
    """The settings and runs of a sweep's folder."""

    def __init__(self, root: Path) -> None:
        """Read the index of a folder; it is empty if there is none yet.

        Raises:
            UserError: If the file is damaged, or of another version.
        """
        self.path = root / INDEX_FILE
        self._root = root
        self.settings: dict[str, dict[str, Any]] = {}  # by the name of the folder
        self.runs: dict[str, dict[str, Any]] = {}  # by folder and seed
        self._read: dict[str, dict[str, Any]] = {}  # the settings that the file had
        if not exists(self.path):
            return
        saved = read_json(self.path, "record of a sweep", FIELDS)
        if saved["version"] != VERSION:
            raise UserError(f"'{self.path}' has version {saved['version']}, not {VERSION}; name another output")
        for name, one in saved["settings"].items():
            check_fields({name: one}, {name: SETTING_FIELDS}, self.path, "settings.")
        self.settings, self.runs = saved["settings"], saved["runs"]
        self._read = dict(self.settings)

    def folder_of(self, setting: Setting) -> str:
        """Return the name of a setting's folder, which is new if no folder has this setting."""
        saved = {"label": setting.label, "words": list(setting.words), "config": identity(setting.config)}
        return self.adopt(setting.slug, saved)

    def adopt(self, slug: str, saved: Mapping[str, Any]) -> str:
        """Return the name of the folder of a setting as an index saves it, which is new if no folder has it.

        Args:
            slug: The name of a new folder, without its number.
            saved: The setting.
        """
        wanted = self._inside(saved["config"])
        for name, known in self.settings.items():
            if self._inside(known["config"]) == wanted:
                return name
        for name, now in self._upgraded.items():
            if now == wanted:
                return name
        name = f"{self._next_number():02d}-{slug}"
        self.settings[name] = {**saved, "config": wanted}
        return name

    @cached_property
    def _upgraded(self) -> dict[str, dict[str, Any]]:
        """The settings in the file as this version would save them; they are slow to compose."""
        return {name: self._inside(_upgrade(saved["config"])) for name, saved in self._read.items()}

    def _inside(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return settings that name runs of this folder without the folder, which may be moved."""
        start, root = config.get("init_from"), f"{self._root}/"
        if not isinstance(start, str) or not start.startswith(root):
            return config
        return {**config, "init_from": OUTPUT + start.removeprefix(root)}

    def record(self, folder: str, facts: Mapping[str, Any]) -> None:
        """Remember how a run stands."""
        self.runs[folder] = dict(facts)

    def write(self) -> None:
        """Write the file; it is whole at every moment."""
        # Python's JSON has infinity, which some settings are; without it they would not equal themselves when read.
        content = {"version": VERSION, "settings": self.settings, "runs": finite(self.runs)}
        write_text(self.path, json.dumps(content, indent=1) + "\n")

    def _next_number(self) -> int:
        """Return a number that no folder has, also if folders exist of which the index knows nothing."""
        folders = self.path.parent.iterdir() if self.path.parent.is_dir() else ()
        names = {*self.settings, *(path.name for path in folders)}
        numbers = [int(first) for name in names if (first := name.partition("-")[0]).isdigit()]
        return max(numbers, default=-1) + 1


def _upgrade(config: dict[str, Any]) -> dict[str, Any]:
    """Return saved settings as this version would save them: with the defaults of keys that are new."""
    try:
        now: TrainConfig = compose(TrainConfig, [], saved=config)
    except UserError:  # an option that no longer exists, so it equals no setting of today
        return {}
    for name in ("init_from", "demos"):  # no settings of a run that continues, but settings of a sweep
        setattr(now, name, config.get(name))
    return identity(now)
