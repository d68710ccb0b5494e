"""Take rights from a process: those of root, to whom no file is read-only, and the rest of the file system.

All functions act on the calling process, which should be a fork, and need Linux.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000  # flags of unshare(2)
READ_ONLY, REMOUNT, BIND, DEEP, PRIVATE = 1, 32, 4096, 16384, 1 << 18  # flags of mount(2)
CAPABILITY_VERSION = 0x20080522
DISK_BYTES = 128 * 2**20


def give_up_root(folder: Path) -> None:
    """Take root's rights from the process, and let it write only below `folder`, where the system permits that."""
    if os.geteuid() != 0:
        return
    if can(seal):
        seal(folder)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def seal(folder: Path) -> None:
    """Make all but one folder read-only for this process."""
    _call("unshare", NEW_MOUNTS)
    _mount("", "/", DEEP | PRIVATE)
    _mount(str(folder), str(folder), BIND | DEEP)
    for place in ("/", "/dev"):
        if os.path.ismount(place):
            _mount("", place, REMOUNT | BIND | READ_ONLY)
    os.chdir(Path.cwd())  # the same folder, now through the mount that can be written


def mount_memory(folder: Path) -> None:
    """Mount an empty file system in memory, which only this process and its children see."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _call("unshare", NEW_MOUNTS)
        _mount("", "/", DEEP | PRIVATE)
    else:
        _call("unshare", NEW_USER | NEW_MOUNTS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount("tmpfs", str(folder), 0, f"size={DISK_BYTES}")


def make_read_only(folder: Path) -> None:
    """Make a file system that `mount_memory` has mounted read-only."""
    _mount("", str(folder), REMOUNT | READ_ONLY)


@cache
def can(action: Callable[[Path], None]) -> bool:
    """Return whether the system permits `seal` or `mount_memory`."""
    pid = os.fork()
    if pid == 0:
        try:
            action(Path("/tmp"))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def is_safe() -> bool:
    """Return whether the processes cannot harm the system, such as by replacing /dev/null."""
    return os.geteuid() != 0 or can(seal)


def _mount(source: str, target: str, flags: int, options: str = "") -> None:
    _call("mount", source.encode(), target.encode(), b"tmpfs", ctypes.c_ulong(flags), options.encode())


def _call(name: str, *values: Any) -> None:
    """Call a function of the C library.

    Raises:
        OSError: If it fails.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*values):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
