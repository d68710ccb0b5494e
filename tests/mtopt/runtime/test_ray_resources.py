"""What workers ask Ray for."""

import pytest
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.mtopt.config.run import RayConfig
from polytask.mtopt.runtime.ray.resources import Requests, Workers, divided

ONE = {"a": 2.0}


def test_every_worker_gets_one_where_there_is_enough():
    assert divided({"a": 16.0, "b": 16.0}, "a", Workers(5, 20), None, "key") == (1.0, 1.0)


def test_workers_share_what_there_is():
    assert divided(ONE, "a", Workers(5, 3), None, "key") == (0.25, 0.25)
    # Machines of one CPU cannot lend parts to each other: 12 workers need halves, although 10 CPUs are 12 times 5/6.
    machines = {str(number): 1.0 for number in range(10)}
    assert divided(machines, "0", Workers(2, 10), None, "key") == (0.5, 0.5)
    assert divided(ONE, "a", Workers(5, 0), None, "key")[0] == 0.3333, "no more digits than Ray counts"


def test_the_driver_s_machine_may_have_none():
    assert divided({"a": 0.0, "b": 4.0}, "a", Workers(5, 4), None, "key") == (0.0, 1.0)
    assert divided({"a": 0.0}, "a", Workers(5, 4), None, "key") == (0.0, 0.0)


def test_a_wanted_number_is_kept_and_the_others_share_the_rest():
    # Seven of eight GPUs for the collectors and updaters, the last one for the driver's four.
    assert divided({"a": 8.0}, "a", Workers(4, 7), 1.0, "key") == (0.25, 1.0)
    assert divided(ONE, "a", Workers(5, 3), 0.0, "key") == (0.3333, 0.0)


def test_what_does_not_fit_is_one_line():
    with pytest.raises(UserError, match=r"^3 collectors and updaters with ray.worker_cpus=1 do not fit into the 2"):
        divided(ONE, "a", Workers(5, 3), 1.0, "ray.worker_cpus")
    with pytest.raises(UserError, match=r"^ray.worker_gpus=1 is not valid; the cluster has none$"):
        divided({"a": 0.0}, "a", Workers(0, 3), 1.0, "ray.worker_gpus")


def test_workers_that_compute_on_gpus_ask_for_them_and_see_one(tmp_path):
    config = tiny(tmp_path, ray=RayConfig(collectors=6, updaters=2))
    config.device, config.world.device = "cpu", "cuda:1"
    requests = Requests(config, {"a": {"CPU": 32.0, "GPU": 7.0}}, "a")
    collector, updater = requests.anywhere(config.world.device), requests.anywhere(config.device)
    assert collector.options() == {"num_cpus": 1.0, "num_gpus": 1.0}
    assert updater.gpus == requests.here(None).gpus == requests.here("cpu").gpus == 0.0
    assert requests.here("cuda").gpus == 1.0, "the evaluator"
    assert requests.config_of(collector).world.device == "cuda", "it sees one GPU, whose number is 0"
    assert requests.config_of(updater) is config
