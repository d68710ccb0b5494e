"""Windows over ended episodes, rows of metrics and their writers."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from polytask.config.compose import compose, to_plain
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.files import read_json_lines
from polytask.runs.file_names import METRICS_FILE
from polytask.runs.logger import (
    EpisodeWindow,
    Logger,
    TensorBoardWriter,
    check_extras,
    name_of,
    read_metrics,
    read_tensors,
)
from polytask.types import EPISODE_METRICS


def sums(episodes, success):
    """Return the sums of an interval. The other sums are computed from the two given ones."""
    values = {"episodes": episodes, "success": success, "success_at_end": success, "diverged": [1.0] * len(episodes)}
    return {name: values.get(name, [10.0 * count for count in episodes]) for name in EPISODE_METRICS}


def test_success_is_averaged_per_task_and_then_over_tasks():
    window = EpisodeWindow(("a", "b"), size=100)
    window.add(sums([8.0, 2.0], [8.0, 1.0]))
    record = window.row()
    assert (record["success/a"], record["success/b"]) == (1.0, 0.5)
    assert record["success"] == 0.75  # not 9 of 10 episodes, because every task has the same weight
    assert record["return/a"] == 10.0
    assert record["diverged"] == 2


def test_a_task_without_ended_episodes_keeps_its_last_value():
    window = EpisodeWindow(("a", "b"), size=1)
    assert window.row()["success"] is None
    window.add(sums([4.0, 0.0], [1.0, 0.0]))
    assert window.row()["success/b"] is None
    assert window.row()["success"] == 0.25  # over the tasks that have a value
    window.add(sums([0.0, 2.0], [0.0, 2.0]))
    assert (window.row()["success/a"], window.row()["success/b"]) == (0.25, 1.0)


def test_the_window_forgets_whole_intervals_but_never_goes_below_its_size():
    window = EpisodeWindow(("a",), size=4)
    for success in (3.0, 0.0, 0.0):
        window.add(sums([3.0], [success]))
    assert window.row()["success/a"] == 0.0  # the last two intervals have six episodes, so the first one is dropped
    window.add(sums([1.0], [1.0]))
    assert window.row()["success/a"] == pytest.approx(1 / 4)  # 3 + 1 episodes suffice


def test_a_restored_window_goes_on_alike():
    window, other = EpisodeWindow(("a", "b"), size=5), EpisodeWindow(("a", "b"), size=5)
    window.add(sums([3.0, 4.0], [1.0, 4.0]))
    other.load_state_dict(window.state_dict())
    for each in (window, other):
        each.add(sums([4.0, 1.0], [4.0, 0.0]))
    assert window.row() == other.row()


def test_a_window_of_other_tasks_does_not_fit():
    with pytest.raises(ValueError, match="1 tasks instead of 2"):
        EpisodeWindow(("a", "b"), 5).load_state_dict(EpisodeWindow(("a",), 5).state_dict())


def test_tensors_of_any_shape_and_type_are_read_at_once():
    tensors = {"x": torch.tensor(2), "y": torch.tensor([[1.5, 2.5]]), "z": torch.tensor([True])}
    assert read_tensors(tensors) == {"x": [2.0], "y": [1.5, 2.5], "z": [1.0]}
    assert read_tensors({}) == {}


def test_metrics_become_one_flat_record():
    window = EpisodeWindow(("a", "b"), size=1)
    episodes = {name: torch.tensor(values) for name, values in sums([1.0, 1.0], [1.0, 0.0]).items()}
    metrics = {"loss": torch.tensor(0.5), "weight": torch.tensor([0.25, 0.75])}
    record = read_metrics(metrics, episodes, window)
    assert (record["loss"], record["weight/a"], record["weight/b"]) == (0.5, 0.25, 0.75)
    assert record["success"] == 0.5


def test_tensorboard_holds_the_record(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = TensorBoardWriter(tmp_path)
    writer.write({"iteration": 3, "frames": 96, "success": 0.5, "success/a": None})
    writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    (event,) = events.Scalars("success")
    assert (event.step, event.value) == (96, 0.5)
    assert "success/a" not in events.Tags()["scalars"]


def test_wandb_gets_the_same_record_and_stays_offline(tmp_path, monkeypatch):
    logged, started = [], {}
    run = SimpleNamespace(log=lambda record, step: logged.append((step, record)), finish=lambda: logged.append("end"))
    fake = SimpleNamespace(
        init=lambda **options: started.update(options) or run, Video=lambda path, format: (path, format)
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    words = ["wandb=true", "wandb_project=arms", "wandb_entity=lab", "wandb_group=first"]
    config = to_plain(compose(TrainConfig, words))
    with Logger(tmp_path, config, []) as logger:
        logger.write({"iteration": 1, "frames": 32, "success": None, "loss": 0.5})
        logger.show(tmp_path / "film.gif", 32)
    named = {key: started[key] for key in ("mode", "project", "entity", "group", "name")}
    assert named == {"mode": "offline", "project": "arms", "entity": "lab", "group": "first", "name": tmp_path.name}
    assert started["config"]["algo"]["name"] == "ppo"
    film = (32, {"policy": (str(tmp_path / "film.gif"), "gif")})
    assert logged == [(32, {"iteration": 1, "frames": 32, "loss": 0.5}), film, "end"]
    assert [record["loss"] for record in read_json_lines(tmp_path / METRICS_FILE)] == [0.5]
    with Logger(tmp_path, {**config, "wandb_name": "mine"}, []):
        assert started["name"] == "mine"


def test_a_seed_of_a_sweep_is_named_after_its_setting_too():
    assert name_of(Path("runs/sweep/00-mean/seed-1")) == "00-mean/seed-1"
    assert name_of(Path("runs/reach")) == "reach"


def test_tensorboard_shows_a_film(tmp_path):
    from PIL import Image
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    film = tmp_path / "film.gif"
    pictures = [Image.new("RGB", (12, 8), color) for color in ("red", "blue")]
    pictures[0].save(film, save_all=True, append_images=pictures[1:])
    writer = TensorBoardWriter(tmp_path)
    writer.show(film, 96)
    writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    (event,) = events.Images("policy")
    assert (event.step, event.width, event.height) == (96, 12, 8)
    assert event.encoded_image_string == film.read_bytes()


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_extra_is_named(name, monkeypatch):
    monkeypatch.setattr("polytask.runs.logger.find_spec", lambda module: None)
    check_extras(tensorboard=False, wandb=False)
    with pytest.raises(UserError, match=rf"polytask\[{name}\]"):
        check_extras(**{"tensorboard": False, "wandb": False, name: True})
