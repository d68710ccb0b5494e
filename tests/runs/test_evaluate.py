"""Evaluation: one episode per world, from the same states every time."""

from types import SimpleNamespace

import pytest
import torch

from polytask.config.compose import compose, to_plain
from polytask.config.schema import EvalConfig, TrainConfig
from polytask.errors import UserError
from polytask.runs import evaluate as evaluate_module
from polytask.runs import train as train_module
from polytask.runs.checkpoint import load
from polytask.runs.eval_command import run_eval
from polytask.runs.evaluate import Evaluator, evaluate, goals_of, run_episodes, summarize
from polytask.runs.setup import build_env, build_train_env, load_policy
from polytask.runs.train import train
from polytask.settings import MAX_SEED
from polytask.types import EnvSpec, Step

WORDS = ["tasks=[reach,drawer-close]", "policy=random", "episode_length=6", "threads=1"]


class Played:
    """An environment that returns given outcomes: per step, a row each of reward, success and end for all worlds."""

    def __init__(self, steps):
        self.spec = EnvSpec(1, 1, ("a", "b"), (2, 2), len(steps))
        self.device = torch.device("cpu")
        self.obs, self.task = torch.zeros(4, 1), torch.tensor([0, 0, 1, 1])
        self._steps = iter(steps)

    def step(self, action):
        reward, success, ended = (torch.tensor(row) for row in next(self._steps))
        self.score = success.float()
        return Step(self.obs, self.obs, reward.float(), torch.zeros(4, dtype=torch.bool), ended.bool(), success.bool())


def test_outcomes_count_the_first_episode_only():
    env = Played(
        [
            ([1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 1, 0]),  # the third world ends early, without success
            ([1, 1, 9, 1], [0, 0, 1, 1], [1, 1, 0, 1]),  # its next episode is not counted
        ]
    )
    outcome = run_episodes(env, lambda obs, task: torch.zeros(4, 1))
    assert outcome.success.tolist() == [[0, 0], [1, 1]]  # rows: episodes, columns: tasks
    assert outcome.success_at_end.tolist() == [[0, 0], [0, 1]]
    assert outcome.returns.tolist() == [[2, 1], [2, 2]]
    assert outcome.metrics["steps"].tolist() == [[2, 1], [2, 2]]


def test_summary_of_known_outcomes():
    ones, half = [[1.0, 1.0]] * 4, [[1.0, 0.0], [1.0, 1.0]] * 2
    outcome = SimpleNamespace(
        success=torch.tensor(half).double().numpy(),
        success_at_end=torch.zeros(4, 2).double().numpy(),
        returns=3 * torch.tensor(ones).double().numpy(),
        metrics={},
    )
    summary = summarize(outcome, ("a", "b"))
    interval = summary["tasks"]["a"].pop("interval")
    assert interval == pytest.approx([0.5101, 1.0], abs=1e-4)  # Wilson's: four successes of four prove little
    assert summary["tasks"]["a"] == {"success": 1.0, "success_at_end": 0.0, "return": 3.0}
    assert summary["tasks"]["b"]["success"] == 0.5
    low, high = summary["tasks"]["b"]["interval"]
    assert 0.0 <= low < 0.5 < high <= 1.0
    assert (summary["mean_success"], summary["episodes"]) == (0.75, 4)


def test_every_evaluation_starts_from_the_same_states():
    evaluator = Evaluator(compose(EvalConfig, WORDS), episodes=2)

    def reach_out(obs, task):
        starts.append(obs.clone())
        return torch.full((4, 4), 0.5)

    starts = []
    first = evaluator.run(reach_out)
    length = len(starts)
    second = evaluator.run(reach_out)
    evaluator.close()
    assert length == 6
    assert first == second
    assert all(torch.equal(a, b) for a, b in zip(starts[:length], starts[length:], strict=True))


def test_evaluation_draws_other_goals_than_training():
    config = compose(EvalConfig, WORDS)
    evaluator, env = Evaluator(config, episodes=2), build_env(config, num_envs=4)
    assert not torch.equal(evaluator.env.obs, env.obs)
    assert evaluator.env.spec == env.spec
    env.close()
    evaluator.close()


@pytest.fixture
def checkpoint():
    """Return an untrained learner for two tasks and its checkpoint."""
    from polytask.config.compose import to_plain
    from polytask.runs.setup import build_algo

    config = compose(TrainConfig, ["tasks=[reach,drawer-close]", "num_envs=2"])
    spec = EnvSpec(39, 4, ("reach", "drawer-close"), (1, 1), 150)
    algo = build_algo(config, spec, torch.device("cpu"))
    state = {"config": to_plain(config), "spec": vars(spec), "algo": algo.state_dict()}
    return algo, state


def test_a_policy_knows_its_tasks_by_name_not_by_number(checkpoint):
    algo, state = checkpoint
    env = build_env(compose(EvalConfig, ["tasks=[drawer-close,reach]", "policy=random"]), num_envs=2)
    policy = load_policy(state, env)
    expected = algo.act(env.obs, torch.tensor([1, 0]), explore=False)
    assert torch.equal(policy(env.obs, env.task), expected)
    assert not torch.equal(expected, algo.act(env.obs, torch.tensor([0, 1]), explore=False))
    env.close()


