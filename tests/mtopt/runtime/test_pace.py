"""How many updates new examples allow."""

from helpers.tiny_run import tiny

from polytask.mtopt.runtime.pace import UpdatePace


def test_an_example_is_drawn_as_often_as_configured(tmp_path):
    config = tiny(tmp_path)
    config.updater.rows, config.trainer.batch, config.trainer.reuse = 12, 8, 1.0
    pace = UpdatePace(config)
    assert [pace.allow(100) for _ in range(4)] == [1, 2, 1, 2]  # one and a half each
    assert pace.allow(0) == 0
    assert pace.allow(100) == 3, "what was not allowed then is not lost"


def test_means_are_weighted_by_the_updates(tmp_path):
    pace = UpdatePace(tiny(tmp_path))
    assert pace.means(0) == {}
    pace.add({"loss": 1.0}, 1)
    pace.add({"loss": 4.0}, 2)
    assert pace.means(3) == {"loss": 3.0}
    pace.begin()
    assert pace.means(3) == {}
