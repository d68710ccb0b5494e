"""The films of the pretrained policies, and the README's picture."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.scripts import load_script
from PIL import Image

from polytask.envs.captions import Caption, font
from polytask.envs.suites import SUITES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def films():
    return load_script("films")


def solved_in(films, series):
    text = (DOCS / series.page).read_text()
    counts = [int(count) for count in re.findall(rf"(\d+)\s+of\s+{len(series.tasks)}\b", text)]
    assert len(counts) == 1
    assert text == films.page(series, counts[0])
    return counts[0]


def test_the_pages_are_up_to_date_and_say_what_readme_and_start_say(films):
    solved = solved_in(films, films.MT50)
    for page in (ROOT / "README.md", DOCS / "index.md"):
        assert f"{solved} of the 50 do" in page.read_text()
    assert 0 < solved_in(films, films.PARKOUR) <= 21
    assert 0 < solved_in(films, films.HARDEST) < 20


def test_the_figures_of_the_hardest_level_are_those_of_the_raw_file(films):
    figures, episodes = films.figures_of(films.HARDEST)
    assert len(figures) == 20 and "flat" not in figures
    assert (episodes, figures["box-climb"]) == (4, 0.28125)


def test_halves_are_rounded_up(films):
    assert [films.rounded(share) for share in (0.125, 0.375, 0.625, 0.28125, 0.975, 1.0)] == [
        "0.13", "0.38", "0.63", "0.28", "0.98", "1.00",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["mt50", "parkour-hard", "parkour-hardest"])
def test_every_task_has_a_film_and_all_are_small(films, name):
    series = films.ALL[name]
    files = {path.stem: path for path in (DOCS / series.folder).iterdir()}
    assert set(files) == set(series.tasks)
    assert sum(path.stat().st_size for path in files.values()) < 12e6
    with Image.open(files["door-open" if name == "mt50" else "poles"]) as film:
        assert film.size == series.size
        assert film.n_frames > series.steps // series.every // 2


def test_a_film_ends_with_its_episode_and_shows_its_last_score(films, monkeypatch):
    env = FakeWorlds()
    monkeypatch.setattr(films, "pose_of", lambda env, task: env.steps)
    monkeypatch.setattr(films, "CaptionReader", lambda env, first_only: env)
    monkeypatch.setattr(films.polytask, "load_policy", lambda suite: env)
    episodes = films.play(env, replace(films.PARKOUR, steps=8, every=2))
    assert episodes["long"].poses == [0, 2, 4, 6]
    assert episodes["short"].poses == [0, 2, 4, 4]
    assert episodes["short"].captions[-1] == Caption("short", 5, 1.0, is_over=True)


class FakeWorlds:
    """Two worlds, of which the second ends its episode after five steps; reader and policy too."""

    spec = SimpleNamespace(tasks=("long", "short"))
    obs = task = None
    steps = 0

    def read(self):
        score = 0.5 if self.steps else 0.0
        if self.steps < 5:
            return [Caption("long", self.steps, score), Caption("short", self.steps, score)]
        return [Caption("long", self.steps, score), Caption("short", 5, 1.0, is_over=True)]

    def step(self, action):
        self.steps += 1

    def for_tasks(self, tasks):
        return lambda obs, task: None


def test_the_picture_of_the_readme_moves_and_is_small(films):
    path = DOCS / "images" / "mt50.webp"
    assert path.stat().st_size < 6e6
    with Image.open(path) as picture:
        assert picture.n_frames == films.MT50.steps // films.MT50.every
        assert picture.width == films.COLUMNS * films.CELL[0]


def test_names_fit_into_their_cells(films):
    for task in SUITES["mt50"]:
        lines = films.lines_of(task)
        assert "".join(lines) == task
        assert len(lines) <= 2
        assert max(font(films.LETTERS).getlength(line) for line in lines) < films.CELL[0] - 2 * films.MARGIN


def test_only_success_is_marked(films):
    image = np.full((360, 480, 3), 90, np.uint8)
    green = [
        int((films.cell(image, Caption("reach", 5, score)).astype(int) @ [-1, 2, -1] > 100).sum())
        for score in (0.0, 0.5, 1.0)
    ]
    assert green[0] == green[1] == 0
    assert green[2] > 50


def test_a_grid_has_rows_of_ten(films):
    cells = [np.full((3, 2, 3), number, np.uint8) for number in range(20)]
    grid = films.tiled(cells)
    assert grid.shape == (6, 20, 3)
    assert grid[0, ::2, 0].tolist() == list(range(10))
    assert grid[3, ::2, 0].tolist() == list(range(10, 20))
