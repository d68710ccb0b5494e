"""Start processes with torchrun, as a user does."""

import os
import subprocess
import sys
from pathlib import Path

import polytask

# Longer than any test needs, so that a hang is a failure.
SECONDS = 240


def start(*words, processes=2):
    """Start `torchrun --nproc-per-node=PROCESSES WORDS`; the processes import the same polytask as the tests."""
    folders = [str(Path(polytask.__file__).parents[1]), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--master-port=0"]
    command += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]  # a free port, so that tests can run side by side
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*command, *map(str, words)], env=environment, **pipes)


def finish(process):
    """Wait for the processes; return the exit code, what they wrote to stdout, and their lines on stderr."""
    try:
        out, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, errors = process.communicate()
        raise AssertionError(f"torchrun hangs: {errors}") from None
    return process.returncode, out, errors.splitlines()


def run(*words, processes=2):
    """Start processes and wait for them."""
    return finish(start(*words, processes=processes))
