"""Film the policy of a run while it trains: one episode of every task without noise, as a small animation."""

from __future__ import annotations

from pathlib import Path

from polytask.envs.footage import Footage
from polytask.envs.video import VideoFormat
from polytask.errors import UserError
from polytask.files import make_folder
from polytask.result import note
from polytask.runs.evaluate import Evaluator
from polytask.runs.run import Run

FOLDER = "videos"  # in the folder of a run
# An animation that every browser, TensorBoard and Weights & Biases show. It is small, because a run may have many.
FILM = VideoFormat(width=160, height=120, most_drawn=10)
SECONDS = 10.0  # that drawing a film may take, if five frames per second allow it


class Filmer:
    """Films the policy of a run. Its worlds are built for the first film and start alike in every film."""

    def __init__(self, run: Run) -> None:
        """Prepare to film a run."""
        self._run = run
        self._stage: Evaluator | None = None
        self._is_able = True

    def film(self) -> Path | None:
        """Film the present policy and return the file; None if this is not possible, which is said once."""
        if not self._is_able:
            return None
        run = self._run
        path = run.directory / FOLDER / f"{run.frames:012d}.gif"
        try:
            if self._stage is None:
                self._stage = Evaluator(run.config, 1, run.goals)
            footage = Footage(self._stage.env)
            self._stage.play(run.act, [footage.take])
            make_folder(path.parent)
            footage.write(path, FILM, SECONDS)
        except UserError as error:  # training is worth more than its film
            self._is_able = False
            note(f"{error}; the run goes on without films")
            return None
        return path

    def close(self) -> None:
        """Close the worlds."""
        if self._stage is not None:
            self._stage.close()
