"""Truth beside verdict, per task."""

import pytest
import torch
from helpers.detectors import save_detector

from polytask.errors import UserError
from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.records import Observation
from polytask.mtopt.roles import Evaluator
from polytask.mtopt.roles.evaluation import ChainResult, Evaluation, TaskResult
from polytask.mtopt.roles.simple_policies import ConstantPolicy, RandomPolicy
from polytask.mtopt.seeds import derive
from polytask.mtopt.tasks import ALL_TASKS
from polytask.mtopt.world import run_episodes


def test_an_evaluation_is_repeatable_and_shows_truth_beside_verdict(config):
    config.world.num_envs = 3
    config.evaluator.episodes = 4
    evaluator = Evaluator(config)
    with pytest.raises(UserError, match="no weights to evaluate"):
        evaluator.sync()
    first = evaluator.step(["place-any"], is_scripted=True)
    assert first.policy == "scripted"
    row = first.tasks[0]
    assert (row.task, row.episodes, row.verdict, row.script) == ("place-any", 4, None, None)
    assert row.low <= row.success <= row.high
    save_detector(config.detectors, "d1", views=3, threshold=0.0)
    evaluator.judge.sync()
    second = evaluator.step(["place-any"], is_scripted=True)
    assert second.tasks[0].success == row.success
    assert second.tasks[0].length == row.length
    assert (second.tasks[0].verdict, second.detector) == (1.0, "d1"), "all probabilities are above a threshold of zero"
    assert second.tasks[0].wrong in (1.0, None)
    assert Evaluation.load(second.plain()) == second
    save_detector(config.detectors, "d2", views=3, taught=["lift-any"])
    evaluator.judge.sync()
    third = evaluator.step(["place-any"], is_scripted=True)
    assert (third.tasks[0].verdict, third.tasks[0].wrong, third.detector) == (None, None, "d2"), "not taught"


def test_the_mean_of_an_evaluation_is_over_tasks():
    rows = [TaskResult(name, 2, value, 0.0, 1.0, None, None, None, 3.0) for name, value in (("a", 0.5), ("b", 1.0))]
    found = Evaluation("q:2", 2, "", 0, rows)
    assert found.metrics() == {"success": 0.75, "weights": 2.0, "success/a": 0.5, "success/b": 1.0}


