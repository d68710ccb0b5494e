"""A training run: its parts, its folder, and how it is saved and continued."""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_map

from polytask.algos import require_apart
from polytask.config.compose import compose, to_plain, to_yaml
from polytask.config.schema import TrainConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.files import LogRow, read_json_lines, restore, write_text
from polytask.files.folder_lock import FolderLock
from polytask.parallel.ranks import ALONE, Ranks
from polytask.plugins.needs import used_plugins
from polytask.runs.changes import changes, describe, require_same
from polytask.runs.checkpoint import load, locate, save
from polytask.runs.demonstrations import demonstrate
from polytask.runs.divergence import check_state
from polytask.runs.evaluate import Evaluator, Goals, goals_of
from polytask.runs.file_names import CHECKPOINT_FILE, CONFIG_FILE, METRICS_FILE, START_FILE
from polytask.runs.folder import check_free, choose_folder, claim_folder
from polytask.runs.history.recorder import Recorder, announce, build_recorder
from polytask.runs.history.writer import FOLDER as HISTORY_FOLDER
from polytask.runs.logger import EpisodeWindow, check_extras
from polytask.runs.provenance import runs_on_device
from polytask.runs.setup import build_algo, build_train_env
from polytask.runs.starts import begin, load_start
from polytask.runs.transfer import Initialization
from polytask.settings import check_values
from polytask.types import Algo, VecEnv