def test_exploration_is_the_noise_of_training(checkpoint):
    algo, state = checkpoint
    with build_env(compose(EvalConfig, ["tasks=[reach,drawer-close]", "policy=random"]), num_envs=2) as env:
        policy = load_policy(state, env, explore=True)
        first, second = policy(env.obs, env.task), policy(env.obs, env.task)
        assert torch.equal(first, algo.act(env.obs, env.task, explore=True))  # its generator is part of the checkpoint
        assert not torch.equal(first, second)


def test_an_evaluation_with_noise_says_so_and_differs(tmp_path):
    run = tmp_path / "run"
    words = ["tasks=[reach]", "num_envs=2", "algo.horizon=2", "algo.minibatch=4", "max_iterations=1", "eval_episodes=0"]
    train(compose(TrainConfig, [*words, "episode_length=6", "threads=1", "video=false", f"run_dir={run}"]))
    saved = load(run)["config"]
    noisy, calm = (
        evaluate(compose(EvalConfig, [f"checkpoint={run}", "episodes=2", word], saved=saved))
        for word in ("explore=true", "explore=false")
    )
    assert noisy.payload["explore"] is True and calm.payload["explore"] is False
    assert noisy.tables[0].title == calm.tables[0].title + ", with exploration noise"
    assert noisy.payload["tasks"]["reach"]["return"] != calm.payload["tasks"]["reach"]["return"]


def test_the_title_names_the_policy_and_a_robot_that_it_was_not_trained_with():
    titles = [
        evaluate(compose(EvalConfig, ["policy=pretrained", "tasks=[reach]", "episodes=1", "episode_length=2", *words]))
        .tables[0]
        .title.split(": ")
        for words in ([], ["robot=panda"], ["suite=mt50"])
    ]
    assert [title[0] for title in titles] == ["pretrained mt10", "pretrained mt10", "pretrained mt50"]
    assert [title[1].partition("dense reward")[2] for title in titles] == [
        "",
        ", robot panda (trained with sawyer)",
        "",
    ]


@pytest.mark.parametrize(
    "source", ["policy=pretrained", "policy=random", "policy=scripted", "checkpoint=some.safetensors"]
)
@pytest.mark.parametrize("where", [[], ["env=metaworld", "metaworld_python=python"]])
def test_a_policy_without_noise_does_not_explore(source, where):
    config = compose(EvalConfig, ["suite=mt10", source, "explore=true", *where])
    with pytest.raises(UserError, match=r"^explore=true needs the checkpoint of a run; [^\n]* has no noise$"):
        run_eval(config)


def test_a_policy_refuses_tasks_it_never_saw(checkpoint):
    env = build_env(compose(EvalConfig, ["tasks=[reach,push]", "policy=random"]), num_envs=2)
    with pytest.raises(UserError, match="not trained on 'push', only on reach, drawer-close"):
        load_policy(checkpoint[1], env)
    env.close()


def test_at_least_one_episode_is_needed():
    with pytest.raises(UserError, match="episodes=0"):
        compose(EvalConfig, [*WORDS, "episodes=0"])


FIXED = ["tasks=[reach,push]", "goals=fixed", "episode_length=4", "threads=1", "algo.horizon=4", "max_iterations=1"]


@pytest.mark.parametrize(("episodes", "rows"), [(2, [0, 2]), (4, [0, 1, 2, 3]), (6, [0, 1, 2, 3, 0, 1])])
def test_fixed_goals_are_spread_over_the_episodes(episodes, rows):
    config = compose(TrainConfig, [*FIXED, "num_envs=8", "seed=3"])
    env = build_train_env(config)
    goals = goals_of(env.state_dict(), env.spec.tasks)
    evaluator = Evaluator(config, episodes, goals)
    for _ in range(2):  # the same goals in every evaluation
        evaluator.run(lambda obs, task: torch.zeros(len(obs), 4))
        evaluator.env.reset()
        found = evaluator.env.obs.view(2, episodes, -1)[..., -3:]
        assert torch.equal(found, env.obs.view(2, 4, -1)[:, rows, -3:])
    env.close()
    evaluator.close()


def test_a_run_with_fixed_goals_is_evaluated_on_them_and_on_new_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    play = evaluate_module.run_episodes
    monkeypatch.setattr(
        evaluate_module,
        "run_episodes",
        lambda env, *rest: (seen.append(env.obs[:, -3:].clone()), play(env, *rest))[1],
    )
    small = ["num_envs=4", "eval_episodes=2", "video=false", "run_dir=run", "net.hidden=[4]"]
    trained = train(compose(TrainConfig, [*FIXED, *small])).payload
    assert {"evaluation", "evaluation_new_goals"} <= trained.keys()
    saved = to_plain(compose(TrainConfig, [*FIXED, *small]))
    result = evaluate(compose(EvalConfig, ["checkpoint=run", "episodes=2"], saved=saved))
    assert [table.title.split(", ")[-1] for table in result.tables] == ["goals of training", "new goals"]
    assert result.payload["tasks"] == trained["evaluation"]["tasks"]
    assert result.payload["new_goals"]["tasks"] == trained["evaluation_new_goals"]["tasks"]
    on_trained, on_new, again, new_again = seen
    goals = load("run")["env"]["obs"][:, -3:]
    assert torch.equal(on_trained, goals)
    assert torch.equal(on_trained, again)
    assert torch.equal(on_new, new_again)
    assert not torch.equal(on_trained, on_new)
    evaluate(compose(EvalConfig, ["checkpoint=run", "episodes=2", "goals=random"], saved=saved))
    assert len(seen) == 5


