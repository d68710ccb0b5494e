"""The gate as it is by default, from answers on the page to the tasks whose verdicts become rewards."""

import numpy as np
import pytest
from helpers.label_page import TASKS, Page, episode

from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.detector.labels import is_held_out
from polytask.mtopt.label.app import create_app
from polytask.mtopt.label.stand_in import StandIn
from polytask.mtopt.store import EpisodeStore

LIFTS, PLACES, FEW = 150, 140, 60


@pytest.fixture
def store(tmp_path):
    """Hold lifts, then places, of which every other one shows a bright block."""
    rng = np.random.default_rng(0)
    made = EpisodeStore(tmp_path / "store", StoreConfig(fsync=False))
    with made.writer("test") as writer:
        writer.append_many([episode(rng, lifted=number % 2 == 0) for number in range(LIFTS)])
        writer.append_many([episode(rng, "place-any", lifted=number % 2 == 0) for number in range(PLACES)])
    yield made
    made.close()


def test_with_enough_labels_one_task_passes_the_gate_and_others_are_refused_for_their_reasons(store):
    """Twenty labels kept aside and half of the accepted outcomes right: no setting of the gate is changed here."""
    config = LabelConfig(run_dir=str(store.root), reask=0.0, source="oracle")
    config.detector.updates, config.detector.batch, config.detector.augment.enabled = 60, 32, False
    page = Page(create_app(config, TASKS, store))
    stand_in = StandIn(page, store.truth)
    assert stand_in.label("lift-any", 120) == 120
    aside = is_held_out(range(1, LIFTS + PLACES + 1), MEASURED)
    for number in range(1, 121):  # every lift counts as one of the can where it trains; at random, few lifts are
        is_can = store.truth(number)["lift-can"] and (number not in aside or number % 9 == 0)
        page.answer(number, is_can, "lift-can")
    for number in range(LIFTS + 1, LIFTS + FEW + 1):
        page.answer(number, number % 2 == 1, "place-any")
    rows = {row["task"]: row for row in stand_in.train(poll=0.02)["figures"]}

    tested = {task: row["held_successes"] + row["held_failures"] for task, row in rows.items()}
    assert tested["lift-any"] >= 20 and tested["lift-can"] >= 20 > tested["place-any"] > 0
    assert {task: row["is_used"] for task, row in rows.items()} == {
        "lift-any": True,
        "lift-can": False,
        "place-any": False,
    }
    assert rows["lift-any"]["precision_after"] == 1.0
    assert "the precision must be at least 0.50" in rows["lift-can"]["why"]
    assert rows["place-any"]["why"].startswith(f"{tested['place-any']} random labels measure it, but at least 20 must")
    refused = page.get("/api/state").json()["in_use"]["not_judged"]
    assert refused == {task: rows[task]["why"] for task in ("lift-can", "place-any")}
    judge = Judge(store.root / "detectors", "cpu")
    assert judge.judged(TASKS) == ("lift-any",) and set(judge.taught(TASKS)) == set(TASKS)

    for number in range(LIFTS + FEW + 1, LIFTS + PLACES + 1):
        page.answer(number, number % 2 == 1, "place-any")
    more = {row["task"]: row for row in stand_in.train(poll=0.02)["figures"]}["place-any"]
    assert more["held_successes"] + more["held_failures"] >= 20 and more["is_used"], "with more labels it passes"
