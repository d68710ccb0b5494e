"""Every algorithm, network, gradient method and task is in its table, under the name of its module."""

import importlib
import inspect
import pkgutil
from dataclasses import is_dataclass

import pytest

from polytask import algos, grads, nets
from polytask.envs.manipulation import tasks as manipulation
from polytask.envs.parkour import tasks as parkour
from polytask.envs.suites import SUITES
from polytask.envs.tasks import TASKS


def modules(package):
    names = [f"{package.__name__}.{info.name}" for info in pkgutil.iter_modules(package.__path__)]
    return [importlib.import_module(name) for name in names]


@pytest.mark.parametrize(("package", "table"), [(algos, algos.ALGOS), (nets, nets.NETS), (grads, grads.GRADS)])
def test_every_config_is_in_the_table(package, table):
    known = [config for config, _ in table.values()]
    bases = {base for config in known for base in config.__mro__}
    for module in modules(package):
        for name, value in inspect.getmembers(module, inspect.isclass):
            if name.endswith("Config") and is_dataclass(value) and value.__module__ == module.__name__:
                assert value in bases, f"{module.__name__}.{name} is in no table"
    assert len(set(known)) == len(known), "two entries share a config class"


@pytest.mark.parametrize("package", [manipulation, parkour])
def test_every_task_module_is_in_the_table(package):
    found = {}
    for module in modules(package):
        task = vars(module).get("TASK")
        if task is not None:
            found[task.name] = module.__name__.rpartition(".")[2]
    missing = {name: module for name, module in found.items() if name not in TASKS}
    assert not missing
    assert {name: module for name, module in found.items() if module != name.replace("-", "_")} == {}


def test_task_names_are_their_keys():
    assert {key: task.name for key, task in TASKS.items() if task.name != key} == {}


@pytest.mark.parametrize("suite", SUITES)
def test_suites_hold_known_tasks_once(suite):
    tasks = SUITES[suite]
    assert len(set(tasks)) == len(tasks) > 0
    assert set(tasks) <= set(TASKS)
