"""Statistics of the features of a LeRobot data set, as its policies normalize by them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_BYTES = np.arange(256) / 255.0  # LeRobot scales pictures to [0, 1]


class RowStats:
    """Statistics of a feature of numbers. All rows are kept, because quantiles need them; pictures are larger."""

    def __init__(self) -> None:
        """Start without rows."""
        self._parts: list[NDArray[Any]] = []

    def add(self, rows: NDArray[Any]) -> None:
        """Add rows (T,) or (T, D)."""
        self._parts.append(rows.reshape(len(rows), -1))

    def result(self) -> dict[str, list[Any]]:
        """Return the statistics in LeRobot's format, one entry for each of the D numbers."""
        return stats_of(np.concatenate(self._parts))


def stats_of(rows: NDArray[Any]) -> dict[str, list[Any]]:
    """Return the statistics of rows (T, D) in LeRobot's format."""
    values = rows.astype(np.float64)
    found = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0), "std": values.std(0)}
    found |= dict(zip(_QUANTILES, np.quantile(values, list(_QUANTILES.values()), axis=0), strict=True))
    return {**{name: value.tolist() for name, value in found.items()}, "count": [len(rows)]}


class PictureStats:
    """Statistics of a camera, per colour: exact, from the number of pixels of each of the 256 values."""

    def __init__(self) -> None:
        """Start without pictures."""
        self._pixels = np.zeros((3, 256), np.int64)
        self._count = 0

    def add(self, pictures: NDArray[np.uint8]) -> None:
        """Add pictures (T, H, W, 3)."""
        for colour in range(3):
            self._pixels[colour] += np.bincount(pictures[..., colour].reshape(-1), minlength=256)
        self._count += len(pictures)

    def result(self) -> dict[str, list[Any]]:
        """Return the statistics in LeRobot's format: arrays (3, 1, 1), which scale pictures (3, H, W)."""
        total = self._pixels.sum(1)
        mean = self._pixels @ _BYTES / total
        square = self._pixels @ _BYTES**2 / total
        upto = self._pixels.cumsum(1)
        levels = {name: (upto >= share * total[:, None]).argmax(1) for name, share in _QUANTILES.items()}
        seen = self._pixels > 0
        found = {
            "min": _BYTES[seen.argmax(1)],
            "max": _BYTES[255 - seen[:, ::-1].argmax(1)],
            "mean": mean,
            "std": np.sqrt(np.maximum(square - mean**2, 0.0)),
            **{name: _BYTES[level] for name, level in levels.items()},
        }
        return {**{name: value.reshape(3, 1, 1).tolist() for name, value in found.items()}, "count": [self._count]}
