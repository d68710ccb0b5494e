"""Turn episodes into tar members and back.

An episode is five members with one key, as readers of WebDataset shards expect:

    KEY.outcome.png   the V views of the end, stacked               (V * S, S, 3)
    KEY.images.png    the T + 1 frames, stacked                     ((T + 1) * H, W, 3)
    KEY.steps.npy     gripper closed, height, action per frame      (T + 1, 10); the last row's action is zero;
                      (T + 1, 13) with the hand's pose at the end, where it is known
    KEY.truth.json    the simulator's truth
    KEY.json          task, policy, seed, length, views, size of an action if not 8, time, and checksums of all members
                      before it and of itself

The last member completes the episode: bytes after the last KEY.json of a shard belong to an episode that was cut off.
"""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.errors import UserError
from polytask.mtopt.records import ACTION_DIM, POSE_DIM, Episode
from polytask.mtopt.store import png
from polytask.mtopt.store.png import DamagedError

FORMAT = 1  # raised when the members change
FIRST = "outcome.png"  # the member that an episode begins with
BLOCK = 512  # tar's unit
END = bytes(2 * BLOCK)  # closes an archive; readers accept one without it
# A member's header without name, size, time and checksum. `tarfile` would need half as long for the headers as the
# compression needs for the pictures, and its code does not run in parallel threads.
_HEADER = tarfile.TarInfo().tobuf(tarfile.USTAR_FORMAT)
_OWN_SUM = "header_crc32"  # last entry of KEY.json: checksum of the others; files of version 0.1 have none
_NO_VIEWS = np.zeros((0, 0, 0, 3), np.uint8)


@dataclass(frozen=True)
class Packed:
    """Place and header of an episode in a shard; offsets count from the first byte of the shard."""

    offset: int
    size: int
    outcome_offset: int  # of the file inside its member
    outcome_size: int
    header: Mapping[str, Any]  # content of KEY.json
    truth: Mapping[str, bool]


@dataclass(frozen=True)
class Scan:
    """The contents of a part of a shard."""

    episodes: list[Packed]
    end: int  # after the last whole episode
    left_over: int  # bytes after it that belong to no whole episode; an archive's closing zeros do not count


def validate(episode: Episode) -> None:
    """Check the shapes and types of an episode's arrays.

    Raises:
        UserError: If one is not as in `Episode`.
    """
    steps = len(episode.actions)
    wanted: dict[str, tuple[NDArray[Any], type[np.generic], tuple[int | None, ...]]] = {
        "images": (episode.images, np.uint8, (steps + 1, None, None, 3)),
        "closed": (episode.closed, np.float32, (steps + 1,)),
        "height": (episode.height, np.float32, (steps + 1,)),
        "actions": (episode.actions, np.float32, (steps, None)),
        "outcome": (episode.outcome, np.uint8, (None, None, None, 3)),
    }
    if episode.pose is not None:
        wanted["pose"] = (episode.pose, np.float32, (steps + 1, POSE_DIM))
    for name, (array, kind, shape) in wanted.items():
        fits = array.ndim == len(shape) and all(
            size == want or (want is None and size > 0) for size, want in zip(array.shape, shape, strict=True)
        )
        if not fits or array.dtype != kind:
            text = "(" + ", ".join("any" if want is None else str(want) for want in shape) + ")"
            raise UserError(
                f"an episode of {steps} actions needs {name} {text} {np.dtype(kind).name}, "
                f"not {array.shape} {array.dtype.name}"
            )
    if not episode.task or not -(2**63) <= episode.seed < 2**63:
        raise UserError(f"an episode needs a task and a seed of 64 bits, not '{episode.task}' and {episode.seed}")


