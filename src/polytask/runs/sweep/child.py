"""One run of a sweep as a process of its own: `python -m polytask.runs.sweep.child train WORDS` is `polytask train`.

The only difference is that the run stops and saves if the process that started it dies without a word: nobody would
wait for it, and it would keep its folder and its share of the GPU.
"""

from __future__ import annotations

import ctypes
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1  # of prctl: the signal that Linux sends to a process whose parent ends


def stop_with_parent() -> None:
    """Ask Linux to stop this process when its parent ends; other systems do not have this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


if __name__ == "__main__":
    stop_with_parent()
    runpy.run_module("polytask", run_name="__main__", alter_sys=True)
