"""Settings of the success detector, of the replay buffers and of the Q-network's training."""

from __future__ import annotations

from dataclasses import dataclass, field

from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.network import AugmentConfig, NetworkConfig
from polytask.settings import MAX_SEED, require_order, setting

STRATEGIES = ("orig", "all", "skill")  # of data sharing, as `learning.sharing` describes them
# Share of the episodes whose labels measure a detector and never train it. It is no setting: the page and the run train
# detectors in turn, each from the one before, and an episode must be on the same side for all of them.
MEASURED = 0.2


@dataclass
class CEMConfig:
    """Settings of the search for actions (cross-entropy method)."""

    samples: int = setting(64, "samples of a round", within=(2, 10**6))
    elites: int = setting(
        3, "best samples of each mode; the next round of the mode is drawn around them", within=(2, 10**6)
    )
    iterations: int = setting(2, "rounds", within=(1, 1_000))
    modes: list[float] = setting(
        [],
        "shares of moving alone and of each command in the samples of every round (default: the world's; the bins "
        "have move, close, open, terminate: [0.4, 0.25, 0.25, 0.1])",
        at_least=0.0,
    )
    masked: bool = setting(True, "do not try commands that do nothing, such as opening an open hand")
    spread: float = setting(0.02, "smallest standard deviation of a later round", within=(0.0, 1.0))
    max_turn: float = setting(3.1416, "largest turn that is tried, rad", above=0.0, at_most=3.15)
    axes: list[float] = setting(
        [],
        "part of the range of each motion (the bins': x, y, z) that is searched (default: all of it); use 0 for z with "
        "assisted grasps",
        within=(0.0, 1.0),
    )

    def check_together(self, prefix: str = "") -> None:
        """Check that a mode has a share, and that the elites are among the samples.

        Raises:
            UserError: If a value is not valid.
        """
        if self.modes and sum(self.modes) <= 0:
            raise UserError(f"{prefix}modes={list(self.modes)} is not valid; at least one share must be more than 0")
        require_order(self, prefix, "elites", "samples")

    def check_action(self, action: ActionConfig, prefix: str = "") -> None:
        """Check that the lists have a number for every mode and every motion of an action.

        Raises:
            UserError: If one has not.
        """
        for key, names in {"modes": action.modes, "axes": action.axes}.items():
            found = getattr(self, key)
            if found and len(found) != len(names):
                raise UserError(
                    f"{prefix}{key}={list(found)} is not valid; give {len(names)} numbers: {', '.join(names)}"
                )


@dataclass
class BellmanConfig:
    """Settings of the Bellman targets."""

    gamma: float = setting(0.9, "discount per step", within=(0.0, 1.0))
    cost: float = setting(0.0, "cost of a step; QT-Opt has 0.05, MT-Opt none", within=(0.0, 1.0))
    cem: CEMConfig = setting(CEMConfig, "search for the next action")


@dataclass
class LearnerConfig:
    """Settings of the Q-network and its training."""

    network: NetworkConfig = setting(NetworkConfig, "the Q-network")
    bellman: BellmanConfig = setting(BellmanConfig, "the targets")
    augment: AugmentConfig = setting(AugmentConfig, "changes of pictures in training; targets see none")
    optimizer: str = setting(
        "adam", "adam, or momentum: SGD with momentum 0.9, the paper's", choices=("adam", "momentum")
    )
    lr: float = setting(3e-4, "learning rate; the paper's, for momentum, is 1e-4", above=0.0)
    weight_decay: float = setting(0.0, "weight decay; the paper's, for momentum, is 7e-5", at_least=0.0)
    max_norm: float = setting(10.0, "largest norm of the gradient; a larger one is clipped", above=0.0)
    polyak: float = setting(0.9999, "share of itself that Q1 keeps in an update", at_least=0.0, below=1.0)
    lag: int = setting(6000, "updates between copies of Q1 to Q2", at_least=1)
    has_warmup: bool = setting(True, "both lags grow with training; else they are full from the start")
    conservatism: float = setting(
        0.0, "weight of the loss that pulls the value of random actions to zero", at_least=0.0
    )
    conservative_samples: int = setting(
        4, "random actions per state, where conservatism is above zero", within=(1, 10**6)
    )
    seed: int = setting(0, "seed of the first weights", within=(0, MAX_SEED))


@dataclass
class ReplayConfig:
    """Settings of the replay buffers: their size, and the shares of a batch."""

    capacity: int = setting(
        100_000, "frames to keep; every task has equal room for successes and failures", within=(2, 10**9)
    )
    balance_tasks: bool = setting(
        True, "every task with data has the same share of a batch; else the share of its data"
    )
    success_ratio: float | None = setting(
        0.5,
        "share of a task's rows that come from successes, where it has both (null: the data's own)",
        within=(0.0, 1.0),
    )
    refresh: float = setting(
        0.1,
        "share of the held episodes that others of the log replace at each version of the weights, if not all fit",
        within=(0.0, 1.0),
    )


@dataclass
class SharingConfig:
    """Settings of data sharing: which tasks learn from an episode."""

    strategy: str = setting(
        "skill", "whose episodes a task learns from: orig (its own), all or skill", choices=STRATEGIES
    )
    wait: bool = setting(True, "wait for missing verdicts on an episode; else use the verdicts that it has")


@dataclass
class DetectorConfig:
    """Settings of a success detector and its training."""

    version: str = setting("0", "name of the result; set by the run or the page")
    tasks: list[str] = setting([], "names in the order of their places; set by the run or the page")
    slots: int = setting(0, "places for tasks (0: as many as there are names); set by the run or the page", at_least=0)
    network: NetworkConfig = setting(NetworkConfig, "the detector's network; its picture size is that of the frames")
    # Colours distinguish objects, so they are changed less than for the Q-network.
    augment: AugmentConfig = field(
        default_factory=lambda: AugmentConfig(enabled=True, contrast=0.2, saturation=0.2, hue=0.02),
        metadata={"about": "changes of pictures in training"},
    )
    turned: list[int] = setting(
        [],
        "numbers of the views from above, which are turned and mirrored; none where left and right matter",
        within=(0, 15),
    )
    updates: int = setting(1500, "optimizer steps", within=(1, 10**9))
    batch: int = setting(128, "examples per step", within=(2, 10**6))
    lr: float = setting(1e-3, "learning rate of AdamW at the start; it falls to zero along a cosine", above=0.0)
    weight_decay: float = setting(1e-3, "weight decay of AdamW", at_least=0.0)
    holdout: float = setting(
        0.1, "share of the outcomes whose labels only set temperature and thresholds", at_least=0.0, below=1.0
    )
    threshold: float = setting(
        0.5,
        "probability above which an outcome counts as a success; a task's own threshold may be higher",
        within=(0.0, 1.0),
    )
    least_precision: float = setting(
        0.5, "precision on random labels below which a task is no reward until it has more labels", within=(0.0, 1.0)
    )
    least_tested: int = setting(
        20, "random labels kept aside that must measure a task before it is a reward", within=(0, 10**6)
    )
