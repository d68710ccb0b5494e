"""Which tasks an episode counts for."""

from collections import Counter

import pytest

from polytask.errors import UserError
from polytask.mtopt.learning.sharing import Shared, impersonate, share
from polytask.mtopt.records import TaskInfo

SKILLS = {"lift-any": "lift", "lift-can": "lift", "place-any": "place", "place-top": "place"}
TASKS = {name: TaskInfo(name, skill, "") for name, skill in SKILLS.items()}
# A toy log: what was commanded, and what each end is a success of.
LOG = [(1, "lift-any"), (2, "lift-can"), (3, "place-any"), (4, "lift-any")]
WON = {1: {"lift-any", "lift-can"}, 2: set(), 3: {"place-any", "place-top"}, 4: {"lift-any"}}
VERDICTS = {task: {episode: task in WON[episode] for episode in WON} for task in TASKS}


@pytest.mark.parametrize(
    ("strategy", "tasks"),
    [("orig", ("lift-can",)), ("all", tuple(SKILLS)), ("skill", ("lift-any", "lift-can"))],
)
def test_strategies(strategy, tasks):
    assert impersonate(strategy, "lift-can", TASKS) == tasks


EXACT = {
    "orig": "1 lift-any +, 2 lift-can -, 3 place-any +, 4 lift-any +",
    "skill": "1 lift-any +, 1 lift-can +, 2 lift-any -, 2 lift-can -, 3 place-any +, 3 place-top +, 4 lift-any +, "
    "4 lift-can -",
    "all": "1 lift-any +, 1 lift-can +, 1 place-any -, 1 place-top -, 2 lift-any -, 2 lift-can -, 2 place-any -, "
    "2 place-top -, 3 lift-any -, 3 lift-can -, 3 place-any +, 3 place-top +, 4 lift-any +, 4 lift-can -, "
    "4 place-any -, 4 place-top -",
}


@pytest.mark.parametrize("strategy", EXACT)
def test_the_exact_multiset_of_a_toy_log(strategy):
    result = share(strategy, LOG, TASKS, VERDICTS)
    assert Counter(f"{one.episode} {one.task} {'+' if one.success else '-'}" for one in result) == Counter(
        EXACT[strategy].split(", ")
    )


def test_only_learned_tasks_and_episodes_with_a_verdict_are_shared():
    verdicts = {"lift-can": {1: True, 4: False}}  # the others are not learned, and 2 has no verdict
    assert share("skill", LOG, TASKS, verdicts) == [Shared(1, "lift-can", True), Shared(4, "lift-can", False)]


def test_unknown_words_are_named():
    with pytest.raises(UserError, match="unknown sharing strategy 'some'; known: orig, all, skill"):
        impersonate("some", "lift-any", TASKS)
    with pytest.raises(UserError, match="unknown task 'juggle'; known: lift-any, lift-can"):
        impersonate("skill", "juggle", TASKS)
