"""A plug-in brings a world of its own: no simulator, no truth, no script. A run collects and learns in it."""

from __future__ import annotations

import json
import sys

import pytest

import polytask
from polytask.cli.main import main
from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.world_specs import DRAWER, WORLDS, WorldSpec
from polytask.mtopt.records import Label, TaskInfo
from polytask.mtopt.store import EpisodeStore
from polytask.plugins.needs import ORIGINS

PLUGIN = '''
import torch
import polytask
from dataclasses import replace
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.world_specs import WorldSpec
from polytask.mtopt.records import Observation, TaskInfo


class Slide:
    """A bright column that an action moves; it is at the right end of the picture, or not."""

    def __init__(self, config):
        self.config, self.num_envs, self.device = config, config.num_envs, torch.device(config.device)
        self.generator = torch.Generator().manual_seed(config.seed)
        self.place = torch.zeros(self.num_envs)
        self.done = torch.zeros(self.num_envs, dtype=torch.bool)
        self.broken = torch.zeros_like(self.done)

    def reseed(self, seed):
        self.config = replace(self.config, seed=seed)
        self.generator.manual_seed(seed)

    def reset(self):
        self.place = torch.rand(self.num_envs, generator=self.generator)
        self.done.zero_()

    def start(self, skill):
        self.reset()

    def go_on(self, skill, before, *, hand_over):
        return torch.ones_like(self.done)

    def picture(self, shape):
        image = torch.zeros(self.num_envs, *shape, 3, dtype=torch.uint8)
        column = (self.place * (shape[1] - 1)).long()
        image[torch.arange(self.num_envs), :, column] = 255
        return image

    def observe(self):
        zero = torch.zeros(self.num_envs)
        return Observation(self.picture(self.config.image_shape), zero, zero, torch.full((self.num_envs, 3), torch.nan))

    def step(self, action):
        self.place = (self.place + 0.3 * action[:, 0] * ~self.done).clamp(0, 1)

    def present(self):
        self.done.fill_(True)
        return self.picture(self.config.outcome_shape)[:, None]

    def truth(self, tasks):
        raise AssertionError("this world has no truth")

    def script(self, skill, config):
        return None

    def warn(self):
        pass

    def close(self):
        pass


polytask.register_world(
    WorldSpec(
        name="slide",
        about="a column that slides",
        build=Slide,
        tasks=(TaskInfo("slide-right", "slide", "The column is at the right end."),),
        captions=("front",),
        action=ActionConfig(axes=["x"], turns=[], commands=[], shares=[1.0]),
        outcome_aspect=2.0,
        has_truth=False,
    )
)
'''
WORDS = [
    *("world.kind=slide", "world.num_envs=4", "world.image_size=16", "world.outcome_size=16"),
    *("learner.network.image_size=16", "learner.bellman.cem.samples=4", "learner.bellman.cem.elites=2"),
    *("collector.max_steps=2", "replay.capacity=200", "updater.rows=16", "trainer.batch=8", "trainer.buffer=64"),
    *("trainer.updates=2", "trainer.publish_every=2", "detector.updates=2", "detector.batch=4", "labels.who=person"),
    *("evaluator.episodes=2", "controller.rounds=0", "collector.episodes=12", "storage.fsync=false"),
]


@pytest.fixture(autouse=True)
def tables():
    """Undo what a test registers."""
    before = [dict(table) for table in (WORLDS, ORIGINS)]
    yield
    for table, old in zip((WORLDS, ORIGINS), before, strict=True):
        table.clear()
        table.update(old)
    sys.modules.pop("sliding", None)


def test_a_run_in_the_world_of_a_plug_in(tmp_path, capsys):
    pytest.importorskip("fastapi")
    plugin, root = tmp_path / "sliding.py", tmp_path / "run"
    plugin.write_text(PLUGIN)
    words = [f"plugins=[{plugin}]", f"run_dir={root}"]
    assert main(["mtopt", "run", *words, *WORDS]) == 0
    assert "The run waits for your labels" in capsys.readouterr().out
    store = EpisodeStore(root)
    rows = store.rows()
    assert len(rows) == 12
    assert {row.policy for row in rows} == {"scripted-random"}, "the world has no script"
    episode = store.read(rows[0].id)
    assert (episode.actions.shape, episode.outcome.shape) == ((2, 1), (1, 16, 32, 3))
    assert store.truth(rows[0].id) == {}
    labels = [Label(row.id, "slide-right", float(row.id % 2), "person") for row in rows]
    store.add_labels(labels)
    capsys.readouterr()
    assert main(["mtopt", "run", *words, "detector.least_precision=0", "detector.least_tested=0", "format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["success"], found["tasks"][0]["success"], found["chains"]) == (None, None, None)
    assert set(found["tasks"][0]["commands"]) == {"move"}
    assert found["tasks"][0]["verdict"] is not None


def test_a_run_says_that_its_world_needs_a_plug_in(tmp_path, capsys):
    assert main(["mtopt", "collect", f"run_dir={tmp_path}", "world.kind=slide"]) == 2
    err = capsys.readouterr().err
    assert "unknown world 'slide'" in err
    assert "one of a plug-in needs plugins=[MODULE]" in err


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": "Slide It"}, "cannot be the name of a world"),
        ({"name": "bins"}, "there is already a world 'bins'"),
        ({"captions": ()}, "needs at least one task, one view of an outcome"),
        ({"main": ("push",)}, "unknown task 'push'"),
        ({"chains": (("slide", "push"),)}, "unknown skill of world 'x' 'push'"),
        ({"action": ActionConfig(axes=[], turns=[])}, "world 'x': action.axes"),
    ],
)
def test_worlds_that_cannot_work_are_refused(changes, line):
    given = {"name": "x", "about": "", "build": object, "captions": ("front",)} | changes
    with pytest.raises(UserError, match=line):
        polytask.register_world(WorldSpec(tasks=(TaskInfo("slide", "slide", "It slid."),), **given))


def test_only_worlds_are_registered():
    with pytest.raises(UserError, match="register_world takes a WorldSpec, not str"):
        polytask.register_world("bins")
    assert polytask.register_world(DRAWER) is DRAWER, "our own again changes nothing"
