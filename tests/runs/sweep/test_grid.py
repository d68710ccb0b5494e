"""The settings that the words of a sweep make."""

import pytest

from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.runs.sweep.grid import identity, select, settings_of, split_values


def test_every_combination_is_a_setting_and_the_last_word_changes_fastest():
    settings = settings_of(["tasks=[reach]", "grads=mean,pcgrad", "net=mlp,moore"])
    assert [(one.config.grads.name, one.config.net.name) for one in settings] == [
        ("mean", "mlp"),
        ("mean", "moore"),
        ("pcgrad", "mlp"),
        ("pcgrad", "moore"),
    ]
    assert [one.slug for one in settings] == ["mean-mlp", "mean-moore", "pcgrad-mlp", "pcgrad-moore"]
    assert settings[2].words == ("tasks=[reach]", "grads=pcgrad", "net=mlp")


def test_a_sweep_needs_no_preset_and_no_grid():
    (one,) = settings_of(["tasks=[push]", "algo=sac"])
    assert (one.slug, one.config.tasks) == ("sac-mlp", ["push"])


def test_presets_may_be_patterns_and_are_one_axis_of_the_grid():
    settings = settings_of(["preset=ptsl/residual/sum,ptsl/residual/*", "algo.lr=1e-3,3e-4"])
    names = [(one.words[0], one.config.algo.lr) for one in settings]
    assert names[:2] == [("preset=ptsl/residual/sum", 1e-3), ("preset=ptsl/residual/sum", 3e-4)]
    assert [name for name, _ in names[::2]] == [
        f"preset=ptsl/residual/{each}" for each in ("sum", "linear", "none", "project")
    ]
    assert settings[0].slug == "sum-lr1e-3"
    assert select("cpu_demo") == ["cpu_demo"]


def test_lists_are_values_in_brackets_and_many_tasks_give_a_short_name():
    tasks = ["reach", "push", "pick-place", "door-open", "drawer-open", "drawer-close"]
    settings = settings_of([f"tasks=[{','.join(tasks)}],[reach,push]", "net.hidden=[8,8],[16]"])
    assert [one.config.tasks for one in settings[::2]] == [tasks, ["reach", "push"]]
    assert [one.slug for one in settings] == [
        "6tasks-hidden8-8",
        "6tasks-hidden16",
        "reach-push-hidden8-8",
        "reach-push-hidden16",
    ]
    fifty = ",".join(f"very-long-name-{number}" for number in range(50))
    assert split_values(f"tasks=[{fifty}]") == ("tasks", [f"[{fifty}]"])


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("net=mlp", ["mlp"]),
        ("net=mlp,moore", ["mlp", "moore"]),
        ("tasks=[a,b]", ["[a,b]"]),
        ("tasks=[a,b],[c]", ["[a,b]", "[c]"]),
        ("init_from='runs/a,b',runs/c", ["'runs/a,b'", "runs/c"]),
        ('init_from="a,b"', ['"a,b"']),
    ],
)
def test_commas_in_brackets_and_quotes_do_not_separate(word, values):
    assert split_values(word)[1] == values


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["grads=mean,mean"], "two settings are equal: 'grads=mean' and 'grads=mean'"),
        (["video=true,false"], "two settings are equal: 'video=true' and 'video=false'"),
        (["eval_episodes=1,2"], "one and the same in a report: 'eval_episodes=1' and 'eval_episodes=2'"),
        (["eval_every=0,5"], "two settings are one and the same in a report"),
        (["grads=pcgrad", "grads.conflicts_every=1,2"], "two settings are one and the same in a report"),
        (["device=cuda:0,cuda:1"], "two settings are one and the same in a report"),
        (["net=mlp,molp"], "unknown net 'molp'; did you mean 'mlp'?"),
        (["preset=cpu_dem"], "unknown preset 'cpu_dem'; did you mean 'cpu_demo'"),
        (["preset=ptsl/nothing/*"], "unknown preset 'ptsl/nothing/*'"),
        (["seed=3"], "'seed' cannot be given: the sweep sets it for each run; use seeds=N"),
        (["run_dir=x"], "use output=FOLDER"),
        (["algo.minibatches=3"], "unknown key 'algo.minibatches'"),
        (["job=3"], "unknown key 'job'; did you mean 'jobs'?"),
        (["tasks=[rech]"], "unknown task 'rech'; did you mean 'reach'?"),
        (["tasks=reach,push"], "tasks is a list: write tasks=[a,b] for one setting, or tasks=[a],[b] for two"),
        (["net=mlp,"], "'net=mlp,' has an empty value"),
        (["tasks=[reach"], "a bracket or quote is not closed"),
        (["mlp"], "'mlp' is not of the form key=value"),
        (["algo.lr=1e-3,fast"], "algo.lr=fast is not valid"),
    ],
)
def test_mistakes_are_one_line(words, line):
    with pytest.raises(UserError) as error:
        settings_of(words)
    assert line in str(error.value)


def test_what_is_only_logged_or_saved_makes_no_other_setting():
    written = ["video=false", "threads=1", "save_every=3", "history.worlds=1", "video_every=2", "wandb_name=x"]
    (one,), (other,), (wider,), (longer,) = (
        settings_of(["tasks=[reach]", *words]) for words in ([], written, ["num_envs=32"], ["eval_episodes=50"])
    )
    assert identity(one.config) == identity(other.config)
    assert identity(one.config) != identity(wider.config)
    assert identity(one.config) != identity(longer.config)  # a sweep with more episodes is measured anew
    assert {"seed", "run_dir"}.isdisjoint(identity(TrainConfig(algo=one.config.algo, net=one.config.net)))
