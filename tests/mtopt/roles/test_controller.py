"""What follows what, and when a task gets its own policy."""

import pytest
from helpers.tiny_run import tiny

from polytask.mtopt.roles.controller import Controller
from polytask.mtopt.roles.orders import OWN, SCRIPT, Job
from polytask.mtopt.roles.tries import Tries


@pytest.fixture
def controller(tmp_path):
    return Controller(tiny(tmp_path))


def results(job):
    return {"collect": {"episodes": 4.0}, "grade": {"last": 12.0}}.get(job.kind, {})


def play(controller):
    """Do every job at once; return them."""
    jobs = []
    while (job := controller.next()) is not None:
        jobs.append(job)
        controller.finish(job, results(job))
    return jobs


def test_the_order_of_a_run(controller):
    # 8 episodes in twos of 4, 4 updates in twos of 2; then a round of 4 episodes and 2 updates.
    assert play(controller) == [
        Job("collect", 0, 0),
        Job("collect", 0, 1),
        Job("label", 0, 0),
        Job("detector", 0, 0),
        Job("grade", 0, 0),
        Job("train", 0, 0, target=2),
        Job("train", 0, 1, target=4),
        Job("evaluate", 0, 0),
        Job("collect", 1, 2),
        Job("label", 1, 1),
        Job("detector", 1, 1),
        Job("grade", 1, 1),
        Job("train", 1, 2, target=6),
        Job("evaluate", 1, 1),
    ]
    assert controller.is_done
    assert controller.seen == 12


def test_phases_of_which_there_is_nothing_are_left_out(controller):
    controller.config.labels.round_per_task = 0
    controller.config.trainer.round_updates = 0
    kinds = [job.kind for job in play(controller) if job.round == 1]
    assert kinds == ["collect", "grade", "evaluate"]


def test_the_last_training_job_is_cut_to_the_goal(controller):
    controller.config.trainer.updates = 3
    assert [job.target for job in play(controller) if job.kind == "train" and job.round == 0] == [2, 3]


@pytest.mark.parametrize("stop", range(14))
def test_a_run_goes_on_where_it_was_saved(controller, tmp_path, stop):
    whole = play(controller)
    first, second = Controller(tiny(tmp_path)), Controller(tiny(tmp_path))
    done = []
    for _ in range(stop):
        done.append(first.next())
        first.finish(done[-1], results(done[-1]))
    saved = first.state_dict()
    first.next()  # begun and lost
    second.load_state_dict(saved)
    assert done + play(second) == whole


def test_labels_and_detectors_come_in_passes_before_learning(tmp_path):
    config = tiny(tmp_path)
    config.labels.passes = 3
    controller = Controller(config)
    jobs = [job for job in play(controller) if job.kind in ("label", "detector", "grade")]
    assert [(job.kind, job.round, job.number, job.part) for job in jobs] == [
        ("label", 0, 0, 0),
        ("detector", 0, 0, 0),
        ("label", 0, 1, 1),
        ("detector", 0, 1, 0),
        ("label", 0, 2, 2),
        ("detector", 0, 2, 0),
        ("grade", 0, 0, 0),
        ("label", 1, 3, 0),
        ("detector", 1, 3, 0),
        ("grade", 1, 1, 0),
    ]


def test_a_pass_of_labelling_outlives_a_restart(tmp_path):
    config = tiny(tmp_path)
    config.labels.passes = 2
    first, second = Controller(config), Controller(config)
    while (job := first.next()).part == 0:
        first.finish(job, results(job))
    second.load_state_dict(first.state_dict())
    assert second.next() == job == Job("label", 0, 1, part=1)


def test_several_collections_may_be_under_way_but_no_more_than_needed(controller):
    # 8 episodes; two worlds, so a collection is expected to give at least two.
    jobs = [controller.next() for _ in range(5)]
    assert [job and job.number for job in jobs] == [0, 1, 2, 3, None]
    controller.finish(jobs[2], {"episodes": 4.0})
    controller.finish(jobs[0], {"episodes": 4.0})
    assert controller.next() is None, "the others are not back yet"
    controller.give_up(jobs[1])
    controller.finish(jobs[3], {"episodes": 0.0})
    assert controller.next() == Job("label", 0, 0)
    assert controller.next() is None, "one label job at a time"


def test_a_lost_job_is_issued_again_but_a_lost_collection_is_replaced(controller):
    controller.give_up(controller.next())
    assert controller.next() == Job("collect", 0, 1)
    controller.config.collector.episodes = 1
    controller.finish(controller.open[0], {"episodes": 4.0})
    label = controller.next()
    controller.give_up(label)
    assert controller.next() == label


def test_orders_of_the_first_round_are_scripts_and_no_seed_comes_twice(controller):
    orders = [controller.order(Job("collect", 0, number)) for number in range(100)]
    assert len({order.seed for order in orders}) == 100
    assert orders[0].sources == dict.fromkeys(controller.config.learned, SCRIPT)
    assert not orders[0].tries_own
    assert controller.order(Job("collect", 1, 0)).tries_own