@dataclass
class Run:
    """The state of a training run."""

    config: TrainConfig
    directory: Path
    lock: FolderLock  # of the directory
    env: MultiTaskEnv
    algo: Algo
    window: EpisodeWindow
    ranks: Ranks = ALONE  # rank 0 writes all files
    recorder: Recorder | None = None  # of rank 0, if the run keeps its history
    goals: Goals | None = None  # the goals of training, if they are fixed
    evaluator: Evaluator | None = None  # kept between evaluations, so that its scenes are built only once
    iteration: int = 0
    saved_iteration: int = 0  # of the last checkpoint
    saved_seconds: float = 0.0  # of training, at the last checkpoint
    frames: int = 0  # control steps so far, summed over all worlds
    seconds: float = 0.0  # duration of all iterations, including those before a resume
    initialization: Initialization | None = None  # what was loaded from a finished run at the start (init_from)
    demonstrations: dict[str, int] | None = None  # episodes of each task that this policy, or its start, was shown
    changes: list[dict[str, Any]] = field(default_factory=list)  # of its settings, since the start
    runs_on_device: int | None = None  # at most at once, this one included; None: not known

    @property
    def track(self) -> str:
        """What the policy learned from, as the titles of tables say it."""
        return f"{self.config.reward} reward" + (", with demonstrations" if self.demonstrations else "")

    @property
    def is_over(self) -> bool:
        """Whether a limit on frames, iterations or time is reached."""
        minutes = self.config.max_minutes
        return self.iteration >= self.last_iteration or (minutes is not None and self.seconds >= 60.0 * minutes)

    def limit_reached(self) -> str | None:
        """Return a line that says which limit is reached and how to go on, or None if the run is not over."""
        now = {"frames": self.frames, "iterations": self.iteration, "minutes": round(self.seconds / 60.0, 3)}
        limits = {unit: getattr(self.config, f"max_{unit}") for unit in now}
        reached = {unit: limit for unit, limit in limits.items() if limit is not None and now[unit] >= limit}
        if not reached:
            return None
        places = " and ".join(f"{now[unit]:,} of {limit:,} {unit}" for unit, limit in reached.items())
        return f"already at {places}; give {' and '.join(f'max_{unit}=' for unit in reached)} above that to continue"

    @property
    def is_unsaved_for_long(self) -> bool:
        """Whether the last checkpoint is older than `save_minutes` of training; the same on all ranks."""
        is_wanted = self.config.save_every > 0
        return is_wanted and self.seconds - self.saved_seconds >= 60.0 * self.config.save_minutes

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

    def world_state(self) -> dict[str, Any]:
        """Return the state of the worlds: that of the environment, or those of all ranks' environments."""
        state = self.env.state_dict()
        return state if self.ranks.is_alone else {"ranks": self.ranks.of_all(to_cpu(state))}

    @property
    def recorded_env(self) -> VecEnv:
        """The environment to train in; with a history, it records."""
        return self.env if self.recorder is None else self.recorder

    def act(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions without exploration noise, for evaluations and videos."""
        return self.algo.act(obs, task, explore=False)

    @property
    def plugins(self) -> dict[str, str]:
        """The entries of plug-ins that the run uses, see `used_plugins`."""
        return used_plugins(self.config, self.env.total_spec.tasks)

    def save(self) -> None:
        """Write a checkpoint from which the run can continue.

        All ranks have the same learner, so rank 0 saves its own.

        Raises:
            DivergedError: If the algorithm's state is not finite. The old checkpoint is kept.
        """
        worlds = self.world_state()
        algo = self.algo.state_dict() if self.ranks.is_first else {}
        check_state(algo, self.iteration, self.ranks)
        if self.ranks.is_first:
            self._write(algo, worlds)
        self.saved_iteration, self.saved_seconds = self.iteration, self.seconds

    def _write(self, algo: dict[str, Any], worlds: dict[str, Any]) -> None:
        """Write the checkpoint."""
        state: dict[str, Any] = {
            "config": to_plain(self.config),
            "plugins": self.plugins,
            "spec": asdict(self.env.total_spec),
            "algo": algo,
            "env": worlds,
            "window": self.window.state_dict(),
            "iteration": self.iteration,
            "frames": self.frames,
            "seconds": self.seconds,
            "initialization": self.initialization and asdict(self.initialization),
            "demonstrations": self.demonstrations,
            "changes": self.changes,
            "runs_on_device": self.runs_on_device,
        }
        if not self.ranks.is_alone:
            state["ranks"] = self.ranks.size
        if self.recorder is not None:
            self.recorder.writer.flush(self.iteration)
            state["history"] = self.recorder.writer.state_dict()
        save(self.directory / CHECKPOINT_FILE, state)

    def restore(self, state: dict[str, Any]) -> None:
        """Load the state of a checkpoint."""
        check_ranks(state.get("ranks") or 1, self.ranks)
        began_with = state["config"].get("demos")
        if self.config.demos not in (None, began_with):
            raise UserError(
                f"demos begin a new run, and checkpoint continues one that began with demos={began_with or 'null'}: "
                "leave demos out, or use init_from instead of checkpoint"
            )
        for name, value in asdict(self.env.total_spec).items():
            if state["spec"].get(name, value) != value:
                raise UserError(f"the checkpoint does not fit: its {name} is {state['spec'][name]}, not {value}")
        self.frames = state.get("frames", state["iteration"] * self.algo.frames_per_iteration)
        changed = changes(compose(TrainConfig, [], saved=state["config"]), self.config, self.frames)
        self.changes = [*(state.get("changes") or []), *changed]
        self._restore_algo(state["algo"], changed)
        worlds = state["env"] if self.ranks.is_alone else state["env"]["ranks"][self.ranks.rank]
        restore(self.env, worlds, "environment")
        restore(self.window, state["window"], "metrics window")
        if self.recorder is not None:
            if state.get("history") is None:
                raise UserError("the checkpoint has no history, which must begin with its run: use history.worlds=0")
            restore(self.recorder.writer, state["history"], "history")
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.saved_iteration, self.saved_seconds = self.iteration, self.seconds
        self.config = replace(self.config, init_from=state["config"].get("init_from"), demos=began_with)
        if state.get("initialization") is not None:
            self.initialization = Initialization(**state["initialization"])
        self.demonstrations = state.get("demonstrations")
        known = [each for each in (self.runs_on_device, state.get("runs_on_device")) if each is not None]
        self.runs_on_device = max(known, default=None)

    def _restore_algo(self, state: dict[str, Any], changed: list[dict[str, Any]]) -> None:
        """Load the state of the algorithm, some of whose settings may have changed."""
        try:
            restore(self.algo, state, "algorithm")
        except UserError as error:
            if not changed:
                raise
            names = ", ".join(each["setting"] for each in changed)
            raise UserError(f"the checkpoint does not fit {describe(changed)}; leave {names} out") from error

    def close(self) -> None:
        """Close the environment and release the folder."""
        self.env.close()
        self.lock.release()


def check_ranks(saved: int, ranks: Ranks) -> None:
    """Check that a run continues with as many ranks as it had.

    Raises:
        UserError: If not.
    """
    if saved != ranks.size:
        how = f"torchrun --nproc-per-node={saved}" if saved > 1 else "a single process, without torchrun"
        raise UserError(f"the checkpoint was written by {saved} rank(s), but there are {ranks.size} now; use {how}")


def to_cpu(tree: Any) -> Any:
    """Copy the tensors of a tree to the CPU."""
    return tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, Tensor) else leaf, tree)


def open_run(config: TrainConfig, ranks: Ranks = ALONE) -> tuple[Run, list[LogRow]]:
    """Build or continue a run, lock its folder, and return the run with the rows that it has logged so far.

    The folder of a run that continues is locked before its files are read. A new folder is made only after everything
    is built and the checkpoint, if any, is loaded, so that a mistake leaves nothing behind. Only rank 0 locks and
    writes.

    Raises:
        UserError: If another process has the folder, or the folder contains another run.
    """
    check_config(config)
    together = runs_on_device()
    source = None if config.checkpoint is None else locate(config.checkpoint)
    directory = ranks.of_first(choose_folder(config, source))
    is_continued = source is not None and source.parent.resolve() == directory.resolve()
    with ExitStack() as stack:
        lock = FolderLock(directory)
        stack.callback(lock.release)
        if ranks.is_first and is_continued:
            lock.take()
        elif ranks.is_first and config.run_dir is not None:
            check_free(directory)
        state = None if source is None else _load_same(source, config)
        start = load_start(config)
        history: list[LogRow] = []
        if source is not None and state is not None:
            history = read_json_lines(source.parent / METRICS_FILE, until=state["iteration"], is_numeric=True)
        run = _build(replace(config, checkpoint=None), directory, lock, ranks)
        stack.callback(run.env.close)
        run.runs_on_device = together
        if state is not None:
            run.restore(state)
        if start is not None:
            run.initialization = begin(run.algo, run.env.spec.tasks, start, config)
            run.demonstrations = start.get("demonstrations")
        if state is None and config.demos is not None:
            shown = demonstrate(run.algo, run.env, config.demos, is_told=ranks.is_first)
            run.demonstrations = dict(Counter(run.demonstrations or {}) + Counter(shown))
        if run.env.config.options.goals == "fixed":
            run.goals = goals_of(run.world_state(), run.env.spec.tasks)
        if ranks.is_first:
            _prepare_to_write(run, stack, is_new=not is_continued, is_named=config.run_dir is not None)
            _open_history(run, source)
        run.directory = ranks.of_first(run.directory)
        run.config = replace(run.config, run_dir=str(run.directory))
        if source != run.directory / CHECKPOINT_FILE:
            # A run can be continued from its first moment on. This comes before the log is written: a log without its
            # checkpoint would be a dead end.
            run.save()
        stack.pop_all()
    return run, history


def _load_same(source: Path, config: TrainConfig) -> dict[str, Any]:
    """Load the checkpoint that a run continues, and check that it continues as the same experiment."""
    state = load(source)
    require_same(str(config.checkpoint), compose(TrainConfig, [], saved=state["config"]), config)
    return state


def _prepare_to_write(run: Run, stack: ExitStack, *, is_new: bool, is_named: bool) -> None:
    """Build the evaluator, claim the folder of a new run, and write its settings and start: the part of rank 0."""
    config = run.config
    if config.eval_episodes and config.eval_every:
        run.evaluator = Evaluator(config, config.eval_episodes, run.goals)
    if is_new:
        run.directory, run.lock = claim_folder(run.directory, is_named=is_named)
        stack.callback(run.lock.release)
    settings = to_plain(replace(config, run_dir=str(run.directory)))
    write_text(run.directory / CONFIG_FILE, to_yaml(settings))
    start = {
        "initialization": run.initialization and asdict(run.initialization),
        "demonstrations": run.demonstrations,
        "changes": run.changes,
    }
    write_text(run.directory / START_FILE, json.dumps(start, indent=2) + "\n")


def _open_history(run: Run, source: Path | None) -> None:
    """Prepare the folder of the history, if there is one; `source` is the checkpoint that the run continues."""
    if run.recorder is not None:
        run.recorder.writer.open(run.directory / HISTORY_FOLDER, source and source.parent / HISTORY_FOLDER)
        announce(run.recorder, run.config, run.last_frames // run.env.total_spec.num_envs)


def _build(config: TrainConfig, directory: Path, lock: FolderLock, ranks: Ranks) -> Run:
    """Build all parts of a run."""
    env = build_train_env(config, ranks)
    algo = build_algo(config, env.total_spec, env.device, ranks)
    window = EpisodeWindow(env.spec.tasks, config.success_window, env.config.domain.metrics)
    run = Run(config, directory, lock, env, algo, window, ranks)
    if ranks.is_first:
        run.recorder = build_recorder(config, env, algo.frames_per_iteration)
    return run


def check_config(config: TrainConfig) -> None:
    """Check all settings, since a config may be made without `compose`, and the optional packages.

    Raises:
        UserError: If a run cannot have these settings.
    """
    check_values(config)
    if config.privileged == "critic":
        require_apart(config.algo)
    check_extras(tensorboard=config.tensorboard, wandb=config.wandb)
    if config.checkpoint is not None and config.init_from is not None:
        raise UserError("checkpoint continues a run and init_from starts a new one: give only one of them")
    if config.checkpoint is None and config.init_from is None and config.init_rows != TrainConfig.init_rows:
        raise UserError("init_rows belongs to init_from; set that too, or leave it out")
    if config.max_frames is None and config.max_iterations is None:
        raise UserError("a run needs a limit: set max_frames or max_iterations")
