"""Entries from outside the package: they are added, used like our own, remembered with runs, and missed if absent."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from helpers.checkpoints import write_checkpoint

import polytask
from polytask.algos import ALGOS
from polytask.algos.ppo import PPO, PPOConfig
from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.groups import GROUPS
from polytask.config.schema import TrainConfig
from polytask.envs.manipulation.tasks import TASKS as MANIPULATION
from polytask.envs.options import ROBOT_NAMES
from polytask.envs.parkour.tasks import TASKS as PARKOUR
from polytask.envs.suites import SUITE_LEVELS, SUITES
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.nets import NETS
from polytask.nets.mlp import Mlp, MlpConfig
from polytask.plugins import loading
from polytask.plugins.needs import ORIGINS
from polytask.policies.files import save_policy
from polytask.robots import ROBOTS
from polytask.runs.checkpoint import load
from polytask.settings import setting

REACH = MANIPULATION["reach"]
MJCF = Path(polytask.__file__).parent / "scenes" / "mjcf"
TINY = ["num_envs=4", "episode_length=12", "algo.horizon=8", "algo.minibatch=16", "threads=1", "max_iterations=1"]
PLUGIN = """
from dataclasses import dataclass, replace
import polytask
from polytask.nets.mlp import Mlp, MlpConfig
from polytask.settings import setting

@dataclass
class WideConfig(MlpConfig):
    "Settings of a wide net."
    name: str = "wide"
    extra: int = setting(7, "a setting of its own", at_least=0, at_most=9)