def test_a_task_is_switched_at_parity_and_the_broad_task_helps_before(controller):
    controller.config.controller.parity_episodes = 10
    assert controller.helpers() == {"lift-any": SCRIPT, "lift-can": SCRIPT, "place-any": SCRIPT}
    tries = {
        "lift-any": {SCRIPT: Tries(100, 20), OWN: Tries(10, 2)},  # 0.2 each
        "lift-can": {SCRIPT: Tries(100, 3), OWN: Tries(10, 0)},
        "place-any": {SCRIPT: Tries(100, 0), OWN: Tries(9, 9)},  # too few tries
    }
    assert controller.compare(tries) == ["lift-any"]
    assert controller.helpers() == {"lift-any": OWN, "lift-can": "lift-any", "place-any": SCRIPT}
    tries["lift-can"] = {SCRIPT: Tries(100, 0), "lift-any": Tries(50, 10), OWN: Tries(10, 1)}
    tries["place-any"] = {SCRIPT: Tries(100, 0), OWN: Tries(20, 0)}  # both never succeed: no parity
    assert controller.compare(tries) == []
    tries["lift-can"][OWN] = Tries(10, 2)
    assert controller.compare(tries) == ["lift-can"]
    assert controller.compare(tries) == [], "for good"


def test_tasks_that_one_command_leaves_out_keep_what_acts_for_them(tmp_path):
    """`collect tasks=[cover-object]` saves the controller of a run that has switched other tasks."""
    whole = Controller(tiny(tmp_path))
    whole.sources["lift-any"] = OWN
    part = Controller(tiny(tmp_path, tasks=["cover-object"]))
    part.load_state_dict(whole.state_dict())
    assert part.sources == {"cover-object": SCRIPT}
    whole.load_state_dict(part.state_dict())
    assert whole.sources["lift-any"] == OWN


def until(controller, kind):
    """Do all jobs before the first of a kind."""
    while controller.phase != kind:
        job = controller.next()
        controller.finish(job, results(job))


def test_the_next_round_is_collected_for_while_this_one_is_trained(controller):
    controller.config.collector.round_episodes = 8
    until(controller, "train")
    assert controller.next_ahead() is None, "nothing is learned yet"
    train = controller.next()
    controller.finish(train, {})  # half of the updates: half of the episodes, in twos
    jobs = [controller.next_ahead() for _ in range(3)]
    assert jobs == [Job("collect", 1, 2), Job("collect", 1, 3), None]
    assert controller.order(jobs[0]).tries_own, "as in its round"
    controller.finish(jobs[0], {"episodes": 4.0})
    assert controller.phase == "train" and controller.next_ahead() is None
    until(controller, "evaluate")
    more = controller.next_ahead()
    assert more == Job("collect", 1, 4)
    until(controller, "collect")
    assert (controller.round, controller.episodes) == (1, 4)
    controller.finish(jobs[1], {"episodes": 2.0})
    assert controller.next() is None, "the one under way is expected to be enough"
    controller.finish(more, {"episodes": 2.0})
    assert controller.phase == "label", "the round has its episodes"
    assert controller.next_ahead() is None, "it is the last round"


def test_a_lost_collection_for_the_next_round_is_replaced(controller):
    until(controller, "evaluate")
    lost = controller.next_ahead()
    controller.give_up(lost)
    assert controller.next_ahead().number == lost.number + 1


def test_episodes_collected_early_outlive_a_restart(controller, tmp_path):
    until(controller, "evaluate")
    controller.finish(controller.next_ahead(), {"episodes": 4.0})
    again = Controller(tiny(tmp_path))
    again.load_state_dict(controller.state_dict())
    assert again.early == 4
    job = again.next()
    again.finish(job, {})
    assert (again.round, again.phase) == (1, "label"), "its four episodes are there"


def test_later_rounds_collect_half_of_the_next_before_they_train(tmp_path):
    config = tiny(tmp_path)
    config.controller.rounds, config.collector.round_episodes = 2, 8
    controller = Controller(config)
    until(controller, "evaluate")
    until(controller, "collect")
    until(controller, "grade")
    jobs = [controller.next_ahead() for _ in range(3)]
    assert [job is not None for job in jobs] == [True, True, False], "four of eight episodes, in twos"


def test_what_was_collected_when_its_round_had_enough_counts_for_the_next(tmp_path):
    config = tiny(tmp_path)
    config.controller.rounds = 2
    controller = Controller(config)
    until(controller, "evaluate")
    late, enough = controller.next_ahead(), controller.next_ahead()
    until(controller, "collect")
    controller.finish(enough, {"episodes": 4.0})
    assert controller.phase == "label"
    controller.finish(late, {"episodes": 4.0})
    assert (controller.phase, controller.early) == ("label", 4)
