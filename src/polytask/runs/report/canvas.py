"""What all figures share: size, colours, legends outside the axes, and how they are saved.

Figures have the width of a text column, and letters of a size that can be read there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any

from polytask.files import write_atomically

NO_MATPLOTLIB = "no figure: it needs an extra, pip install 'polytask[report]'"
WIDTH, DPI = 5.5, 200  # inches, and dots per inch of a PNG
# Colours that stay different for people with colour blindness (Okabe and Ito), with the dashes of each round.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES = ("-", "--", ":", "-.")
STYLES = len(COLORS) * len(DASHES)  # lines that can be told apart
LEGEND_ROW = 0.16  # inches
STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.4,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # letters stay text
}


def has_matplotlib() -> bool:
    """Return whether figures can be drawn."""
    return find_spec("matplotlib") is not None


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save figures in the style of this module."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def new_figure(height: float, rows: int = 1, columns: int = 1, width: float = WIDTH, **options: Any) -> tuple[Any, Any]:
    """Return a figure of a height in inches, and its axes as a matrix."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def line_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of a line. They distinguish `STYLES` lines."""
    return {"color": COLORS[index % len(COLORS)], "ls": DASHES[index // len(COLORS) % len(DASHES)]}


def color(index: int) -> str:
    """Return the colour of a setting that is not a line."""
    return COLORS[index % len(COLORS)]


def wrapped(name: str, width: int = 34) -> str:
    """Break a long name into lines."""
    return fill(name, width, break_long_words=True)


def legend_below(figure: Any, *panels: Any) -> None:
    """Put the legend of some axes below the figure, in as many columns as fit, and make room for its rows.

    What has the same name in several axes stands there once.
    """
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    longest = max(max(map(len, label.splitlines())) for label in entries)
    fitting = int(figure.get_figwidth() / (0.45 + 0.062 * longest))
    columns = max(1, min(len(entries), fitting))
    lines = -(-len(entries) // columns) * max(len(label.splitlines()) for label in entries)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * (lines - 1))
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)


def engineering(axis: Any) -> None:
    """Write the numbers of an axis as 10 k or 5 M."""
    from matplotlib.ticker import EngFormatter

    axis.set_major_formatter(EngFormatter(sep=" "))


def png(figure: Any) -> bytes:
    """Return a figure as the content of a PNG file for the page: with 256 colours it is a third as large."""
    from PIL import Image  # matplotlib needs it, too

    drawn, file = BytesIO(), BytesIO()
    with styled():
        figure.savefig(drawn, format="png", dpi=DPI)
    Image.open(drawn).convert("RGB").quantize(256).save(file, format="png", optimize=True)
    return file.getvalue()


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file, in the format that its ending names."""
    with styled():
        write_atomically(path, lambda temporary: figure.savefig(temporary, format=path.suffix[1:], dpi=DPI))
