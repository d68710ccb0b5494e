"""The store of all collected episodes and of all verdicts on them.

    ROOT/shards/WRITER-000000.tar    episodes; files are only appended to (`shards.py`, `writer.py`)
    ROOT/index.sqlite                rows of episodes, truth and labels (`index.py`)
    ROOT/labels.jsonl                labels of people and of their stand-in again (`label_log.py`)

A new task or a new success detector adds label rows; no shard changes. After `kill -9` at any moment the store opens,
every episode that was entered can be read, and each killed process loses at most the append it was writing. If the
index is lost or damaged, it is rebuilt from the shards and from the file of labels (`rebuild.py`). Verdicts of
detectors exist only in the index; a detector judges again.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polytask.errors import UserError
from polytask.files import make_folder
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import ACTION_DIM, Episode, Label
from polytask.mtopt.store import check, label_log, rebuild, shards
from polytask.mtopt.store.index import Commanded, DamagedIndexError, EpisodeRow, Index, index_lock
from polytask.mtopt.store.label_table import DETECTOR, LabelTable
from polytask.mtopt.store.png import DamagedError
from polytask.mtopt.store.tallies import Tallies, Tally
from polytask.mtopt.store.threads import spread
from polytask.mtopt.store.writer import ShardWriter
from polytask.result import note

# A person's labels outrank a detector's. The stand-in's labels come from the simulator's truth, so they only train
# detectors and never become rewards.
PERSON = "person"
_SOURCE = re.compile(r"person|oracle|detector:.+")
_LAST = 2**63 - 1
_Read = TypeVar("_Read")


class EpisodeStore:
    """Episodes and labels in a folder; several processes of one machine may have it open."""

    INDEX = "index.sqlite"

    def __init__(self, root: str | Path, config: StoreConfig | None = None, *, rebuilds: bool = True) -> None:
        """Open a store, or create it if there is none.

        Args:
            root: Its folder.
            config: How to write.
            rebuilds: Rebuild an index that is lost or damaged although there are episodes, and print a note about it;
                otherwise this is an error.

        Raises:
            UserError: If the system refuses, or the index cannot be read.
        """
        self.root, self.config = Path(root).expanduser(), config or StoreConfig()
        self._folder = self.root / "shards"
        make_folder(self._folder)
        path = self.root / self.INDEX
        rebuild.finish(path)
        # A writer opens the index before it writes an episode, so shards without an index are those of a lost one.
        has_episodes = any(shard.stat().st_size for shard in check.files(self._folder))
        try:
            self._index = self._open_index(path, must_exist=has_episodes)
        except DamagedIndexError:
            if not (has_episodes and rebuilds):
                raise
            if done := rebuild.rebuild(path, self._folder):
                note(done.line())
            self._index = self._open_index(path, must_exist=True)
        self._labels, self._tallies = LabelTable(self._index), Tallies(self._index)

    def _open_index(self, path: Path, *, must_exist: bool) -> Index:
        busy, durable = self.config.busy_seconds, self.config.fsync
        return Index(path, busy=busy, durable=durable, must_exist=must_exist)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the folder and the settings; another process opens the store again."""
        return EpisodeStore, (self.root, self.config)

    def __len__(self) -> int:
        """Count the episodes."""
        return self._index.count()

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    def writer(self, name: str) -> ShardWriter:
        """Return a writer that appends episodes to shards whose names begin with `name`."""
        return ShardWriter(self._folder, self._index, name, self.config)

    def rows(self, after: int = 0, limit: int | None = None) -> list[EpisodeRow]:
        """Return episodes in the order in which they were entered.

        Args:
            after: Only episodes with a greater id. Ids increase in the order of entry.
            limit: Largest number of episodes.
        """
        return self._index.rows(after, limit)

    def commanded(self, after: int, limit: int) -> list[Commanded]:
        """Return tasks and lengths of episodes with greater ids, at most `limit`, in the order of entry."""
        return self._index.commanded(after, limit)

    def last(self) -> int:
        """Return the id of the last episode; 0 if there is none."""
        return self._index.last()

    def count_seed(self, seed: int) -> int:
        """Count the episodes of a seed: those of one order of a collector, or with 0 uploads and imports."""
        return self._index.count_seed(seed)

    def has(self, episode: int) -> bool:
        """Return whether there is such an episode."""
        return bool(self._index.known([episode]))

    def first_made(self) -> int | None:
        """Return the first episode that a robot made; None if there are only uploads, or nothing."""
        return self._index.first_made()

    def examples(self) -> list[int]:
        """Return the episodes without actions: pictures that people uploaded."""
        return self._index.examples()

    def row(self, episode: int) -> EpisodeRow:
        """Return the row of one episode."""
        return self.rows_of([episode])[0]

    def rows_of(self, episodes: Collection[int]) -> list[EpisodeRow]:
        """Return the rows of some episodes, in the given order."""
        return self._index.find(episodes)

    def read(self, episode: int) -> Episode:
        """Read an episode, without the simulator's truth."""
        return self.read_many([episode])[0]

    def outcome(self, episode: int) -> NDArray[np.uint8]:
        """Read only the views of an episode's end, (V, S, S, 3)."""
        return self.outcomes([episode])[0]

    def read_many(self, episodes: Sequence[int], *, with_outcome: bool = True) -> list[Episode]:
        """Read episodes as `read` does, in the configured number of threads.

        Args:
            episodes: Their ids.
            with_outcome: Also read the views of their ends, about half of the work; otherwise the results have none.

        Raises:
            UserError: If an episode does not exist or is damaged.
        """
        rows = self._index.find(episodes)

        def read(file: int, place: int) -> Episode:
            row = rows[place]
            return shards.unpack(_bytes(file, row.offset, row.size), with_outcome=with_outcome)

        return self._map(read, rows)

    def outcomes(self, episodes: Sequence[int]) -> NDArray[np.uint8]:
        """Read only the views (B, V, S, S, 3) of the ends of at least one episode, in threads as `read_many` does."""
        rows = self._index.find(episodes)

        def read(file: int, place: int) -> NDArray[np.uint8]:
            return self._views(file, rows[place])

        model = self._model(rows)
        shape = self._map(lambda file, _: self._views(file, model), [model])[0].shape
        found = np.empty((len(rows), *shape), np.uint8)

        def copy(file: int, place: int) -> None:
            # Copied to its place at once, so that the next decompression reuses the memory.
            views = read(file, place)
            if views.shape != shape and not rows[place].length:
                views = fitted(views, shape)
            if views.shape != shape:
                raise DamagedError(f"its views are {views.shape}, those of episode {model.id} {shape}")
            found[place] = views

        self._map(copy, rows)
        return found

    def _model(self, rows: Sequence[EpisodeRow]) -> EpisodeRow:
        """Return the episode whose views have the shape of all: one that a robot made, if there is one.

        A picture that was uploaded before the first episode may have another shape.
        """
        made = next((row for row in rows if row.length), None)
        if made is not None:
            return made
        number = self._index.first_made()
        return rows[0] if number is None else self.row(number)

    @staticmethod
    def _views(file: int, row: EpisodeRow) -> NDArray[np.uint8]:
        return shards.unpack_outcome(_bytes(file, row.outcome_offset, row.outcome_size), row.views)

    def truth(self, episode: int) -> dict[str, bool]:
        """Return the simulator's truth on an episode, for evaluation and for the stand-in only."""
        self._index.find([episode])
        return self._index.truth(episode)

    def add_labels(self, labels: Sequence[Label]) -> None:
        """Append labels, all or none of them; the newest of an episode, task and source counts.

        A label with the value NaN withdraws the source's earlier label.

        Raises:
            UserError: If a value, a source or an episode is not valid.
        """
        for one in labels:
            if not (0.0 <= one.value <= 1.0 or math.isnan(one.value)):
                raise UserError(f"a label's value must lie in [0, 1], or be NaN to withdraw it; not {one.value}")
            if not one.task:
                raise UserError("a label needs a task")
        for source in {one.source for one in labels}:
            if not _SOURCE.fullmatch(source):
                raise UserError(f"a label's source must be 'person', 'oracle' or 'detector:VERSION', not '{source}'")
        made = self._labels.add(labels)
        self._log([one for one in labels if label_log.is_logged(one.source)], made)

    def _log(self, labels: Sequence[Label], made: float) -> None:
        """Write labels beside the shards, too; see `label_log`."""
        if not labels:
            return
        path = self.root / label_log.NAME
        with index_lock(self.root / self.INDEX):  # two processes must not both write the labels so far
            if path.exists():
                places = {row.id: (row.shard, row.offset) for row in self._index.find({one.episode for one in labels})}
                lines = [label_log.logged(one, places[one.episode], made) for one in labels]
            else:
                lines = self._labels.logged()
            label_log.append(path, lines, durable=self.config.fsync)

    def labels(self, task: str | None = None, source: str | None = None) -> list[Label]:
        """Return the labels that count, the newest last."""
        return self._labels.labels(task, source)

    def rewards(
        self, task: str, detector: str, threshold: float = 0.5, *, after: int = 0, until: int = _LAST
    ) -> dict[int, bool]:
        """Return for every episode with a verdict on a task whether it is a success.

        A person's label outranks the detector's. The stand-in's (`oracle`) does not count: it trains detectors, but no
        reward may come from the simulator's truth.

        Args:
            task: The task.
            detector: Version of the detector.
            threshold: A detector's probability above this is a success; for people's labels the threshold is one half.
            after: Only episodes with greater ids...
            until: ... up to this one.
        """
        chosen = self._labels.newest(task, f"{DETECTOR}{detector}", after, until)
        verdicts = {episode: value > threshold for episode, value in chosen.items()}
        newest = self._labels.newest(task, PERSON, after, until)
        verdicts |= {episode: value > 0.5 for episode, value in newest.items()}
        return dict(sorted(verdicts.items()))

    def tally(self, task: str, detector: str, threshold: float, *, after: int = 0) -> list[Tally]:
        """Count the verdicts on a task, as `rewards` gives them, by commanded task and policy; uploads do not count.

        Args:
            task: The task.
            detector: Version of the detector.
            threshold: A detector's probability above this is a success.
            after: Episodes with greater ids are counted apart.
        """
        return self._tallies.verdicts(task, detector, threshold, after)

    def counts_by(self, column: str) -> dict[str, int]:
        """Count the episodes by `task` or by `policy`."""
        place = ("task", "policy").index(column)
        counts = Counter[str]()
        for kind, count in self._tallies.episodes().items():
            counts[kind[place]] += count
        return dict(sorted(counts.items()))

    def label_counts(self, source: str) -> dict[str, int]:
        """Count the labels of a source that count, by task."""
        return self._labels.counts(source)

    def prune_verdicts(self, keep: str) -> int:
        """Remove the verdicts of all detectors but one version, and return their number.

        A detector that is put into use again judges the episodes again. People's labels and the stand-in's stay.
        """
        return self._labels.prune_verdicts(f"{DETECTOR}{keep}")

    def unlabelled(self, task: str, source: str, *, after: int = 0, until: int = _LAST) -> list[int]:
        """Return the episodes that a source has never labelled for a task, which a new detector has to label."""
        return self._labels.unlabelled(task, source, after, until)

    def judged_until(self, tasks: Sequence[str], detector: str, after: int) -> int:
        """Return up to which episode, from `after` on, a detector is known to have labelled all for these tasks."""
        return self._tallies.judged_until(tasks, detector, after)

    def mark_judged(self, tasks: Sequence[str], detector: str, episode: int) -> None:
        """Remember that a detector has labelled the whole block of an episode, all ids of which are in use, if so."""
        self._tallies.mark_judged(tasks, detector, episode)

    def check(self, *, deep: bool = False) -> check.StoreReport:
        """Report counts, truncated shards, and episodes that are lost or missing in the index.

        Args:
            deep: Also read every episode and compare checksums.
        """
        return check.check(self._folder, self._index, deep=deep)

    def recover(self) -> int:
        """Enter whole episodes that the index lacks, and return their number.

        After a kill, this is at most one append of each killed process. Shards that are being written are left out.
        """
        return check.recover(self._folder, self._index)

    def index_problem(self) -> str | None:
        """Return the first problem that SQLite finds in the index; None if there is none."""
        return self._index.problem()

    def mend_tails(self) -> list[tuple[str, int, int]]:
        """Enter whole episodes that the index lacks, and cut off an unfinished one after them.

        Returns:
            Shard, number of entered episodes and number of bytes, where either is not zero.
        """
        tails = self.check().tails
        self.recover()
        done = [(tail.shard, tail.episodes, check.cut_tail(self._folder / tail.shard, self._index)) for tail in tails]
        return [one for one in done if any(one[1:])]

    @classmethod
    def rebuild(cls, root: Path) -> rebuild.Rebuilt | None:
        """Replace the index of a closed store by a new one, whose rows fit the shards; see `rebuild.rebuild`."""
        return rebuild.rebuild(root / cls.INDEX, root / "shards", is_forced=True)

    def _map(self, read: Callable[[int, int], _Read], rows: Sequence[EpisodeRow], start: int = 0) -> list[_Read]:
        """Call `read` with the open shard and the position of each row, from `start` on, in threads."""

        def some(places: Sequence[int]) -> list[_Read]:
            files: dict[str, int] = {}
            found = []
            try:
                for place in places:
                    row = rows[place]
                    if row.shard not in files:
                        files[row.shard] = os.open(self._folder / row.shard, os.O_RDONLY)
                    found.append(read(files[row.shard], place))
            except (DamagedError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                raise UserError(f"episode {row.id} cannot be read from '{row.shard}': {reason}") from error
            finally:
                for file in files.values():
                    os.close(file)
            return found

        return spread(some, range(start, len(rows)), self.config.threads)


def _bytes(file: int, offset: int, size: int) -> bytes:
    content = os.pread(file, size, offset)
    if len(content) < size:
        raise DamagedError(f"the file ends {size - len(content)} bytes too early")
    return content


def fitted(views: NDArray[np.uint8], shape: Sequence[int]) -> NDArray[np.uint8]:
    """Bring uploaded views (V, S, S, 3) to another shape: the nearest pixels, and views again from the first one."""
    count, height, width = shape[:3]
    rows = np.arange(height) * views.shape[1] // height
    columns = np.arange(width) * views.shape[2] // width
    return views[np.arange(count) % len(views)][:, rows][:, :, columns]


def episode_of_pictures(outcome: NDArray[np.uint8], task: str) -> Episode:
    """Make an episode without actions from pictures (V, S, S, 3) that a person uploaded as an example."""
    zero = np.zeros(1, np.float32)
    actions = np.zeros((0, ACTION_DIM), np.float32)
    return Episode(outcome[:1], zero, zero, actions, outcome, task, policy="upload", seed=0)
