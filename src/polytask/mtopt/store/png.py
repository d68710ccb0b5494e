"""Write and read the plain PNG files of the shards without an imaging library.

Frames of an episode are stacked into one tall strip. Deflate looks back 32 KB, more than two frames of 64 x 64, so it
finds the still background in the frame before: a strip takes about a quarter of the space of single files. For the same
reason rows are stored unfiltered: filters would hide the repetition. Any viewer opens a file of `encode`, but `decode`
reads only files of `encode`.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_TRUE_COLOUR = b"\x08\x02\x00\x00\x00"  # 8 bits, RGB, deflate, standard filters, not interlaced


class DamagedError(Exception):
    """The bytes are not those that were written."""


def encode(image: NDArray[np.uint8], level: int = 1) -> bytes:
    """Turn an image (H, W, 3) into the bytes of a PNG file."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row starts with the number of its filter, 0 for none
    rows[:, 1:] = image.reshape(height, 3 * width)
    header = struct.pack(">II", width, height) + _TRUE_COLOUR
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(rows.data, level)), _chunk(b"IEND", b""))
    return _SIGNATURE + b"".join(parts)


def decode(data: bytes) -> NDArray[np.uint8]:
    """Turn bytes from `encode` back into the image (H, W, 3), which is read-only.

    Raises:
        DamagedError: If the bytes are not such a file.
    """
    if data[:8] != _SIGNATURE:
        raise DamagedError("not a PNG file")
    header, after = _read_chunk(data, 8, b"IHDR")
    width, height = struct.unpack(">II", header[:8])
    if header[8:] != _TRUE_COLOUR:
        raise DamagedError("not a PNG file of 8-bit colours")
    packed, _ = _read_chunk(data, after, b"IDAT")
    try:
        rows = np.frombuffer(zlib.decompress(packed), np.uint8)
    except zlib.error as error:
        raise DamagedError(str(error)) from error
    if rows.size != height * (1 + 3 * width):
        raise DamagedError(f"{rows.size} bytes do not fill {height} x {width} pixels")
    rows = rows.reshape(height, 1 + 3 * width)
    if rows[:, 0].any():
        raise DamagedError("its rows are filtered")
    return rows[:, 1:].reshape(height, width, 3)


def _chunk(kind: bytes, data: bytes) -> bytes:
    """Return one chunk of the file: length, kind, data and checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def _read_chunk(data: bytes, start: int, kind: bytes) -> tuple[bytes, int]:
    """Return the content of the chunk at `start` and the start of the next one."""
    head = data[start : start + 8]
    if len(head) < 8 or head[4:] != kind:
        raise DamagedError(f"its chunk {kind.decode()} is missing")
    end = start + 8 + struct.unpack(">I", head[:4])[0]
    content, check = data[start + 8 : end], data[end : end + 4]
    if len(check) < 4 or struct.unpack(">I", check)[0] != zlib.crc32(content, zlib.crc32(kind)):
        raise DamagedError(f"its chunk {kind.decode()} is damaged")
    return content, end + 4
