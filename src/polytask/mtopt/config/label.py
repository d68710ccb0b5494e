"""Settings of the labelling page."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.mtopt.config.commands import FolderCommandConfig
from polytask.mtopt.config.learning import STRATEGIES, DetectorConfig
from polytask.settings import MAX_SEED, setting


@dataclass
class LabelConfig(FolderCommandConfig):
    """`polytask label`."""

    tasks: list[str] = setting([], "names to label (default: all)")
    host: str = setting("127.0.0.1", "where to listen; any address but this machine's own makes a token necessary")
    port: int = setting(8008, "port to listen on", within=(0, 65_535))
    token: str = setting("", "token that a browser must send when the page listens elsewhere (default: a random one)")
    detectors: str | None = setting(
        None, "folder of the detector files (default: `detectors` in run_dir)", is_path=True
    )
    source: str = setting(
        "person",
        "who answers: person, or oracle for the stand-in that reads the simulator's truth",
        choices=("person", "oracle"),
    )
    share: str = setting(
        "skill", "whose episodes a task is asked about: orig (its own), skill, all", choices=STRATEGIES
    )
    goal: int = setting(500, "labels per task that the progress bars count towards", at_least=1)
    reask: float = setting(0.1, "share of the labels that are asked again without a notice", within=(0.0, 1.0))
    reask_gap: int = setting(
        20, "answers of a task that must lie between a label and its second question", within=(0, 10**6)
    )
    pool: int = setting(1000, "unlabelled episodes per task that a new detector ranks", at_least=0)
    max_upload_bytes: int = setting(5 * 1024 * 1024, "largest upload, bytes", at_least=1)
    max_upload_pixels: int = setting(16 * 1024 * 1024, "largest upload, pixels", at_least=1)
    outcome_size: int = setting(
        96,
        "height of an uploaded example in a store that holds no episode yet, pixels (default: the run's)",
        within=(8, 1_024),
    )
    outcome_width: int | None = setting(
        None, "width of such an example, pixels (default: the run's, or its height)", within=(8, 4_096)
    )
    views: int = setting(3, "views of an uploaded example in a store that holds no episode yet", within=(1, 16))
    captions: list[str] = setting([], "what each view of an outcome shows (default: as the run's world declares it)")
    seed: int = setting(0, "seed of the detector's training", within=(0, MAX_SEED))
    device: str = setting("cpu", "torch device that trains and runs the detector")
    # The page sets version and tasks.
    detector: DetectorConfig = setting(
        DetectorConfig, "training of the detector (default: the run's own settings; detector.updates=...)"
    )