def pack(key: str, episode: Episode, offset: int, started: float, level: int) -> tuple[bytes, Packed]:
    """Return the bytes of an episode that will be written at `offset` of a shard."""
    outcome = png.encode(_stack(episode.outcome), level)
    action_size = episode.actions.shape[1]
    steps = np.zeros((len(episode.images), 2 + action_size), np.float32)
    steps[:, 0], steps[:, 1], steps[:-1, 2:] = episode.closed, episode.height, episode.actions
    if episode.pose is not None:
        steps = np.concatenate([steps, episode.pose], 1)
    truth = {name: bool(value) for name, value in episode.truth.items()}
    content = b"".join(
        (
            _member(f"{key}.{FIRST}", outcome, started),
            _member(f"{key}.images.png", png.encode(_stack(episode.images), level), started),
            _member(f"{key}.steps.npy", _npy_header(steps.shape) + steps.tobytes(), started),
            _member(f"{key}.truth.json", json.dumps(truth).encode(), started),
        )
    )
    header = {
        "format": FORMAT,
        "task": episode.task,
        "policy": episode.policy,
        "seed": int(episode.seed),
        "length": len(episode.actions),
        "views": len(episode.outcome),
        **({} if action_size == ACTION_DIM else {"action_size": action_size}),
        "started": started,
        "crc32": zlib.crc32(content),
    }
    header[_OWN_SUM] = zlib.crc32(json.dumps(header).encode())
    content += _member(f"{key}.json", json.dumps(header).encode(), started)
    return content, Packed(offset, len(content), offset + BLOCK, len(outcome), header, truth)


def unpack(content: bytes, *, with_outcome: bool = True) -> Episode:
    """Read an episode, without the simulator's truth.

    Args:
        content: Its bytes.
        with_outcome: Also decompress the views of its end; otherwise the result has none.

    Raises:
        DamagedError: If the bytes are not one whole episode.
    """
    try:
        return _unpack(content, with_outcome=with_outcome)
    except (KeyError, ValueError, TypeError) as error:  # whole members that do not fit together
        raise DamagedError(f"its members do not fit together ({error})") from error


def _unpack(content: bytes, *, with_outcome: bool) -> Episode:
    members: dict[str, bytes] = {}
    at = 0
    while "json" not in members:
        name, size = _read_header(content[at : at + BLOCK])
        members[name] = content[at + BLOCK : at + BLOCK + size]
        before, at = at, at + BLOCK + _padded(size)
    header = _parse(members["json"], content[:before])
    if content[before + BLOCK + len(members["json"]) :].strip(b"\0"):
        raise DamagedError("bytes after its last member are not zero")
    frames, table = header["length"] + 1, members["steps.npy"]
    start = 10 + int.from_bytes(table[8:10], "little")  # after the header
    steps = np.frombuffer(table, np.float32, offset=start).reshape(frames, -1)
    pose_start = 2 + header.get("action_size", ACTION_DIM)
    return Episode(
        images=_split(png.decode(members["images.png"]), frames).copy(),
        closed=steps[:, 0].copy(),
        height=steps[:, 1].copy(),
        actions=steps[:-1, 2:pose_start].copy(),
        outcome=unpack_outcome(members["outcome.png"], header["views"]).copy() if with_outcome else _NO_VIEWS,
        task=header["task"],
        policy=header["policy"],
        seed=header["seed"],
        pose=steps[:, pose_start:].copy() if steps.shape[1] > pose_start else None,
    )


def unpack_outcome(content: bytes, views: int) -> NDArray[np.uint8]:
    """Read the views (V, S, S, 3) of an episode's end from their PNG file; the result is read-only."""
    return _split(png.decode(content), views)


def scan(path: Path, start: int = 0, *, skips_damage: bool = False) -> Scan:
    """Find the whole episodes of a shard from `start` on.

    Args:
        path: The shard.
        start: Where to begin, bytes.
        skips_damage: Go on after an unfinished or damaged episode, where the next one begins; otherwise it ends the
            search.
    """
    episodes: list[Packed] = []
    size = path.stat().st_size
    skipped = 0
    with path.open("rb") as file:
        end = start
        while True:
            while found := scan_one(file, end):
                episodes.append(found)
                end = found.offset + found.size
            following = _next_start(file, end + BLOCK) if skips_damage else None
            if following is None:
                break
            skipped += following - end
            end = following
        file.seek(end)
        rest = file.read() if size - end <= len(END) else b"?"
    return Scan(episodes, end, skipped + (size - end if rest.strip(b"\0") else 0))


