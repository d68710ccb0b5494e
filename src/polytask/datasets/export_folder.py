"""The folder of an exported data set: it is complete, or it is removed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polytask.files import can_write, make_folder


@contextmanager
def export_folder(root: Path) -> Iterator[None]:
    """Make the folder `root` and write to it inside this context. If that fails, a new folder is removed.

    Raises:
        UserError: If the operating system refuses to write.
    """
    is_new = not root.exists()
    make_folder(root)
    try:
        with can_write(root):
            yield
    except BaseException:
        if is_new:
            shutil.rmtree(root, ignore_errors=True)
        raise
