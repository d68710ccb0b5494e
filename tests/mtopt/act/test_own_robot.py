"""The tutorial "your own robot's episodes": make a data set, import it, train, act."""

import base64
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from helpers.label_page import served

from polytask.cli.main import main
from polytask.errors import UserError
from polytask.mtopt.act.actor import Actor, Look
from polytask.mtopt.act.server import create_app
from polytask.mtopt.config import ActConfig
from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.label.client import InProcessClient
from polytask.mtopt.label.server import server_of
from polytask.mtopt.store import EpisodeStore

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "mtopt_own_robot.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run the commands of the page, with fewer updates."""
    path, before = tmp_path_factory.mktemp("robot"), Path.cwd()
    os.chdir(path)
    try:
        for line in "".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)).splitlines():
            words = shlex.split(line.replace("updates=200", "updates=4").replace("updates=20", "updates=6"))
            if words[0] == "python":
                subprocess.run([sys.executable, str(ROOT / words[1]), *words[2:]], check=True)
            else:
                assert main(words[1:]) == 0, line
    finally:
        os.chdir(before)
    return path


@pytest.fixture
def config(folder):
    return ActConfig(run_dir=str(folder / "runs" / "robot"), fit="crop")


def body(folder, **changes):
    data = (folder / "my_robot" / "0001" / "frames" / "000.png").read_bytes()
    return {"task": "lift-any", "image": base64.b64encode(data).decode(), "height": 0.2, **changes}


def ask(config, body, **headers):
    client = InProcessClient(create_app(config))
    return client.request(
        "POST", "/api/act", json.dumps(body).encode(), {"content-type": "application/json", **headers}
    )


def test_the_episodes_and_their_labels_are_in_the_run(folder):
    with closing(EpisodeStore(folder / "runs" / "robot")) as store:
        assert len(store) == 150
        assert store.read(1).images.shape == (4, 64, 64, 3)
        labels = {one.episode: one.value for one in store.labels("lift-any", "person")}
    files = sorted((folder / "my_robot").glob("*/episode.json"))
    assert labels == {number + 1: float(json.loads(one.read_text())["success"]) for number, one in enumerate(files)}
    assert set(labels.values()) == {0.0, 1.0}


def test_the_detector_of_the_page_may_reward_the_task(folder):
    """With the settings of the gate as they are; the page says how many episodes that takes."""
    run = folder / "runs" / "robot"
    judge = Judge(run / "detectors", "cpu")
    assert judge.version == "relabel-1" and judge.judged(["lift-any"]) == ("lift-any",)
    score = json.loads((run / "detectors" / "relabel-1.scores.json").read_text())["lift-any"]
    assert score["precision"] > 0.9 and f"{score['count']} are kept\naside" in PAGE
    assert f"at least {DetectorConfig().least_tested} must test" in PAGE
    with closing(EpisodeStore(run)) as store:
        assert store.label_counts("detector:relabel-1") == {"lift-any": 150}


def test_the_program_of_the_page_gets_an_action(folder, config, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    config.port = 0
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    with served(config, server_of(create_app(config))) as url:
        exec(compile(code.replace("http://127.0.0.1:8009/", url), "page", "exec"), names)
    action = names["answer"]["action"]
    assert len(action) == 8
    assert all(-1.0 <= value <= 1.0 for value in action)
    assert 0.0 < names["answer"]["value"] < 1.0
    assert names["answer"]["policy"] == f"q:{Actor(config).weights.version}"


def test_the_server_gives_the_action_that_python_gives(folder, config):
    from PIL import Image

    picture = np.asarray(Image.open(folder / "my_robot" / "0001" / "frames" / "000.png"))
    decision = Actor(config).act(Look(picture, height=0.2), "lift-any")
    reply = ask(config, body(folder)).json()
    assert (reply["action"], reply["value"]) == (decision.action, decision.value)
    assert ask(config, body(folder, closed=True)).json()["value"] != decision.value


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"task": "place-any"}, "unknown task 'place-any'"),
        ({"image": "???"}, "it is not a file in base64"),
        ({"image": base64.b64encode(b"text").decode()}, "not a readable picture"),
        ({"pose": [0.0, 0.0]}, "the pose has 2 numbers, not 3"),
        ({"height": "high"}, "body.height"),
        ({"speed": 1}, "body.speed"),
    ],
)
def test_a_wrong_request_is_answered_by_one_line(folder, config, changes, line):
    reply = ask(config, body(folder, **changes))
    assert reply.status == 422
    assert line in reply.json()["detail"]


def test_other_machines_need_a_token(folder, config):
    config.host = "0.0.0.0"
    with pytest.raises(UserError, match="opens the server to other machines: set token="):
        create_app(config)
    config.token = "t" * 16
    assert ask(config, body(folder)).status == 401
    assert ask(config, body(folder), **{"x-polytask-token": "t" * 16}).status == 200


def test_other_sites_and_names_are_refused(folder, config):
    assert ask(config, body(folder), origin="http://evil.example").status == 403
    assert ask(config, body(folder), host="evil.example").status == 421


def test_pictures_of_another_size_are_refused_unless_fitted(folder, config):
    config.fit = "exact"
    assert "the picture has 96 x 72 pixels, the run needs 64 x 64" in ask(config, body(folder)).json()["detail"]


@pytest.mark.parametrize(
    ("command", "module"), [("act", "polytask.mtopt.commands"), ("import", "polytask.datasets.mtopt_import")]
)
def test_a_missing_extra_is_named(capsys, monkeypatch, tmp_path, command, module):
    monkeypatch.setattr(f"{module}.find_spec", lambda name: None)
    words = ["data=nowhere"] if command == "import" else []
    assert main(["mtopt", command, f"run_dir={tmp_path / 'x'}", *words]) == 2
    assert "pip install 'polytask[label]'" in capsys.readouterr().err


def test_there_must_be_weights(folder, capsys):
    run_dir = folder / "runs" / "untrained"
    assert main(["mtopt", "import", f"data={folder / 'my_robot'}", f"run_dir={run_dir}", "fit=crop"]) == 0
    capsys.readouterr()
    assert main(["mtopt", "act", f"run_dir={run_dir}"]) == 2
    assert "no weights in" in capsys.readouterr().err
