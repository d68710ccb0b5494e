"""The films of the pretrained policy, and the README's picture."""

import re
from pathlib import Path

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


def test_the_page_is_up_to_date_and_says_what_readme_and_start_say(films):
    text = (DOCS / "films.md").read_text()
    solved = int(re.search(r"solves\s+(\d+)\s+of\s+50", text)[1])
    assert text == films.page(solved)
    for page in (ROOT / "README.md", DOCS / "index.md"):
        assert f"{solved} of the 50 do" in page.read_text()


def test_every_task_has_a_film_and_all_are_small(films):
    files = {path.stem: path for path in (DOCS / "films").iterdir()}
    assert set(files) == set(SUITES["mt50"])
    assert sum(path.stat().st_size for path in files.values()) < 12e6
    with Image.open(files["door-open"]) as film:
        assert film.size == films.FILM
        assert film.n_frames > films.STEPS // films.EVERY // 2


def test_the_picture_of_the_readme_moves_and_is_small(films):
    path = DOCS / "images" / "mt50.webp"
    assert path.stat().st_size < 6e6
    with Image.open(path) as picture:
        assert picture.n_frames == films.STEPS // films.EVERY
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
