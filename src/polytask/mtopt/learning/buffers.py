"""Hold episodes in memory for several tasks at once and draw balanced batches of transitions.

Frames are stored once per episode, in a ring on the device; what a task has of an episode is one verdict. A batch is
drawn in three steps (MT-Opt, arXiv 2104.08212, section on re-balancing): a task, success or failure, then any
transition of that task's episodes with that outcome. Tasks and outcomes are dealt out evenly (systematic sampling): in
every batch each share is met to within one row. Tables of the draw are made on the host when episodes come or go;
a draw itself never waits for the device.

Letters: B batch, C capacity in frames, E episodes, K tasks, H and W of a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.learning import ReplayConfig
from polytask.mtopt.learning.device_episodes import Rows
from polytask.mtopt.policy_names import version_of
from polytask.mtopt.records import ACTION_DIM, POSE_DIM, Episode

_NONE = -1  # verdict on an episode that is not data of a task


class Transitions(NamedTuple):
    """A batch."""

    image: Tensor  # (B, H, W, 3) uint8
    closed: Tensor  # (B,)
    height: Tensor  # (B,) m
    action: Tensor  # (B, 8)
    next_image: Tensor  # (B, H, W, 3) uint8
    next_closed: Tensor  # (B,)
    next_height: Tensor  # (B,) m
    reward: Tensor  # (B,) 1 at the last action of a success
    done: Tensor  # (B,) bool, the last action of an episode
    task: Tensor  # (B,) int64, place in the list of tasks
    success: Tensor  # (B,) bool, of the episode in the task
    remaining: Tensor  # (B,) int64, actions of the episode after this one
    pose: Tensor  # (B, 3) of the hand: x, y (m) and yaw (rad); not a number where the log does not say
    next_pose: Tensor  # (B, 3)
    policy: Tensor  # (B,) int64, version of the weights that acted; 0 for a script


class Counts(NamedTuple):
    """What a task has."""

    success: int  # episodes
    failure: int
    success_steps: int  # transitions
    failure_steps: int


class _Draw(NamedTuple):
    """Tables of the draw. Cell 2 k + s holds the transitions of task k whose episodes have the outcome s."""

    share: Tensor  # (2K,) float64, sum of the shares up to and including each cell
    first: Tensor  # (2K,) number of each cell's first transition when those of all cells are counted through
    steps: Tensor  # (2K,) transitions of each cell
    ends: Tensor  # (M,) number behind the last transition of each episode, cell by cell
    start: Tensor  # (M,) frame of the episode's first transition
    length: Tensor  # (M,)


class TaskBuffers:
    """Episodes of K tasks, each split into successes and failures."""

    def __init__(
        self,
        tasks: Sequence[str],
        image_size: tuple[int, int],
        config: ReplayConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        """Reserve the memory.

        Args:
            tasks: Names in the order of `Transitions.task`.
            image_size: Height and width of a frame.
            config: Capacity and shares.
            device: Where everything lives.
        """
        ratio = config.success_ratio
        if ratio is not None and not 0.0 <= ratio <= 1.0:
            raise UserError(f"success_ratio={ratio}: a share between 0 and 1, or null for that of the data")
        if config.capacity < 2:
            raise UserError(f"capacity={config.capacity}: the shortest episode has 2 frames")
        self.tasks, self.config, self.device = tuple(tasks), config, torch.device(device)
        size, capacity = tuple(image_size), config.capacity
        self._image = torch.zeros(capacity, *size, 3, dtype=torch.uint8, device=device)  # (C, H, W, 3)
        self._closed = torch.zeros(capacity, device=device)  # (C,)
        self._height = torch.zeros(capacity, device=device)  # (C,)
        self._action = torch.zeros(capacity, ACTION_DIM, device=device)  # (C, 8), zero for the last frame of an episode
        self._pose = torch.full((capacity, POSE_DIM), torch.nan, device=device)  # (C, 3)
        self._policy = torch.zeros(capacity, dtype=torch.int64, device=device)  # (C,)
        # Episodes lie in a ring of their own, on the host. Each has at least two frames, hence the size.
        rows = capacity // 2
        self._number = np.zeros(rows, np.int64)
        self._start = np.zeros(rows, np.int64)  # of its frames
        self._length = np.zeros(rows, np.int64)  # actions
        self._verdict = np.full((rows, len(self.tasks)), _NONE, np.int8)
        self._row_of: dict[int, int] = {}  # in the order of adding
        self._next_row = 0
        self._next_frame = 0
        self._frames = 0
        self.has_forgotten = False  # some episode had to make room
        self._draw: _Draw | None = None

    def __len__(self) -> int:
        """Count the episodes."""
        return len(self._row_of)

    def __contains__(self, number: int) -> bool:
        """Tell whether an episode is held."""
        return number in self._row_of

    @property
    def episodes(self) -> tuple[int, ...]:
        """Numbers of the episodes held, oldest first."""
        return tuple(self._row_of)

    def add(self, number: int, episode: Episode, verdicts: Mapping[str, bool]) -> None:
        """Take an episode in as data of the named tasks; the oldest ones make room.

        Args:
            number: Its id; one that is held already keeps its frames and gets the new verdicts.
            episode: What the robot saw and did.
            verdicts: Task -> success. Tasks that are not named have no part in it.
        """
        self.add_all([(number, episode, verdicts)])

    def add_all(self, entries: Iterable[tuple[int, Episode, Mapping[str, bool]]]) -> None:
        """Take episodes in one after the other, as `add` does, but send their frames to the device together.

        Args:
            entries: Id, episode and verdicts of each.
        """
        capacity = self.config.capacity
        start, waiting, total = self._next_frame, list[Episode](), 0
        try:
            for number, episode, verdicts in entries:
                if number not in self._row_of:
                    self._check(number, episode, verdicts)
                    frames = len(episode.images)
                    if total + frames > capacity:  # once around: it would take the place of one that waits
                        self._write(start, waiting)
                        start, waiting, total = self._next_frame, [], 0
                    while self._frames + frames > capacity:
                        self._evict()
                    self._enter(number, frames)
                    waiting.append(episode)
                    total += frames
                self.assign(number, verdicts)
        finally:  # those before one that is refused are entered already
            self._write(start, waiting)

    def add_many(self, numbers: Sequence[int], rows: Rows, verdicts: Tensor, policy: int = 0) -> None:
        """Take in many episodes that lie on the device already, such as one of each of many worlds.

        Args:
            numbers: Their ids, none of which is held.
            rows: What the robots saw and did.
            verdicts: (N, K) 1 success, 0 failure, -1 no part, for each episode and task of the buffers.
            policy: Version of the weights that acted; 0 for a script.
        """
        lengths, table = rows.length.cpu().numpy(), verdicts.to(torch.int8).cpu().numpy()
        keep = np.flatnonzero(lengths)  # no action, no transition
        if int((lengths[keep] + 1).sum()) > self.config.capacity:
            raise UserError(f"{len(keep)} episodes have more frames than the buffers hold, {self.config.capacity}")
        starts = np.zeros(len(lengths), np.int64)
        for index in keep.tolist():
            number, frames = numbers[index], int(lengths[index]) + 1
            if number in self._row_of:
                raise UserError(f"episode {number} is held already")
            while self._frames + frames > self.config.capacity:
                self._evict()
            starts[index] = self._next_frame
            self._verdict[self._enter(number, frames)] = table[index]
        length = rows.length.to(self.device)
        step = torch.arange(rows.images.shape[1], device=self.device)
        is_frame = (step <= length[:, None]) & (length[:, None] > 0)  # (N, T + 1)
        place = (torch.from_numpy(starts).to(self.device)[:, None] + step)[is_frame] % self.config.capacity
        self._image[place], self._closed[place] = rows.images[is_frame], rows.closed[is_frame]
        self._height[place] = rows.height[is_frame]
        action = torch.nn.functional.pad(rows.actions, (0, 0, 0, 1)) * (step < length[:, None])[..., None]
        self._action[place] = action[is_frame]
        self._pose[place] = torch.nan if rows.pose is None else rows.pose[is_frame]
        self._policy[place] = policy
        self._draw = None

    def assign(self, number: int, verdicts: Mapping[str, bool]) -> None:
        """Replace the verdicts on an episode that is held."""
        if number not in self._row_of:
            raise UserError(f"episode {number} is not held")
        self._check_tasks(verdicts)
        self._verdict[self._row_of[number]] = [int(verdicts.get(name, _NONE)) for name in self.tasks]
        self._draw = None

    def verdicts(self, number: int) -> dict[str, bool]:
        """Return the verdicts on an episode that is held."""
        row = self._verdict[self._row_of[number]]
        return {name: bool(value) for name, value in zip(self.tasks, row, strict=True) if value != _NONE}

    def counts(self) -> dict[str, Counts]:
        """Count the episodes and transitions of every task."""
        result = {}
        for index, name in enumerate(self.tasks):
            success, failure = self._verdict[:, index] == 1, self._verdict[:, index] == 0
            steps = (int(self._length[success].sum()), int(self._length[failure].sum()))
            result[name] = Counts(int(success.sum()), int(failure.sum()), *steps)
        return result

    def sample(self, batch: int, generator: torch.Generator) -> Transitions:
        """Draw transitions, sorted by task.

        Args:
            batch: Rows.
            generator: On the device of the buffers.
        """
        draw = self._draw = self._draw or self._tables()
        uniform = torch.rand(batch + 1, generator=generator, device=self.device, dtype=torch.float64)
        position = (torch.arange(batch, device=self.device) + uniform[-1]) / batch  # (B,) evenly spread over [0, 1)
        cell = torch.searchsorted(draw.share, position, right=True)  # (B,)
        steps = draw.steps[cell]
        number = draw.first[cell] + (uniform[:-1] * steps).long().clamp(max=steps - 1)
        entry = torch.searchsorted(draw.ends, number, right=True)
        length = draw.length[entry]
        step = number - (draw.ends[entry] - length)
        return self._gather((draw.start[entry] + step) % self.config.capacity, cell, length - 1 - step)

    def state_dict(self) -> dict[str, Any]:
        """Return which episodes are held, where, and the verdicts; frames are read again from the store."""
        rows = list(self._row_of.values())
        arrays: dict[str, NDArray[Any]]
        arrays = {"number": self._number, "start": self._start, "length": self._length, "verdict": self._verdict}
        state: dict[str, Any] = {name: torch.from_numpy(array[rows]) for name, array in arrays.items()}
        return {
            **state,
            "row": torch.tensor(rows, dtype=torch.int64),
            "tasks": self.tasks,
            "capacity": self.config.capacity,
            "has_forgotten": self.has_forgotten,
        }

    def load_state_dict(self, state: Mapping[str, Any], read: Callable[[int], Episode]) -> None:
        """Hold again what was held, so that the same draws follow.

        Args:
            state: From `state_dict`.
            read: Returns an episode by its number, such as `EpisodeStore.read`.
        """
        if tuple(state["tasks"]) != self.tasks or state["capacity"] != self.config.capacity:
            raise UserError(
                f"the saved buffers hold {state['capacity']} frames for {', '.join(state['tasks'])}; "
                f"these hold {self.config.capacity} for {', '.join(self.tasks)}"
            )
        self._verdict[:] = _NONE
        self._row_of, self._frames, self._draw = {}, 0, None
        self._next_row = self._next_frame = 0
        self.has_forgotten = bool(state["has_forgotten"])
        rows = state["row"].numpy()
        self._number[rows], self._start[rows] = state["number"].numpy(), state["start"].numpy()
        self._length[rows], self._verdict[rows] = state["length"].numpy(), state["verdict"].numpy()
        for row in rows.tolist():
            number, start = int(self._number[row]), int(self._start[row])
            frames = int(self._length[row]) + 1
            self._write(start, [read(number)])
            self._row_of[number] = row
            self._next_row, self._next_frame = (row + 1) % len(self._number), (start + frames) % self.config.capacity
            self._frames += frames

    def _enter(self, number: int, frames: int) -> int:
        """Give an episode the next row and the next frames; return the row."""
        row = self._next_row
        self._number[row], self._start[row], self._length[row] = number, self._next_frame, frames - 1
        self._row_of[number] = row
        self._next_row = (row + 1) % len(self._number)
        self._next_frame = (self._next_frame + frames) % self.config.capacity
        self._frames += frames
        return row

    def _check_tasks(self, verdicts: Mapping[str, bool]) -> None:
        unknown = [name for name in verdicts if name not in self.tasks]
        if unknown:
            raise UserError(f"there is no buffer for '{unknown[0]}'; there are {', '.join(self.tasks)}")

    def _check(self, number: int, episode: Episode, verdicts: Mapping[str, bool]) -> None:
        self._check_tasks(verdicts)
        frames, size = len(episode.images), tuple(self._image.shape[1:3])
        if not len(episode.actions):
            raise UserError(f"episode {number} has no actions, so there is no transition to learn from")
        if episode.images.shape[1:3] != size:
            raise UserError(f"episode {number} has frames of {episode.images.shape[1:3]}, the buffers of {size}")
        if frames > self.config.capacity:
            raise UserError(f"episode {number} has {frames} frames, the buffers hold {self.config.capacity}")

    def _write(self, start: int, episodes: Sequence[Episode]) -> None:
        """Copy the frames of episodes, one behind the other from `start` on, to the device: one copy for each field."""
        if not episodes:
            return
        frames = [len(one.images) for one in episodes]
        place = (start + torch.arange(sum(frames), device=self.device)) % self.config.capacity
        last = np.zeros((1, ACTION_DIM), np.float32)
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

    def _evict(self) -> None:
        """Forget the oldest episode, in all tasks."""
        number = next(iter(self._row_of))
        row = self._row_of.pop(number)
        self._verdict[row] = _NONE
        self._frames -= int(self._length[row]) + 1
        self.has_forgotten = True

    def _tables(self) -> _Draw:
        """Make the tables of the draw."""
        cells = [
            np.flatnonzero(self._verdict[:, index] == outcome) for index in range(len(self.tasks)) for outcome in (0, 1)
        ]
        steps = np.array([self._length[rows].sum() for rows in cells], np.int64)
        if not steps.any():
            raise UserError("the buffers are empty: there is nothing to draw")
        rows = np.concatenate(cells)
        length = self._length[rows]
        share = shares(steps.reshape(-1, 2), self.config).reshape(-1)
        last = np.flatnonzero(share)[-1]
        share = share.cumsum()
        share[last:] = np.inf  # rounding must not send a position to a cell behind the last one that has a share
        tables = (share, steps.cumsum() - steps, steps, length.cumsum(), self._start[rows], length)
        return _Draw(*(torch.from_numpy(table).to(self.device) for table in tables))

    def _gather(self, frame: Tensor, cell: Tensor, remaining: Tensor) -> Transitions:
        """Read the rows (B,) of a batch."""
        after = (frame + 1) % self.config.capacity
        done, success = remaining == 0, cell % 2 == 1
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
            task=cell // 2,
            success=success,
            remaining=remaining,
            pose=self._pose[frame],
            next_pose=self._pose[after],
            policy=self._policy[frame],
        )


def shares(steps: NDArray[np.int64], config: ReplayConfig) -> NDArray[np.float64]:
    """Return the share of a batch of each task and outcome, (K, 2), from its transitions; failures come first."""
    count = steps.astype(np.float64)
    total = count.sum(1, keepdims=True)
    task = (total > 0).astype(np.float64) if config.balance_tasks else total
    within = count / np.maximum(total, 1.0)
    if config.success_ratio is not None:
        wanted = np.array([1.0 - config.success_ratio, config.success_ratio])
        has_both = (count > 0).all(1, keepdims=True)
        within = np.where(has_both, wanted, within)
    return task / task.sum() * within
