"""Keys that the user gives to all runs of a table: some are refused, some make it another than the published one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from polytask.config.compose import current_name
from polytask.config.launching import ReproduceConfig
from polytask.config.schema import TrainConfig
from polytask.errors import UserError, shown
from polytask.runs.report.labels import is_portable
from polytask.runs.reproduce.tables import PublishedTable, Row
from polytask.runs.sweep.grid import Setting, check_not_own, identity, own_key_near, split_values
from polytask.settings import default_of

FRAMES = "the table says how long its runs are; budget=0.05 gives each a share of the published frames"
OF_A_LIST = ("seeds", "budget", "plugins", "format", "changes")  # keys that a list of the tables has
OWN = {
    "preset": "each row has its own; choose rows with rows=, or train other presets with `polytask sweep`",
    "max_frames": FRAMES,
    "max_iterations": FRAMES,
    "max_minutes": FRAMES,
}


def check_changes(words: Sequence[str], rows: Sequence[Row]) -> None:
    """Check that the user changes nothing that the rows of a table are made of.

    Raises:
        UserError: If a key is the table's own, or has several values.
    """
    for word in words:
        name, values = split_values(word)
        name = current_name(TrainConfig, name)
        check_not_own(name, ReproduceConfig)
        own = {**OWN, "init_from": "some rows start from the networks of others"} if any(r.after for r in rows) else OWN
        if name in own:
            raise UserError(f"'{name}' cannot be given: {own[name]}")
        if len(values) > 1:
            raise UserError(f"'{word}' has several values, but the settings of a table are its rows; give one of them")


def check_only_lists(config: ReproduceConfig) -> None:
    """Check that a command without a table has only the keys of a list.

    Raises:
        UserError: If it has another one, which is meant for the runs of a table.
    """
    for word in config.changes or []:
        name = word.partition("=")[0]
        near = own_key_near(current_name(TrainConfig, name), ReproduceConfig)
        hint = f"did you mean '{near}' by '{shown(name)}'?" if near else f"'{shown(word)}' is for the runs of one"
        raise UserError(f"name the table: table=NAME; {hint}")
    for each in fields(config):
        if each.name not in OF_A_LIST and getattr(config, each.name) != default_of(each):
            raise UserError(f"name the table: table=NAME; {each.name}= is for the runs of one")


def for_tasks(table: PublishedTable, words: Sequence[str]) -> PublishedTable:
    """Return the table, without the source's numbers if the user chooses the tasks: they are those of other tasks."""
    if not any(word.startswith(("tasks=", "suite=")) for word in words):
        return table
    rows = [replace(row, success=None, interval=None, hours=None, episode_return=None) for row in table.rows]
    return replace(table, paper=None, rows=tuple(rows), is_for_other_tasks=table.paper is not None)


def check_rows_differ(settings: Mapping[str, Setting], words: Sequence[str]) -> None:
    """Check that no two rows are the same.

    Raises:
        UserError: If two are, since the user gave both what they differ in.
    """
    seen: dict[str, str] = {}
    for key, setting in settings.items():
        other = seen.setdefault(json.dumps(identity(setting.config), sort_keys=True), key)
        if other != key:
            raise UserError(
                f"with {' '.join(words)} the rows '{other}' and '{key}' are the same; leave out what they differ in, "
                "or choose one of them with rows="
            )


def other_than_published(words: Sequence[str]) -> list[str]:
    """Return a line that names the words that change what is learned; device, physics backend and outputs do not."""
    names = [word for word in words if not is_portable(current_name(TrainConfig, word.partition("=")[0]))]
    return [f"this is not the published table: all runs have {' '.join(names)}"] if names else []
