"""The settings of the commands that show a policy: `record` films it, `play` opens a viewer."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.config.schema import PolicyConfig
from polytask.settings import setting


@dataclass
class RecordConfig(PolicyConfig):
    """`polytask record`."""

    checkpoint: str | None = setting(
        None, "run directory, checkpoint or policy file whose policy to film", is_path=True, is_transient=True
    )
    task: str | None = setting(None, "task to film (default: all tasks, in a grid)")
    all_levels: bool = setting(
        False, "parkour: film every level, each into a file of its own, <output>-level-<n>.mp4 (default: level=0)"
    )
    output: str = setting("polytask.mp4", "video to write: a name that ends in .mp4 or .gif", is_path=True)
    width: int = setting(480, "width of the picture of each task, in pixels", within=(16, 1_280))
    height: int = setting(360, "height of the picture of each task, in pixels", within=(16, 960))
    frames_per_second: int | None = setting(
        None,
        "control steps per second of the video; fewer than the control rate is slow motion (default: the control rate, "
        "80, in parkour 50)",
        within=(1, 240),
    )


@dataclass
class PlayConfig(PolicyConfig):
    """`polytask play`."""

    checkpoint: str | None = setting(
        None, "run directory, checkpoint or policy file whose policy to watch", is_path=True, is_transient=True
    )
    run: str | None = setting(
        None,
        "folder of a run, also one in training: watch its newest checkpoint, and load each new one",
        is_path=True,
        is_transient=True,
    )
    task: str | None = setting(None, "task to watch (default: all tasks)")
    worlds: int = setting(16, "worlds to show, at least one per task", within=(1, 1_000))
    speed: float = setting(1.0, "1 is real time, 0.1 slow motion", within=(0.01, 10.0))
    viewer: str = setting(
        "web",
        "web: a page (extra: viewer); native: MuJoCo's own window, for the first world",
        choices=("web", "native"),
    )
    host: str = setting("127.0.0.1", "where to listen; for any address but this machine's own, the link has a token")
    port: int = setting(8012, "port to listen on; if it is taken, the next free one", within=(0, 65_535))