def test_the_largest_seed_can_be_evaluated():
    evaluator = Evaluator(compose(EvalConfig, [*WORDS, f"seed={MAX_SEED}"]), 1)
    assert evaluator.env.spec.num_envs == 2
    evaluator.close()


def test_a_policy_of_fixed_goals_refuses_tasks_it_never_saw(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [*FIXED, "num_envs=2", "eval_episodes=0", "video=false", "run_dir=run", "net.hidden=[4]"]
    train(compose(TrainConfig, words))
    config = compose(EvalConfig, ["checkpoint=run", "tasks=[sweep]"], saved=to_plain(compose(TrainConfig, words)))
    with pytest.raises(UserError, match="not trained on 'sweep'"):
        evaluate(config)


def test_watchers_see_every_step_before_it_happens_and_change_nothing():
    env = build_env(compose(EvalConfig, WORDS), num_envs=4)
    start = env.state_dict()
    quiet = run_episodes(env, lambda obs, task: torch.ones(4, 4))
    env.load_state_dict(start)
    lengths = []
    watched = run_episodes(
        env, lambda obs, task: torch.ones(4, 4), [lambda: lengths.append(int(env.state_dict()["episode"]["length"][0]))]
    )
    assert lengths == list(range(env.spec.episode_length))
    assert all(
        (getattr(quiet, name) == getattr(watched, name)).all() for name in ("success", "success_at_end", "returns")
    )
    env.close()


def test_the_video_of_a_run_shows_its_evaluation(tmp_path, monkeypatch):
    shown = []

    def write(footage, path, video, seconds, *, is_required):
        shown.append((len(footage._poses), is_required))
        return 3

    monkeypatch.setattr("polytask.runs.train.Footage.write", write)
    monkeypatch.setattr("polytask.runs.train.play_for_video", None)  # no other episode is played for the video
    words = ["num_envs=4", "eval_episodes=2", f"run_dir={tmp_path / 'run'}", "net.hidden=[4]", "episode_length=7"]
    result = train(compose(TrainConfig, [*FIXED, *words]))
    assert f"video: {tmp_path / 'run' / 'video.mp4'} (3 frames)" in result.lines
    assert f"watch: polytask play checkpoint={tmp_path / 'run'}" in result.lines
    assert f"report: polytask report runs={tmp_path / 'run'} output=report" == result.lines[-1]  # no TensorBoard events
    assert shown == [(7, False)]


@pytest.mark.parametrize(
    ("episodes", "goals", "playing", "expected"),
    [(2, "random", 3.0, 7.0), (2, "fixed", 3.0, 4.0), (0, "random", 3.0, 7.0), (2, "random", 9.0, 2.0)],
)
def test_evaluation_and_video_share_a_tenth_of_the_run(tmp_path, monkeypatch, episodes, goals, playing, expected):
    now, left = 0.0, []

    def takes(seconds, function):
        """Let the clock advance only while `function` runs."""

        def run(*arguments):
            nonlocal now
            now += seconds
            return function(*arguments)

        return run

    def write(footage, path, video, seconds, *, is_required):
        left.append(seconds)
        return 0

    monkeypatch.setattr(train_module, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(train_module, "read_metrics", takes(100.0, train_module.read_metrics))  # a part of an iteration
    monkeypatch.setattr(train_module, "draw_run", takes(50.0, train_module.draw_run))  # neither evaluation nor video
    monkeypatch.setattr(Evaluator, "play", takes(playing, Evaluator.play))  # twice if goals are fixed
    monkeypatch.setattr("polytask.runs.train.Footage.write", write)
    words = ["num_envs=4", f"eval_episodes={episodes}", f"goals={goals}", f"run_dir={tmp_path / 'run'}"]
    train(compose(TrainConfig, [*FIXED, *words, "net.hidden=[4]"]))
    assert left == [pytest.approx(expected)]


def test_a_run_without_evaluation_plays_an_episode_for_its_video(tmp_path, monkeypatch):
    def write(footage, path, video, seconds, *, is_required):
        return len(footage._poses)

    monkeypatch.setattr("polytask.runs.train.Footage.write", write)
    words = ["num_envs=4", "eval_episodes=0", f"run_dir={tmp_path / 'run'}", "net.hidden=[4]", "episode_length=7"]
    result = train(compose(TrainConfig, [*FIXED, *words]))
    assert any(line.endswith("(7 frames)") for line in result.lines)
