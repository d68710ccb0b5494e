"""Films of the policy during training."""

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.files import read_json_lines
from polytask.runs.file_names import METRICS_FILE
from polytask.runs.train import train

WORDS = ["tasks=[reach,drawer-close]", "num_envs=4", "episode_length=12", "algo.horizon=8", "algo.minibatch=16"]
WORDS += ["max_iterations=4", "eval_episodes=0", "threads=1", "video=false"]
CLOCK = ("seconds", "frames_per_second")


def run(folder, *words):
    """Train, and return the rows of metrics without those of the clock."""
    train(compose(TrainConfig, [*WORDS, f"run_dir={folder}", *words]))
    rows = read_json_lines(folder / METRICS_FILE)
    return [{name: value for name, value in row.items() if name not in CLOCK} for row in rows]


def test_films_are_written_shown_and_change_nothing_that_is_learned(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    filmed = run(tmp_path / "filmed", "video_every=2", "tensorboard=true")
    assert filmed == run(tmp_path / "plain")
    films = sorted((tmp_path / "filmed" / "videos").iterdir())
    assert [film.name for film in films] == ["000000000064.gif", "000000000128.gif"]
    with Image.open(films[0]) as film:
        assert film.size == (320, 120)  # two tasks, side by side
        assert film.n_frames == 2  # of eleven steps at 80 per second, ten per second
    events = EventAccumulator(str(tmp_path / "filmed"))
    events.Reload()
    assert [event.step for event in events.Images("policy")] == [64, 128]
    assert not (tmp_path / "plain" / "videos").exists()


def test_a_run_that_cannot_be_filmed_goes_on_and_says_so_once(tmp_path, monkeypatch, capsys):
    def fail(self, path, video, seconds):
        raise UserError("no video: it needs OpenGL")

    monkeypatch.setattr("polytask.runs.films.Footage.write", fail)
    assert len(run(tmp_path / "run", "video_every=1")) == 4
    assert capsys.readouterr().err.count("no video: it needs OpenGL; the run goes on without films") == 1