def torn_start(path: Path, start: int) -> int:
    """Return where the unfinished episode at the end of a shard begins; the size of the file if there is none.

    A killed writer leaves the first bytes of an episode. An episode whose members are all there is damaged, not
    unfinished, and so is one with a damaged header: a person may still want its bytes.

    Args:
        path: The shard.
        start: Where an episode begins, or the last one ends, bytes.
    """
    size = path.stat().st_size
    whole = at = start
    has_members = False  # after the last whole episode
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            block = file.read(BLOCK)
            at += BLOCK
            if not block.strip(b"\0"):  # an archive's closing zeros
                continue
            if len(block) < BLOCK:
                return whole
            try:
                name, length = _read_header(block)
            except DamagedError:
                return size
            at += _padded(length)
            if at > size:
                return whole
            has_members = name != "json"
            whole = whole if has_members else at
    return whole if has_members or size - whole > len(END) else size


def _next_start(file: io.BufferedReader, start: int) -> int | None:
    """Return where the next episode begins, from `start` on; None if there is none."""
    file.seek(start)
    while len(block := file.read(BLOCK)) == BLOCK:
        with suppress(DamagedError):
            if _read_header(block)[0] == FIRST:
                return file.tell() - BLOCK
    return None


def scan_one(file: io.BufferedReader, start: int) -> Packed | None:
    """Read the episode at `start`; return None if there is no whole one."""
    file.seek(start)
    content = b""
    members: dict[str, tuple[int, int]] = {}  # name -> place of its data in `content`, size
    try:
        while "json" not in members:
            block = file.read(BLOCK)
            name, size = _read_header(block)
            data = file.read(_padded(size))
            if len(data) < _padded(size):
                return None
            before = len(content)
            members[name] = (before + BLOCK, size)
            content += block + data
        parts = {name: content[at : at + size] for name, (at, size) in members.items()}
        header = _parse(parts["json"], content[:before])
        truth = json.loads(parts["truth.json"])
        place, size = members[FIRST]
    except (DamagedError, KeyError, ValueError):
        return None
    return Packed(start, len(content), start + place, size, header, truth)


def _member(name: str, data: bytes, when: float) -> bytes:
    """Return one member of the archive: its header and its data, padded to whole blocks."""
    header = bytearray(_HEADER)
    header[: len(name)] = name.encode()
    header[124:135], header[136:147] = b"%011o" % len(data), b"%011o" % int(when)
    header[148:156] = b"%06o\0 " % _sum(header)
    return b"".join((header, data, bytes(_padded(len(data)) - len(data))))


def _read_header(block: bytes) -> tuple[str, int]:
    """Return the name of a member after its key, and its size."""
    try:
        name, size, total = block[:100].rstrip(b"\0").decode(), int(block[124:135], 8), int(block[148:154], 8)
    except ValueError as error:
        raise DamagedError(f"an archive header is damaged ({error})") from error
    if total != _sum(block):
        raise DamagedError("an archive header is damaged: its checksum differs")
    return name.partition(".")[2], size


def _sum(header: bytes | bytearray) -> int:
    """Add up the bytes of a member's header, with blanks in place of its checksum."""
    # The lower half of Adler-32 is this sum modulo 65521, which no valid header reaches; `sum` is much slower.
    return zlib.adler32(header[:148] + b" " * 8 + header[156:], 0) & 0xFFFF


@lru_cache
def _npy_header(shape: tuple[int, ...]) -> bytes:
    """Return the header of a NumPy file with float32 numbers."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def _parse(data: bytes, before: bytes) -> dict[str, Any]:
    """Read the last member and compare its checksum with the bytes before it."""
    try:
        header = json.loads(data)
    except ValueError as error:
        raise DamagedError(f"its last member is damaged ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DamagedError(f"its last member is not a header of format {FORMAT}")
    others = {name: value for name, value in header.items() if name != _OWN_SUM}
    own = zlib.crc32(json.dumps(others).encode())
    if header["crc32"] != zlib.crc32(before) or header.get(_OWN_SUM, own) != own:
        raise DamagedError("its checksum differs")
    return header


def _padded(size: int) -> int:
    """Round up to whole blocks."""
    return -(-size // BLOCK) * BLOCK


def _stack(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Stack frames (F, H, W, 3) vertically to (F * H, W, 3)."""
    return frames.reshape(-1, *frames.shape[2:])


def _split(strip: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """Undo `_stack`."""
    if len(strip) % count:
        raise DamagedError(f"{len(strip)} rows are not {count} frames")
    return strip.reshape(count, -1, *strip.shape[1:])
