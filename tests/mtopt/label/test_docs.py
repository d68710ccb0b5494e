"""What the labelling guide says is so."""

import re
from dataclasses import fields
from pathlib import Path

from helpers.label_page import running

from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.learning import DetectorConfig

PAGE = Path(__file__).parents[3] / "docs" / "mtopt_labelling.md"


def test_the_program_of_the_guide_labels_and_trains(config, store):
    config.detector.updates, config.detector.batch = 5, 8
    config.source = "oracle"
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with running(config) as url:
        code = code.replace("runs/bins", str(store.root)).replace("http://127.0.0.1:8008/", url)
        names = {}
        exec(compile(code, "guide", "exec"), names)
        names["store"].close()
    assert names["report"]["version"] == "page-1"
    assert len(store.labels("lift-any", "oracle")) == 40


def test_the_guide_names_settings_that_exist_with_their_defaults():
    text = PAGE.read_text()
    table = text[text.index("## Settings") : text.index("## Who")]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([\w.]+)`", row)
    }
    own = {each.name for each in fields(LabelConfig)}
    assert named <= own | {f"detector.{each.name}" for each in fields(DetectorConfig)}
    assert {"run_dir", "host", "port", "token", "pool", "reask"} <= named
    config = LabelConfig()
    for value in (config.host, config.port, config.goal, config.reask, config.pool, config.detector.updates):
        assert f" {value}" in table


def test_the_pictures_of_the_guide_are_there():
    pictures = re.findall(r"\]\((images/.*?)\)", PAGE.read_text())
    assert len(pictures) == 3
    assert all((PAGE.parent / name).is_file() for name in pictures)
