"""What other libraries' data sets have no place for: a table of our own beside the data, with one row per episode.

Its columns are the views of the end as PNG files, the commanded task, the policy, the seed, and the number in the
store. With them, `mtopt import` reads episodes that equal the exported ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polytask.datasets.incoming import Incoming
from polytask.errors import UserError
from polytask.mtopt.store import EpisodeStore, png


def write_whole(path: Path, store: EpisodeStore, episodes: Sequence[int]) -> None:
    """Write the table of a data set that has these episodes of a store, in their order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "episode": pa.int64(),
        "task": pa.string(),
        "policy": pa.string(),
        "seed": pa.int64(),
        "outcome": pa.list_(pa.binary()),
    }
    rows = [_row(store, number) for number in episodes]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), path)


def _row(store: EpisodeStore, number: int) -> dict[str, Any]:
    about, outcome = store.row(number), store.outcome(number)
    return {
        "episode": number,
        "task": about.task,
        "policy": about.policy,
        "seed": about.seed,
        "outcome": [png.encode(view) for view in outcome],
    }


def read_whole(path: Path) -> dict[int, dict[str, Any]]:
    """Return the rows by the episode's number in the data set; nothing in the data set of another program."""
    if not path.exists():
        return {}
    table = read_table(path)
    names = list(table)
    return {number: dict(zip(names, row, strict=True)) for number, row in enumerate(zip(*table.values(), strict=True))}


def read_table(path: Path, columns: list[str] | None = None) -> dict[str, list[Any]]:
    """Read a Parquet table.

    Raises:
        UserError: If it is missing or damaged, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found: dict[str, list[Any]] = pq.read_table(path, columns=columns).to_pydict()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"'{path}' is missing or damaged: {str(error).splitlines()[0]}") from error
    missing = [name for name in columns or () if name not in found]
    if missing:
        raise UserError(f"'{path}' has no column '{missing[0]}'")
    return found


def once_each(copies: Iterable[tuple[int | None, Incoming]]) -> Iterator[Incoming]:
    """Yield episodes once: an export has a copy for each task that learns from one.

    Args:
        copies: Each with its number in the store, which tells copies of one episode; None in the data set of another
            program, whose episodes are passed on as they come.

    Yields:
        Those of another program, then ours in the order of the store, each with the successes that its copies state.
    """
    ours: dict[int, Incoming] = {}
    for number, one in copies:
        if number is None:
            yield one
        else:
            before = ours.get(number, one)
            ours[number] = replace(before, success={**before.success, **one.success})
    yield from (ours[number] for number in sorted(ours))
