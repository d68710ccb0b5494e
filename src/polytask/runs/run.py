"""A training run: its parts, its folder, and how it is saved and continued."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from torch import Tensor

from polytask.config.compose import to_plain
from polytask.config.schema import TrainConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.files import LogRow, make_folder, read_json_lines, restore, write_text
from polytask.runs.checkpoint import load, locate, save
from polytask.runs.evaluate import Evaluator
from polytask.runs.file_names import CHECKPOINT_FILE, CONFIG_FILE, METRICS_FILE
from polytask.runs.logger import EpisodeWindow, check_extras
from polytask.runs.setup import build_algo, build_train_env
from polytask.runs.transfer import Initialization, initialize
from polytask.types import Algo


@dataclass
class Run:
    """The state of a training run."""

    config: TrainConfig
    directory: Path
    env: MultiTaskEnv
    algo: Algo
    window: EpisodeWindow
    evaluator: Evaluator | None = None  # kept between evaluations, so that its scenes are built only once
    iteration: int = 0
    seconds: float = 0.0  # duration of all iterations, including those before a resume
    initialization: Initialization | None = None  # what was loaded from a finished run at the start (init_from)

    @property
    def frames(self) -> int:
        """Control steps so far, summed over all worlds."""
        return self.iteration * self.algo.frames_per_iteration

    @property
    def is_over(self) -> bool:
        """Whether a limit on frames, iterations or time is reached."""
        minutes = self.config.max_minutes
        return self.iteration >= self.last_iteration or (minutes is not None and self.seconds >= 60.0 * minutes)

    @property
    def last_iteration(self) -> int:
        """The iteration at which the limit on frames or the limit on iterations is reached, whichever comes first."""
        frames = self.config.max_frames
        limits = [self.config.max_iterations, None if frames is None else -(-frames // self.algo.frames_per_iteration)]
        return min(limit for limit in limits if limit is not None)

    def act(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions without exploration noise, for evaluations and videos."""
        return self.algo.act(obs, task, explore=False)

    def save(self) -> None:
        """Write a checkpoint from which the run can continue."""
        state = {
            "config": to_plain(self.config),
            "spec": asdict(self.env.spec),
            "algo": self.algo.state_dict(),
            "env": self.env.state_dict(),
            "window": self.window.state_dict(),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "initialization": self.initialization and asdict(self.initialization),
        }
        save(self.directory / CHECKPOINT_FILE, state)

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
        self.config = replace(self.config, init_from=state["config"].get("init_from"))
        if state.get("initialization") is not None:
            self.initialization = Initialization(**state["initialization"])


def open_run(config: TrainConfig) -> tuple[Run, list[LogRow]]:
    """Build or continue a run, and return it with the rows that it has logged so far.

    Nothing is written until everything is built and the checkpoint, if any, is loaded.
    """
    _check(config)
    directory = _directory(config)
    state = None if config.checkpoint is None else load(config.checkpoint)
    start = None if config.init_from is None else load(config.init_from)
    history: list[LogRow] = []
    if state is not None:
        metrics = locate(str(config.checkpoint)).parent / METRICS_FILE
        history = read_json_lines(metrics, until=state["iteration"])
    config = replace(config, run_dir=str(directory), checkpoint=None)
    env = build_train_env(config)
    algo = build_algo(config, env.spec, env.device)
    window = EpisodeWindow(env.spec.tasks, config.success_window, env.config.domain.metrics)
    run = Run(config, directory, env, algo, window)
    if state is not None:
        run.restore(state)
    if start is not None:
        run.initialization = initialize(algo, env.spec.tasks, start, str(config.init_from))
    if config.eval_episodes and config.eval_every:
        run.evaluator = Evaluator(config, config.eval_episodes)
    make_folder(directory)
    write_text(directory / CONFIG_FILE, OmegaConf.to_yaml(OmegaConf.create(to_plain(run.config))))
    return run, history


def _check(config: TrainConfig) -> None:
    """Check the limits, the intervals and the optional packages."""
    check_extras(tensorboard=config.tensorboard, wandb=config.wandb)
    if config.checkpoint is not None and config.init_from is not None:
        raise UserError("checkpoint continues a run and init_from starts a new one: give only one of them")
    if config.max_frames is None and config.max_iterations is None:
        raise UserError("a run needs a limit: set max_frames or max_iterations")
    least = {"max_frames": 1, "max_iterations": 1, "save_every": 0, "eval_every": 0, "eval_episodes": 0}
    for name, bound in {**least, "success_window": 1}.items():
        value = vars(config)[name]
        if value is not None and value < bound:
            raise UserError(f"{name}={value} must be at least {bound}")
    if config.max_minutes is not None and not config.max_minutes > 0.0:
        raise UserError(f"max_minutes={config.max_minutes} must be more than 0")


def _directory(config: TrainConfig) -> Path:
    """Choose the folder of the run, and check that it does not contain another run."""
    home = None if config.checkpoint is None else locate(config.checkpoint).parent
    if config.run_dir is not None:
        directory = Path(config.run_dir).expanduser()
    elif home is not None:
        return home
    else:
        tasks = config.suite if config.tasks is None else f"{len(config.tasks)}tasks"
        directory = Path("runs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{tasks}-{config.algo.name}"
    is_taken = any((directory / name).exists() for name in (METRICS_FILE, CHECKPOINT_FILE))
    if is_taken and (home is None or home.resolve() != directory.resolve()):
        raise UserError(
            f"'{directory}' already contains a run; continue it with checkpoint={directory}, or name another run_dir"
        )
    return directory