polytask.register_net(WideConfig, Mlp)
"""


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """Undo what a test registers."""
    everything = [TASKS, SUITES, SUITE_LEVELS, ROBOTS, NETS, GRADS, ALGOS, ORIGINS, *GROUPS.values()]
    before, names, modules = [dict(table) for table in everything], list(ROBOT_NAMES), set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for table, entries in zip(everything, before, strict=True):
        table.clear()
        table.update(entries)
    ROBOT_NAMES[:] = names
    for name in [name for name in sys.modules if name not in modules and name.startswith("my_")]:
        del sys.modules[name]


@dataclass
class NarrowConfig(MlpConfig):
    """Settings of a narrow net."""

    name: str = "narrow"
    hidden: list[int] = setting([4], "widths of the hidden layers", at_least=1)


def test_a_registered_net_is_an_option_at_once():
    with pytest.raises(UserError, match="unknown net 'narrow'"):
        compose(TrainConfig, ["net=narrow"])
    assert polytask.register_net(NarrowConfig)(Mlp) is Mlp
    config = compose(TrainConfig, ["net=narrow", "critic_net=narrow", "critic_net.hidden=[5]"])
    assert (type(config.net), config.net.hidden, config.critic_net.hidden) == (NarrowConfig, [4], [5])
    assert ORIGINS["net", "narrow"] == __name__
    with pytest.raises(UserError, match=r"net.hidden=0 is not valid; it must be at least 1"):
        compose(TrainConfig, ["net=narrow", "net.hidden=[0]"])


def test_an_algorithm_trains_and_its_policy_loads(tmp_path):
    @dataclass
    class CautiousConfig(PPOConfig):
        """Settings."""

        name: str = "cautious"
        clip: float = setting(0.1, "half of PPO's", above=0.0)

    @polytask.register_algo(CautiousConfig)
    class Cautious(PPO):
        """PPO with smaller steps."""

    settings = {"horizon": 8, "minibatch": 16, "name": "cautious"}
    run = polytask.train(
        tasks=["reach"], algo=settings, num_envs=2, episode_length=12, max_iterations=1, threads=1, eval_episodes=0,
        video=False, run_dir=tmp_path / "run",
    )  # fmt: skip
    assert load(run.directory)["config"]["algo"]["clip"] == 0.1
    assert load(run.directory)["plugins"] == {"algo cautious": __name__}
    assert run.policy()([0.0] * 39, "reach").shape == (4,)
    assert isinstance(ALGOS["cautious"][1], type(Cautious))


def test_make_and_train_take_tasks_of_your_own(tmp_path):
    mine = replace(REACH, name="my-reach")
    env = polytask.make(tasks=[mine, "push"], num_envs=2, threads=1)
    assert env.spec.tasks == ("my-reach", "push")
    assert polytask.make(tasks=mine, num_envs=1, threads=1).spec.tasks == ("my-reach",)
    with pytest.raises(UserError, match="there is already a task 'reach'; choose another name"):
        polytask.make(tasks=[replace(mine, name="reach", version=9)])
    changed = replace(mine, version=9)  # as when a notebook runs a cell again
    assert polytask.make(tasks=[changed], num_envs=1, threads=1).config.tasks == (changed,)
    with pytest.raises(UserError, match="a task is a name, a Task or a Terrain, not int"):
        polytask.make(tasks=[3])
    other = replace(mine, name="my-other-reach")
    run = polytask.train(
        tasks=[other], num_envs=2, episode_length=12, algo={"horizon": 8}, max_iterations=1, threads=1,
        eval_episodes=0, video=False, run_dir=tmp_path / "run",
    )  # fmt: skip
    assert load(run.directory)["plugins"] == {"task my-other-reach": __name__}


def test_a_task_may_bring_its_scene(tmp_path):
    shutil.copy(MJCF / "puck.xml", tmp_path / "mine.xml")
    task = replace(MANIPULATION["push"], name="my-push", scene=str(tmp_path / "mine"))
    polytask.register_task(task)
    env = polytask.make(tasks=["my-push"], num_envs=1, stagger=False, threads=1, seed=3)
    ours = polytask.make(tasks=["push"], num_envs=1, stagger=False, threads=1, seed=3)
    for _ in range(5):
        action = torch.ones(1, 4)
        torch.testing.assert_close(env.step(action).obs, ours.step(action).obs, rtol=0, atol=0)


def test_a_robot_may_bring_its_file(tmp_path):
    shutil.copy(MJCF / "sawyer.xml", tmp_path / "mine.xml")
    polytask.register_robot(replace(ROBOTS["sawyer"], name="my-sawyer", file=str(tmp_path / "mine.xml")))
    assert compose(TrainConfig, ["robot=my-sawyer"]).robot == "my-sawyer"
    env = polytask.make(tasks=["reach"], robot="my-sawyer", num_envs=1, threads=1)
    assert env.config.robot.name == "my-sawyer"


def test_a_terrain_and_its_suite_are_walked():
    polytask.register_terrain(replace(PARKOUR["flat"], name="my-plain", number=99))
    polytask.register_suite("my-parkour", ["my-plain", "beam"], levels="easy")
    env = polytask.make("my-parkour", num_envs=2, threads=1)
    assert env.spec.tasks == ("my-plain", "beam")
    assert env.config.options.levels == "easy"
    env.step(torch.zeros(2, 12))
    assert env.obs.isfinite().all()


@pytest.mark.parametrize("count", [5, 7])
def test_a_range_with_ends_of_different_length_is_one_line(count):
    with pytest.raises(UserError, match=f"task 'reach': start.low has 6 numbers, start.high has {count}"):
        replace(REACH, start=replace(REACH.start, high=(1.0,) * count))


@pytest.mark.parametrize(
    ("register", "line"),
    [
        (lambda: polytask.register_net(MlpConfig, NarrowConfig), "there is already a net 'mlp'; choose another name"),
        (lambda: polytask.register_net(int, Mlp), "the settings of net must be a dataclass"),
        (lambda: polytask.register_net(EnvNameless, Mlp), "needs a field `name: str`"),
        (lambda: polytask.register_task("reach"), "register_task takes a Task or a Terrain, not str"),
        (
            lambda: polytask.register_task(replace(REACH, name="My Reach")),
            "cannot be the name of a task",
        ),
        (lambda: polytask.register_terrain(REACH), "register_terrain takes a Terrain, not Task"),
        (lambda: polytask.register_robot(3), "register_robot takes a Robot or a LeggedRobot, not int"),
        (lambda: polytask.register_suite("mt10", ["reach"]), "there is already a suite 'mt10'"),
        (lambda: polytask.register_suite("mine", "reach"), "suite 'mine' needs a list of different tasks"),
        (lambda: polytask.register_suite("mine", ["flat"], levels="steep"), "unknown levels 'steep'"),
    ],
)
def test_what_cannot_be_registered_is_one_line(register, line):
    sizes = [len(table) for table in (TASKS, SUITES, ROBOTS, NETS, ORIGINS)]
    with pytest.raises(UserError) as error:
        register()
    assert line in str(error.value)
    assert [len(table) for table in (TASKS, SUITES, ROBOTS, NETS, ORIGINS)] == sizes


@dataclass
class EnvNameless:
    """A config without a name."""

    width: int = 1


def test_a_plug_in_may_register_again():
    polytask.register_suite("mine", ["reach"])
    polytask.register_suite("mine", ["reach", "push"])
    assert SUITES["mine"] == ("reach", "push")


@pytest.mark.parametrize("word", ["my_plugin", "my_plugin.py"])
def test_a_module_of_the_folder_is_a_plug_in_of_every_command(tmp_path, monkeypatch, capsys, word):
    monkeypatch.chdir(tmp_path)
    Path("my_plugin.py").write_text(PLUGIN)
    assert main(["train", "--help", "net=wide", f"plugins=[{word}]"]) == 0
    assert "net.extra" in capsys.readouterr().out
    assert main(["list", "nets", f"plugins=[{word}]"]) == 0
    assert "wide" in capsys.readouterr().out
    words = ["tasks=[reach,push]", "net=wide", "net.hidden=[8]", "net.extra=9", *TINY]
    assert main(["train", *words, f"plugins=[{word}]", "eval_episodes=0", "video=false", "run_dir=run"]) == 0
    assert load("run")["plugins"] == {"net wide": word}
    printed = dict(line.split(": polytask ") for line in capsys.readouterr().out.splitlines() if ": polytask " in line)
    _, *run_words = shlex.split(printed["watch"])
    assert run_words == ["checkpoint=run", f"plugins=[{word}]"]
    assert shlex.split(printed["report"]) == ["report", "runs=run", f"plugins=[{word}]", "output=report"]
    ORIGINS.clear()
    for table in (NETS, GROUPS["net"]):
        del table["wide"]
    sys.modules.pop("my_plugin")
    capsys.readouterr()
    assert main(["eval", "checkpoint=run"]) == 2
    expected = (
        f"needs the net 'wide' of the plug-in '{word}', which is not loaded: add plugins=[{word}], or import it first"
    )
    assert expected in capsys.readouterr().err
    assert main(["eval", *run_words, "episodes=1"]) == 0, "a command works with the words that train printed"


def test_a_policy_that_acts_needs_no_gradient_method(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("my_plugin.py").write_text(
        "from dataclasses import dataclass\n"
        "import polytask\n"
        "from polytask.grads.famo import FAMO, FAMOConfig\n"  # it has a state of its own
        "@dataclass\nclass FlatConfig(FAMOConfig):\n    name: str = 'flat'\n"
        "polytask.register_grad(FlatConfig, FAMO)\n"
    )
    words = ["tasks=[reach,push]", "grads=flat", "net.hidden=[8]", *TINY, "eval_episodes=0", "video=false"]
    assert main(["train", *words, "plugins=[my_plugin]", "run_dir=run"]) == 0
    played = polytask.load_policy("run")([0.0] * 39, "push")
    for table in (GRADS, GROUPS["grads"]):
        del table["flat"]
    ORIGINS.clear()
    sys.modules.pop("my_plugin")
    capsys.readouterr()
    assert main(["eval", "checkpoint=run", "episodes=1"]) == 0
    assert main(["collect", "checkpoint=run", "episodes=1", "output=data"]) == 0
    assert torch.equal(torch.as_tensor(polytask.load_policy("run")([0.0] * 39, "push")), torch.as_tensor(played))
    assert main(["train", "checkpoint=run", "max_iterations=2"]) == 2
    assert "needs the grads 'flat' of the plug-in 'my_plugin', which is not loaded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("my_nothing", "plug-in 'my_nothing' cannot be imported: there is no module 'my_nothing'"),
        (
            "x" * 300,
            "cannot be imported: there is no module '" + "x" * 60 + "... (300 characters)'",
        ),
        ("my_broken", "plug-in 'my_broken' cannot be imported: ValueError: no luck"),
        ("my_needy", "plug-in 'my_needy' cannot be imported: it needs 'my_absent', which is missing"),
        ("nowhere.py", "plugins: there is no file 'nowhere.py'"),
        ("../x", "plugins: '../x' is neither the name of a module nor a file that ends in .py"),
        ("json.py", "there is no file"),
    ],
)
def test_a_plug_in_that_fails_is_one_line(tmp_path, monkeypatch, capsys, word, line):
    monkeypatch.chdir(tmp_path)
    Path("my_broken.py").write_text("raise ValueError('no luck\\nat all')")
    Path("my_needy.py").write_text("import my_absent")
    assert main(["list", "nets", f"plugins=[{word}]"]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1


def test_an_installed_plug_in_that_fails_is_left_out_with_a_note(monkeypatch, capsys):
    broken = EntryPoint("broken", "my_nowhere", loading.GROUP)
    works = EntryPoint("works", "my_installed:start", loading.GROUP)
    module = type(sys)("my_installed")
    module.start = lambda: polytask.register_suite("mine", ["reach"])
    monkeypatch.setitem(sys.modules, "my_installed", module)
    monkeypatch.setattr(loading, "entry_points", lambda group: [broken, works])
    monkeypatch.setattr(loading, "_searched", False)
    polytask.make  # noqa: B018  the first use looks for plug-ins
    err = capsys.readouterr().err
    assert err == "plug-in 'my_nowhere' cannot be imported: there is no module 'my_nowhere'; it is left out\n"
    assert ORIGINS["suite", "mine"] == "my_installed"


def test_a_policy_needs_the_plug_in_of_its_network_but_no_simulator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_plugin.py").write_text(PLUGIN)
    polytask.load_plugins(["my_plugin"])
    write_checkpoint(tmp_path / "run" / "checkpoint.pt", "net=wide", "net.hidden=[8]")
    save_policy(tmp_path / "p.safetensors", polytask.load_policy("run"))
    code = (
        "import sys, polytask\n"
        "from polytask.errors import UserError\n"
        "try:\n    polytask.load_policy('p.safetensors')\nexcept UserError as error:\n    print(error)\n"
        "polytask.load_plugins(['my_plugin'])\n"
        "print(polytask.load_policy('p.safetensors')([0.0] * 39, 'push').shape, 'mujoco' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "'p.safetensors' needs the net 'wide' of the plug-in 'my_plugin', which is not loaded: "
        "add plugins=[my_plugin], or import it first",
        "(4,) False",
    ]
