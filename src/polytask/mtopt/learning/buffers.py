"""Hold episodes in memory for several tasks at once and draw balanced batches of transitions.

Frames are stored once per episode, on the device, wherever there is room. A task adds only its verdict on the episode.
`reservoir.py` decides which episodes of a log are held, `balance.py` which transitions a batch has. A draw depends on
the episodes that are held and on their verdicts, not on the order in which they came.

Letters: B batch, C capacity in frames, E episodes, K tasks, H and W of a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.learning import ReplayConfig
from polytask.mtopt.learning.balance import DrawnRows, DrawTables, draw_tables
from polytask.mtopt.learning.device_episodes import DeviceEpisodes
from polytask.mtopt.learning.transitions import Transitions
from polytask.mtopt.policy_names import version_of
from polytask.mtopt.records import ACTION_DIM, POSE_DIM, Episode
from polytask.mtopt.task_table import require_tasks

NOT_USED = -1  # verdict of a task that does not use an episode


class BufferCounts(NamedTuple):
    """Episodes and transitions of one task in the buffers."""

    success: int  # episodes
    failure: int
    success_steps: int  # transitions
    failure_steps: int


class TaskBuffers:
    """Episodes of K tasks, each split into successes and failures."""

    def __init__(
        self,
        tasks: Sequence[str],
        image_size: tuple[int, int],
        config: ReplayConfig,
        device: torch.device | str = "cpu",
        *,
        needs_pose: bool = False,
        action_size: int = ACTION_DIM,
    ) -> None:
        """Reserve the memory.

        Args:
            tasks: Names in the order of `Transitions.task`.
            image_size: Height and width of a frame.
            config: Capacity and shares.
            device: Where frames are stored and batches are drawn.
            needs_pose: Refuse episodes without the hand's pose, because the network would compute NaN without it.
            action_size: Numbers of an action.

        Raises:
            UserError: If the capacity or the ratio is not valid.
        """
        check(config)
        self.tasks, self.config, self.device = tuple(tasks), config, torch.device(device)
        size, capacity = tuple(image_size), config.capacity
        self._image = torch.zeros(capacity, *size, 3, dtype=torch.uint8, device=device)  # (C, H, W, 3)
        self._closed = torch.zeros(capacity, device=device)  # (C,)
        self._height = torch.zeros(capacity, device=device)  # (C,)
        self._action = torch.zeros(capacity, action_size, device=device)  # (C, A), zero for an episode's last frame
        self._pose = torch.full((capacity, POSE_DIM), torch.nan, device=device)  # (C, 3)
        self._policy = torch.zeros(capacity, dtype=torch.int64, device=device)  # (C,)
        # The host lists the episodes in rows. Each has at least two frames, hence their number.
        rows = capacity // 2
        self._length = np.zeros(rows, np.int64)  # actions
        self._verdict = np.full((rows, len(self.tasks)), NOT_USED, np.int8)
        self._places: dict[int, NDArray[np.int64]] = {}  # row -> its frames
        self._row_of: dict[int, int] = {}  # episode -> row, in the order of adding
        self._free_rows = list(range(rows - 1, -1, -1))
        self._free = np.arange(capacity - 1, -1, -1)  # a stack of free frames; its first `capacity - _frames` count
        self._frames = 0
        self._needs_pose = needs_pose
        self._draw: DrawTables | None = None
        self._place = torch.zeros(0, dtype=torch.int64, device=device)  # frames of all episodes, one after the other

    def __len__(self) -> int:
        """Count the episodes."""
        return len(self._row_of)

    def __contains__(self, number: int) -> bool:
        """Return whether an episode is held."""
        return number in self._row_of

    @property
    def episodes(self) -> tuple[int, ...]:
        """Numbers of the episodes held, oldest first."""
        return tuple(self._row_of)

    def add(self, number: int, episode: Episode, verdicts: Mapping[str, bool]) -> None:
        """Add an episode as data of the named tasks; if there is no room, the oldest episodes are removed.

        Args:
            number: Its id; an episode that is held already keeps its frames and gets the new verdicts.
            episode: What the robot saw and did.
            verdicts: Task -> success. Tasks that are not named do not use it.
        """
        self.add_episodes([(number, episode, verdicts)])

    def add_episodes(self, entries: Iterable[tuple[int, Episode, Mapping[str, bool]]]) -> None:
        """Add episodes in order, as `add` does, but copy their frames to the device together.

        Args:
            entries: Id, episode and verdicts of each.
        """
        waiting, total = list[tuple[NDArray[np.int64], Episode]](), 0
        try:
            for number, episode, verdicts in entries:
                if number not in self._row_of:
                    self._check(number, episode, verdicts)
                    frames = len(episode.images)
                    if total + frames > self.config.capacity:  # it would take the frames of an episode that waits
                        self._write(waiting)
                        waiting, total = [], 0
                    waiting.append((self._places[self._enter(number, frames)], episode))
                    total += frames
                self.assign(number, verdicts)
        finally:  # episodes before a refused one are entered already
            self._write(waiting)

    def add_from_device(self, numbers: Sequence[int], rows: DeviceEpisodes, verdicts: Tensor) -> None:
        """Add many episodes that are on the device already, such as one of each of many worlds.

        Args:
            numbers: Their ids, none of which is held.
            rows: What the robots saw and did.
            verdicts: (N, K) 1 success, 0 failure, -1 not used, for each episode and task of the buffers.

        Raises:
            UserError: If an episode is held already, or all of them do not fit.
        """
        lengths, table = rows.length.cpu().numpy(), verdicts.to(torch.int8).cpu().numpy()
        keep = np.flatnonzero(lengths)  # an episode without actions has no transition
        if int((lengths[keep] + 1).sum()) > self.config.capacity:
            raise UserError(f"{len(keep)} episodes have more frames than the buffers hold, {self.config.capacity}")
        if rows.pose is None and self._needs_pose:
            raise UserError(_no_pose("the episodes have"))
        places = []
        for index in keep.tolist():
            number, frames = numbers[index], int(lengths[index]) + 1
            if number in self._row_of:
                raise UserError(f"episode {number} is held already")
            row = self._enter(number, frames)
            self._verdict[row] = table[index]
            places.append(self._places[row])
        if not places:
            return
        length = rows.length.to(self.device)
        step = torch.arange(rows.images.shape[1], device=self.device)
        is_frame = (step <= length[:, None]) & (length[:, None] > 0)  # (N, T + 1)
        place = self._joined(places)
        self._image[place], self._closed[place] = rows.images[is_frame], rows.closed[is_frame]
        self._height[place] = rows.height[is_frame]
        action = torch.nn.functional.pad(rows.actions, (0, 0, 0, 1)) * (step < length[:, None])[..., None]
        self._action[place] = action[is_frame]
        self._pose[place] = torch.nan if rows.pose is None else rows.pose[is_frame]
        self._policy[place] = 0  # what acted is not known here
        self._draw = None

    def assign(self, number: int, verdicts: Mapping[str, bool]) -> None:
        """Replace the verdicts on an episode that is held."""
        if number not in self._row_of:
            raise UserError(f"episode {number} is not held")
        require_tasks(verdicts, self.tasks)
        self._verdict[self._row_of[number]] = [int(verdicts.get(name, NOT_USED)) for name in self.tasks]
        self._draw = None

    def assign_many(self, numbers: Sequence[int], verdicts: NDArray[np.int8]) -> None:
        """Replace the verdicts (E, K) on episodes that are held: 1 success, 0 failure, -1 not used."""
        self._verdict[[self._row_of[number] for number in numbers]] = verdicts
        self._draw = None

    def drop(self, numbers: Iterable[int]) -> None:
        """Remove episodes that are held from all tasks."""
        for number in numbers:
            row = self._row_of.pop(number)
            places = self._places.pop(row)
            left = self.config.capacity - self._frames
            self._free[left : left + len(places)] = places
            self._frames -= len(places)
            self._verdict[row] = NOT_USED
            self._free_rows.append(row)
        self._draw = None

    def verdicts(self, number: int) -> dict[str, bool]:
        """Return the verdicts on an episode that is held."""
        row = self._verdict[self._row_of[number]]
        return {name: bool(value) for name, value in zip(self.tasks, row, strict=True) if value != NOT_USED}

    def counts(self) -> dict[str, BufferCounts]:
        """Count the episodes and transitions of every task."""
        result = {}
        for index, name in enumerate(self.tasks):
            success, failure = self._verdict[:, index] == 1, self._verdict[:, index] == 0
            steps = (int(self._length[success].sum()), int(self._length[failure].sum()))
            result[name] = BufferCounts(int(success.sum()), int(failure.sum()), *steps)
        return result

    def sample(self, batch: int, generator: torch.Generator) -> Transitions:
        """Draw transitions, sorted by task.

        Args:
            batch: Rows.
            generator: On the device of the buffers.

        Raises:
            UserError: If the buffers are empty.
        """
        self._draw = self._draw or self._tables()
        return self._gather(self._draw.draw(batch, generator))

    def _enter(self, number: int, frames: int) -> int:
        """Give a row and frames to an episode, those of the oldest ones if none are free; return the row."""
        while self._frames + frames > self.config.capacity:
            self.drop([next(iter(self._row_of))])
        row, left = self._free_rows.pop(), self.config.capacity - self._frames
        self._places[row], self._length[row] = self._free[left - frames : left].copy(), frames - 1
        self._row_of[number] = row
        self._frames += frames
        return row

    def _check(self, number: int, episode: Episode, verdicts: Mapping[str, bool]) -> None:
        require_tasks(verdicts, self.tasks)
        frames, size = len(episode.images), tuple(self._image.shape[1:3])
        if episode.pose is None and self._needs_pose:
            raise UserError(_no_pose(f"episode {number} has"))
        if not len(episode.actions):
            raise UserError(f"episode {number} has no actions, so it has no transition to learn from")
        if episode.images.shape[1:3] != size:
            raise UserError(f"episode {number} has frames of {episode.images.shape[1:3]}, the buffers of {size}")
        if episode.actions.shape[1] != self._action.shape[1]:
            found, wanted = episode.actions.shape[1], self._action.shape[1]
            raise UserError(f"episode {number} has actions of {found} numbers, the run's have {wanted}")
        if frames > self.config.capacity:
            raise UserError(f"episode {number} has {frames} frames, the buffers hold {self.config.capacity}")

    def _write(self, entries: Sequence[tuple[NDArray[np.int64], Episode]]) -> None:
        """Copy the frames of episodes to their places on the device, with one copy per field."""
        if not entries:
            return
        episodes = [one for _, one in entries]
        frames = [len(one.images) for one in episodes]
        place = self._joined([places for places, _ in entries])
        last = np.zeros((1, self._action.shape[1]), np.float32)
        poses = [
            np.full((count, POSE_DIM), np.nan, np.float32) if one.pose is None else one.pose
            for one, count in zip(episodes, frames, strict=True)
        ]
        policy = np.repeat([version_of(one.policy) for one in episodes], frames)
        self._image[place] = self._joined([one.images for one in episodes])
        self._closed[place] = self._joined([one.closed for one in episodes])
        self._height[place] = self._joined([one.height for one in episodes])
        self._action[place] = self._joined([part for one in episodes for part in (one.actions, last)])
        self._pose[place] = self._joined(poses)
        self._policy[place] = self._joined([policy])

    def _joined(self, arrays: Sequence[NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays)).to(self.device)

    def _tables(self) -> DrawTables:
        """Make the tables of the draw, with the episodes in the order of their numbers."""
        rows = np.array([self._row_of[number] for number in sorted(self._row_of)], np.int64)
        places = [self._places[row] for row in rows.tolist()] or [np.zeros(0, np.int64)]
        self._place = self._joined(places)
        length, verdict = self._length[rows], self._verdict[rows]
        start = (length + 1).cumsum() - length - 1
        cells = [np.flatnonzero(verdict[:, index] == outcome) for index in range(len(self.tasks)) for outcome in (0, 1)]
        return draw_tables(cells, start, length, self.config, self.device)

    def _gather(self, drawn: DrawnRows) -> Transitions:
        """Read the transitions that were drawn."""
        frame, after = self._place[drawn.start + drawn.step], self._place[drawn.start + drawn.step + 1]
        done, success = drawn.remaining == 0, drawn.cell % 2 == 1
        return Transitions(
            self._image[frame],
            self._closed[frame],
            self._height[frame],
            self._action[frame],
            self._image[after],
            self._closed[after],
            self._height[after],
            reward=(done & success).float(),
            done=done,
            task=drawn.cell // 2,
            success=success,
            remaining=drawn.remaining,
            pose=self._pose[frame],
            next_pose=self._pose[after],
            policy=self._policy[frame],
        )


def _no_pose(who: str) -> str:
    return f"{who} no pose of the hand, which a network with merge=located needs; set learner.network.merge=added"


def check(config: ReplayConfig) -> None:
    """Check the settings of buffers.

    Raises:
        UserError: If the capacity or the ratio is not valid.
    """
    ratio = config.success_ratio
    if ratio is not None and not 0.0 <= ratio <= 1.0:
        raise UserError(f"success_ratio={ratio}: must lie between 0 and 1, or be null for the data's own share")
    if config.capacity < 2:
        raise UserError(f"capacity={config.capacity}: must be at least 2, the frames of the shortest episode")