def test_all_tasks_of_a_skill_have_the_starts_that_simple_policies_play(config, monkeypatch):
    """Three episodes in two worlds: a task's second batch is half full, and the next task begins from the first one."""
    config.world.num_envs, config.evaluator.episodes = 2, 3
    config.evaluator.simple = config.evaluator.chains = True
    evaluator, seeds = Evaluator(config), []
    reseed = evaluator.world.reseed
    monkeypatch.setattr(evaluator.world, "reseed", lambda seed: seeds.append(seed) or reseed(seed))
    tasks = ["lift-any", "place-any", "place-bottom", "place-top-left"]
    config.tasks = tasks
    found = evaluator.step(tasks, is_scripted=True)
    numbered = {word: [derive(config.evaluator.seed, word, number) for number in (0, 1)] for word in ("place", "chain")}
    for starts in numbered.values():
        asked = [seed for seed in seeds if seed in starts]
        assert asked == starts * (len(asked) // 2)
    assert set(seeds) == {*numbered["place"], *numbered["chain"], *(derive(1000, "lift", k) for k in (0, 1))}
    for row in found.tasks:
        assert row.episodes == 3 and row.script == row.success, "one set of scripted episodes is that of every task"
    for chain in found.chains:
        assert chain.episodes == 3 and chain.script == chain.success


def test_the_starts_of_a_skill_are_played_by_policies_that_see_nothing(config):
    """With all worlds in one batch, each rate is that of the policy's own episodes from the same seed."""
    config.world.num_envs = config.evaluator.episodes = 4
    config.evaluator.simple = True
    evaluator = Evaluator(config)
    found = evaluator.step(["place-any"], is_scripted=True)
    row = found.tasks[0]
    assert set(row.simple) == {"open now", "close now", "end now", "random"}
    assert row.script == row.success, "the scripts' column comes from the evaluator's own starts"
    evaluator.world.reseed(derive(config.evaluator.seed, "place", 0))
    evaluator.world.start("place")
    batch = run_episodes(evaluator.world, ConstantPolicy("open now"), ["place-any"], config.collector.max_steps)
    index = ALL_TASKS.index("place-any")
    assert row.simple["open now"] == pytest.approx(float(batch.truth[:, index].float().mean()))
    assert row.simple["close now"] == row.simple["end now"] == 0, "the hand still holds the object"
    assert sum(row.commands.values()) == pytest.approx(1)
    assert row.length >= 1
    assert set(found.simple_means()) == {"open now", "close now", "end now", "random", "script"}
    assert found.metrics()["simple/open now"] == row.simple["open now"]
    assert Evaluation.load(found.plain()) == found


def test_commands_are_counted_until_the_end_of_an_episode(config):
    """Opening ends an assisted place at once; closing a hand that is closed does nothing, so it goes on."""
    config.world.num_envs = config.evaluator.episodes = 2
    evaluator = Evaluator(config)
    for name, commands, length in (("open now", [0, 0, 1, 0], 1), ("close now", [0, 1, 0, 0], 2)):
        scores = evaluator._skill("place", ["place-any"], name)["place-any"]
        assert [one / length for one in scores.commands[0]] == commands
        assert scores.length == [length, length]


def test_the_same_policy_with_one_action_shows_what_several_steps_add(config):
    """Going on until the limit grips nothing more: the row of one action is that of a limit of one action."""
    config.world.num_envs = config.evaluator.episodes = 4
    config.evaluator.simple = True
    evaluator = Evaluator(config)
    asked = []
    run = evaluator._run
    evaluator._run = lambda skill, kind, tasks, steps=None: (
        asked.append((kind, steps)) or run(skill, kind, tasks, steps)
    )
    row = evaluator.step(["place-any"], is_scripted=True).tasks[0]
    assert asked.count(("script", 1)) == 1 and asked.count(("random", 1)) == 0, "only the policy itself has one action"
    asked.clear()
    assert evaluator.step(["place-any"], is_scripted=True, has_short=False).tasks[0].one_action is None
    assert ("script", 1) not in asked
    config.evaluator.max_steps = 1
    limited = evaluator._skill("place", ["place-any"], "script")["place-any"]
    assert limited.length == [1.0] * 4 and config.collector.max_steps == 2
    assert row.one_action == pytest.approx(sum(limited.truth) / 4)
    alone = Evaluator(config, evaluator.world).step(["place-any"], is_scripted=True)
    assert alone.tasks[0].one_action is None, "with one action there is nothing to compare"
    assert alone.mean_one_action is None and "one_action" not in alone.metrics()


def test_a_limit_of_the_evaluation_changes_no_collection(config):
    config.evaluator.max_steps = 5
    evaluator = Evaluator(config)
    assert evaluator.steps == 5
    scores = evaluator._skill("place", ["place-any"], "close now")["place-any"]
    assert set(scores.length) == {5.0}, "a closed hand closes again, and nothing ends the episode"
    config.evaluator.max_steps = None
    assert evaluator.steps == config.collector.max_steps == 2


def test_a_chain_succeeds_only_where_something_was_lifted(config, monkeypatch):
    config.world.num_envs = config.evaluator.episodes = 3
    config.evaluator.chains, config.evaluator.simple = True, True
    evaluator = Evaluator(config)
    handed = []
    monkeypatch.setattr(evaluator.world, "hand_over", lambda **how: handed.append(how))
    held = torch.tensor([True, False, True])
    monkeypatch.setattr(evaluator.world, "holds", lambda: held)
    truth = evaluator.world.truth
    monkeypatch.setattr(evaluator.world, "truth", lambda tasks: torch.ones_like(truth(tasks)))
    lifted, ended = evaluator._chain("lift-any", "place", ["place-any"], "script")
    assert handed == [], "nothing is handed over"
    assert lifted.tolist() == [1, 0, 1]
    assert ended[:, ALL_TASKS.index("place-any")].tolist() == [1, 0, 1], "the second chain had nothing to place"
    chains = evaluator._chains("lift-any", "place", ["place-any"], "script")
    assert isinstance(chains[0], ChainResult) and chains[0].episodes == 3
    assert (chains[0].lifted, chains[0].success, chains[0].script) == pytest.approx((2 / 3, 2 / 3, 2 / 3))


def test_chains_need_lifts_and_places(config):
    config.evaluator.chains = True
    evaluator = Evaluator(config)
    assert evaluator._chains("lift-any", "place", ["lift-any"], "script") == []
    evaluator.config.tasks = ["place-any"]
    assert evaluator._chains("lift-any", "place", ["place-any"], "script") == []


def test_random_actions_follow_their_seed_and_do_something():
    state = Observation(torch.zeros(200, 4, 4, 3), torch.zeros(200), torch.zeros(200), torch.zeros(200, 3))
    task = torch.zeros(200, dtype=torch.long)
    cem = CEMConfig()
    one, same = (RandomPolicy(cem, 3, torch.device("cpu")).act(state, task) for _ in range(2))
    assert torch.equal(one, same)
    assert one[:, 5].mean() > 0.2 and one[:, 6].sum() == 0, "the hand is open already"
