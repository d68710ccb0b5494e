"""The drawer from collection to evaluation: another scene, arm, action, number of views and shape of pictures."""

from dataclasses import replace

import pytest
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.config.run import EvaluatorConfig, RunConfig
from polytask.mtopt.runtime.checks import prepared
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.store import EpisodeStore

pytest.importorskip("fastapi")


def small(root, **changes):
    """Return a run on two drawers."""
    config = RunConfig(run_dir=str(root))
    config.world.kind = "drawer"
    config.learner.network.image_size = 16
    return tiny(
        root, tasks=[], world=changes.pop("world", None) or _world(config.world), learner=config.learner, **changes
    )


def _world(world):
    world.num_envs, world.image_size, world.outcome_size, world.reach = 2, 16, 16, 0.08
    return world


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    config = small(tmp_path_factory.mktemp("second") / "run", evaluator=EvaluatorConfig(episodes=2))
    config.collector.max_steps = 10
    runtime = LocalRuntime(config, lambda line: None)
    evaluation = runtime.run()
    runtime.close()
    return config, evaluation


def test_the_network_takes_over_what_the_world_declares(finished):
    config, _ = finished
    network = config.learner.network
    assert (network.action.size, network.action.modes, network.merge) == (4, ("move", "terminate"), "added")
    assert (config.world.image_shape, config.world.outcome_shape) == ((16, 32), (16, 24))
    assert (network.image_size, network.image_width) == (16, 32)
    assert config.learned == ("drawer-open", "drawer-close")


def test_episodes_labels_and_verdicts_are_of_the_worlds_tasks(finished):
    config, _ = finished
    store = EpisodeStore(config.root)
    rows = store.rows()
    assert {row.task for row in rows} == {"drawer-open", "drawer-close"}
    assert {row.policy for row in rows} >= {"scripted-pull", "scripted-push"}
    episode = store.read(rows[0].id)
    assert episode.actions.shape[1:] == (4,)
    assert (episode.images.shape[1:], episode.outcome.shape) == ((16, 32, 3), (2, 16, 24, 3))
    assert episode.pose.shape == (len(episode.actions) + 1, 3)
    assert set(store.label_counts("oracle")) == {"drawer-open", "drawer-close"}
    truth = store.truth(rows[0].id)
    assert truth.keys() == {"drawer-open", "drawer-close", "drawer-half"}


def test_the_evaluation_has_its_commands_simple_policies_and_chain(finished):
    _, evaluation = finished
    rows = {row.task: row for row in evaluation.tasks}
    assert list(rows) == ["drawer-open", "drawer-close"]
    assert all(set(row.commands) == {"move", "end"} for row in rows.values())
    assert all(set(row.simple) == {"end now", "random"} for row in rows.values())
    assert rows["drawer-open"].simple["end now"] == 0.0, "a drawer does not open by itself"
    assert [(chain.after, chain.task) for chain in evaluation.chains] == [("drawer-open", "drawer-close")]


def test_a_run_stays_in_its_world(finished):
    config, _ = finished
    with pytest.raises(UserError, match="has no tasks of world 'bins'; choose another run_dir"):
        tiny(config.root, tasks=[])
    config = replace(config, world=replace(config.world, kind="robot"))
    with pytest.raises(UserError, match=r"world\.kind=drawer, not robot; choose another run_dir"):
        RunFolder(config.root).check(config)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda c: setattr(c.world, "kind", "drawr"), "unknown world 'drawr'; did you mean 'drawer'"),
        (lambda c: setattr(c.learner.network, "merge", "located"), "the camera of world 'drawer' is not known"),
        (
            lambda c: setattr(c.learner.bellman, "cem", CEMConfig(modes=[0.5, 0.2, 0.2, 0.1])),
            r"cem\.modes=\[0\.5, 0\.2, 0\.2, 0\.1\] is not valid; give 2 numbers: move, terminate",
        ),
        (lambda c: setattr(c.detector, "turned", [2]), "outcomes have views 0 to 1"),
        (lambda c: setattr(c.detector, "turned", [1]), "views of 16 x 24 pixels are not square"),
        (lambda c: setattr(c, "tasks", ["lift-any"]), "unknown task 'lift-any'"),
    ],
)
def test_settings_that_do_not_fit_the_world_are_refused_in_one_line(tmp_path, change, line):
    config = small(tmp_path)
    change(config)
    with pytest.raises(UserError, match=line) as refused:
        prepared(config)
    assert "\n" not in str(refused.value)
