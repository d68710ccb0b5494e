"""The tutorial "teach a new task": its commands at small size, with the truth in place of the person on the page."""

import json
import re
import shlex
import time
from contextlib import closing
from pathlib import Path

import pytest
from helpers.episodes import make

from polytask.cli.main import main
from polytask.mtopt.config import RunConfig
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.detector.labels import is_held_out
from polytask.mtopt.evaluation_tables import ONE_ACTION
from polytask.mtopt.label.app import create_app
from polytask.mtopt.label.client import InProcessClient, get, post
from polytask.mtopt.label.stand_in import StandIn
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "mtopt_tutorial.md").read_text()
SMALL = shlex.split(
    "world.num_envs=8 world.image_size=16 world.outcome_size=16 learner.network.image_size=16 collector.episodes=32 "
    "collector.round_episodes=8 detector.updates=40 detector.batch=8 detector.least_precision=0 "
    "detector.least_tested=0 learner.bellman.cem.samples=8 learner.bellman.cem.elites=2 trainer.updates=4 "
    "trainer.round_updates=4 trainer.batch=8 trainer.publish_every=4 trainer.buffer=64 updater.rows=16 "
    "replay.capacity=400 evaluator.episodes=4"
)


def label(root, task):
    """Answer the page's questions as a person who looks at the pictures, and train its detector."""
    run = RunFolder(root).config()
    config = LabelConfig(run_dir=str(root), tasks=[task], detector=run.detector)
    with closing(EpisodeStore(root)) as store:
        client = InProcessClient(create_app(config, tasks_of(run), store))
        while questions := get(client, f"/api/tasks/{task}/questions?order=new&count=24")["questions"]:
            truths = [(one["episode"], store.truth(one["episode"])) for one in questions]
            told = [(number, truth.get(task, truth["drawer-close"])) for number, truth in truths]  # or a person's own
            rows = [{"task": task, "episode": number, "value": value, "order": "new"} for number, value in told]
            post(client, "/api/answers", {"answers": rows})
        post(client, "/api/train", {})
        while (status := get(client, "/api/train"))["state"] == "running":
            time.sleep(0.02)
        assert status["state"] == "done", status["message"]


def commands():
    """Yield the words of the page's commands, but the installation."""
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if not line.startswith("pip"):
                yield shlex.split(line)[1:]


def smaller(words):
    """Replace the settings of a new run, and the updates of `train`, by small ones."""
    if "preset=drawer" in words:
        own = {word.partition("=")[0] for word in SMALL}
        return [*(word for word in words if word.partition("=")[0] not in own), *SMALL]
    return [word.replace("updates=500", "updates=4") for word in words]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run the commands of the page in order; return the run's folder."""
    path = tmp_path_factory.mktemp("tutorial")
    root = path / "runs" / "drawer"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for words in commands():
            if words[0] == "label":
                label(root, words[-1].removeprefix("tasks=[").removesuffix("]"))
            else:
                assert main(smaller(words)) == 0, words
    return root


def test_the_page_leads_from_labels_to_a_policy(finished, capsys):
    with closing(EpisodeStore(finished)) as store:
        people, rows = store.label_counts("person"), store.rows()
    assert set(people) == {"drawer-close", "drawer-touched"}, "people defined two tasks"
    assert {row.policy for row in rows} == {"scripted-push", "q:2"}, "the second round is its own"
    state = json.loads((finished / "run.json").read_text())
    assert state["controller"]["updates"] == 16 and state["controller"]["round"] == 2
    capsys.readouterr()
    assert main(["mtopt", "eval", f"run_dir={finished}", "max_steps=1", "format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    row, own = found["tasks"]
    assert (row["task"], row["length"]) == ("drawer-close", 1.0)
    assert found["detector"] == "relabel-2" and row["verdict"] is not None
    assert set(row["simple"]) == {"end now", "random"}
    assert own["task"] == "drawer-touched" and own["success"] is None and own["verdict"] is not None


def test_the_pages_own_task_is_in_the_run(finished):
    tasks = tasks_of(RunFolder(finished).config())
    assert tasks["drawer-touched"].skill == tasks["drawer-close"].skill == "close"
    assert "drawer-half" in tasks, "the page says why it is not taught"


def test_the_labels_that_the_page_asks_for_test_the_task(tmp_path):
    """With the gate as it is; the commands above have too few episodes for it."""
    (episodes,), (labels,) = (re.findall(text, PAGE) for text in (r"collector\.episodes=(\d+)", r"After about (\d+),"))
    run = RunConfig(run_dir=str(tmp_path), world=WorldConfig(kind="drawer"))
    with closing(EpisodeStore(tmp_path, StoreConfig(fsync=False))) as store:
        with store.writer("a") as writer:
            truths = ({"drawer-close": number % 5 > 1} for number in range(int(episodes)))
            writer.append_many([make(task="drawer-close", size=4, truth=truth) for truth in truths])
        page = create_app(LabelConfig(run_dir=str(tmp_path), source="oracle"), tasks_of(run), store)
        assert StandIn(InProcessClient(page), store.truth).label("drawer-close", int(labels)) == int(labels)
        aside = is_held_out([one.episode for one in store.labels()], MEASURED)
    assert len(aside) == 24 > run.detector.least_tested


def test_the_page_names_columns_and_pictures_that_exist():
    assert ONE_ACTION in PAGE
    pictures = re.findall(r"\]\((images/.*?)\)", PAGE)
    assert pictures and all((DOCS / name).is_file() for name in pictures)
