"""A training run: its parts, its folder, and how it is saved and continued."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from polytask.config.compose import to_plain, to_yaml
from polytask.config.schema import TrainConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.files import LogRow, read_json_lines, restore, write_text
from polytask.files.folder_lock import FolderLock
from polytask.runs.checkpoint import load, locate, save
from polytask.runs.divergence import check_state
from polytask.runs.evaluate import Evaluator, Goals, goals_of
from polytask.runs.file_names import CHECKPOINT_FILE, CONFIG_FILE, METRICS_FILE
from polytask.runs.folder import check_free, choose_folder, claim_folder
from polytask.runs.logger import EpisodeWindow, check_extras
from polytask.runs.setup import build_algo, build_train_env
from polytask.runs.transfer import Initialization, initialize
from polytask.types import Algo


@dataclass
class Run:
    """The state of a training run."""

    config: TrainConfig
    directory: Path
    lock: FolderLock  # of the directory
    env: MultiTaskEnv
    algo: Algo
    window: EpisodeWindow
    evaluator: Evaluator | None = None  # kept between evaluations, so that its scenes are built only once
    iteration: int = 0
    saved_iteration: int = 0  # of the last checkpoint
    frames: int = 0  # control steps so far, summed over all worlds
    seconds: float = 0.0  # duration of all iterations, including those before a resume
    initialization: Initialization | None = None  # what was loaded from a finished run at the start (init_from)

    @property
    def is_over(self) -> bool:
        """Whether a limit on frames, iterations or time is reached."""
        minutes = self.config.max_minutes
        return self.iteration >= self.last_iteration or (minutes is not None and self.seconds >= 60.0 * minutes)

    @property
    def last_iteration(self) -> int:
        """The iteration at which the limit on frames or the limit on iterations is reached, whichever comes first."""
        limits = []
        if self.config.max_iterations is not None:
            limits.append(self.config.max_iterations)
        if self.config.max_frames is not None:
            left = max(0, self.config.max_frames - self.frames)
            limits.append(self.iteration + math.ceil(left / self.algo.frames_per_iteration))
        return min(limits)

    @property
    def last_frames(self) -> int:
        """The number of frames after the last iteration."""
        return self.frames + (self.last_iteration - self.iteration) * self.algo.frames_per_iteration

    @property
    def goals(self) -> Goals | None:
        """The goals of training, if they are fixed."""
        if self.env.config.options.goals != "fixed":
            return None
        return goals_of(self.env.state_dict(), self.env.spec.tasks)

    def act(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions without exploration noise, for evaluations and videos."""
        return self.algo.act(obs, task, explore=False)

    def save(self) -> None:
        """Write a checkpoint from which the run can continue.

        Raises:
            DivergedError: If the algorithm's state is not finite. The old checkpoint is kept.
        """
        state: dict[str, Any] = {
            "config": to_plain(self.config),
            "spec": asdict(self.env.spec),
            "algo": self.algo.state_dict(),
            "env": self.env.state_dict(),
            "window": self.window.state_dict(),
            "iteration": self.iteration,
            "frames": self.frames,
            "seconds": self.seconds,
            "initialization": self.initialization and asdict(self.initialization),
        }
        check_state(state["algo"], self.iteration)
        save(self.directory / CHECKPOINT_FILE, state)
        self.saved_iteration = self.iteration

    def restore(self, state: dict[str, Any]) -> None:
        """Load the state of a checkpoint."""
        now = asdict(self.env.spec)
        for name, value in now.items():
            if state["spec"][name] != value:
                raise UserError(f"the checkpoint does not fit: its {name} is {state['spec'][name]}, not {value}")
        restore(self.algo, state["algo"], "algorithm")
        restore(self.env, state["env"], "environment")
        restore(self.window, state["window"], "metrics window")
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.saved_iteration = self.iteration
        self.frames = state.get("frames", self.iteration * self.algo.frames_per_iteration)
        self.config = replace(self.config, init_from=state["config"].get("init_from"))
        if state.get("initialization") is not None:
            self.initialization = Initialization(**state["initialization"])

    def close(self) -> None:
        """Close the environment and release the folder."""
        self.env.close()
        self.lock.release()


def open_run(config: TrainConfig) -> tuple[Run, list[LogRow]]:
    """Build or continue a run, lock its folder, and return the run with the rows that it has logged so far.

    The folder of a run that continues is locked before its files are read. A new folder is made only after everything
    is built and the checkpoint, if any, is loaded, so that a mistake leaves nothing behind.

    Raises:
        UserError: If another process has the folder, or the folder contains another run.
    """
    _check(config)
    source = None if config.checkpoint is None else locate(config.checkpoint)
    directory = choose_folder(config, source)
    is_continued = source is not None and source.parent.resolve() == directory.resolve()
    with ExitStack() as stack:
        lock = FolderLock(directory)
        stack.callback(lock.release)
        if is_continued:
            lock.take()
        elif config.run_dir is not None:
            check_free(directory)
        state = None if source is None else load(source)
        start = None if config.init_from is None else load(config.init_from)
        history: list[LogRow] = []
        if source is not None and state is not None:
            history = read_json_lines(source.parent / METRICS_FILE, until=state["iteration"], is_numeric=True)
        run = _build(replace(config, checkpoint=None), directory, lock)
        stack.callback(run.env.close)
        if state is not None:
            run.restore(state)
        if start is not None:
            run.initialization = initialize(run.algo, run.env.spec.tasks, start, str(config.init_from))
        if config.eval_episodes and config.eval_every:
            run.evaluator = Evaluator(config, config.eval_episodes, run.goals)
        if not is_continued:
            run.directory, run.lock = claim_folder(directory, is_named=config.run_dir is not None)
            stack.callback(run.lock.release)
        run.config = replace(run.config, run_dir=str(run.directory))
        write_text(run.directory / CONFIG_FILE, to_yaml(to_plain(run.config)))
        if source != run.directory / CHECKPOINT_FILE:
            # A run can be continued from its first moment on. This comes before the log is written: a log without its
            # checkpoint would be a dead end.
            run.save()
        stack.pop_all()
    return run, history


def _build(config: TrainConfig, directory: Path, lock: FolderLock) -> Run:
    """Build all parts of a run."""
    env = build_train_env(config)
    algo = build_algo(config, env.spec, env.device)
    window = EpisodeWindow(env.spec.tasks, config.success_window, env.config.domain.metrics)
    return Run(config, directory, lock, env, algo, window)


def _check(config: TrainConfig) -> None:
    """Check settings that depend on each other, and the optional packages."""
    check_extras(tensorboard=config.tensorboard, wandb=config.wandb)
    if config.checkpoint is not None and config.init_from is not None:
        raise UserError("checkpoint continues a run and init_from starts a new one: give only one of them")
    if config.max_frames is None and config.max_iterations is None:
        raise UserError("a run needs a limit: set max_frames or max_iterations")
