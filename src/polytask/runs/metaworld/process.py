"""Start an interpreter that has Meta-World, and talk to it over a pipe.

Meta-World pins another MuJoCo than ours, so it cannot be imported here.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.errors import UserError, shown

WORKER = Path(__file__).with_name("worker.py")
PATIENCE = 5.0  # seconds for a worker to end by itself
Rows = NDArray[np.float32]


class Process:
    """A worker process. It ends when its stdin is closed, so also when this process is killed."""

    def __init__(self, python: str, *arguments: str, script: Path = WORKER) -> None:
        """Start a worker.

        Args:
            python: The interpreter.
            arguments: Command-line arguments of the script.
            script: The worker.

        Raises:
            UserError: If the interpreter cannot be started.
        """
        # The interpreter has packages of its own and must not find ours, nor modules next to the script.
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        variables |= {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._errors = TemporaryFile()  # noqa: SIM115  open as long as the process
        try:
            self._process = subprocess.Popen(
                [os.path.expanduser(python), str(script), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=variables,
                start_new_session=True,  # Ctrl-C stops this process, which then ends the worker
            )
        except OSError as error:
            self._errors.close()
            raise UserError(f"cannot start metaworld_python={shown(python)}: {error.strerror}") from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout

    def send(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self._questions.write(data)
            self._questions.flush()
        except BrokenPipeError as error:
            raise self._death() from error

    def read(self, shape: tuple[int, ...]) -> Rows:
        """Read an array of float32."""
        data = self._answers.read(4 * int(np.prod(shape)))
        rows = np.frombuffer(data, np.float32)
        if rows.size != np.prod(shape):
            raise self._death()
        return rows.reshape(shape)

    def tell(self, question: dict[str, Any]) -> None:
        """Send a question without waiting for the answer, so that other workers can be asked meanwhile."""
        self.send(json.dumps(question).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """Read the answer to a question.

        Raises:
            UserError: If the process ended, which it does if a question fails, or is not a worker.
        """
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise self._death()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise UserError(f"the process of Meta-World answered '{shown(line.decode(errors='replace'))}'") from error
        return answer

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Send a question and return its answer."""
        self.tell(question)
        return self.answer()

    def close(self) -> None:
        """End the process."""
        with suppress(BrokenPipeError):  # what was left to send to a dead process
            self._questions.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._errors.close()

    def _death(self) -> UserError:
        """Describe the end of the process by its exit code and the last line of its stderr."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "no message")
        return UserError(f"the process of Meta-World ended (exit code {code}): {shown(last.strip(), 200)}")
