"""Collecting while another process runs the run."""

import pytest
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.mtopt.runtime.collect_alongside import collect_alongside
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.store import EpisodeStore

pytest.importorskip("fastapi")


def collected_seeds(config):
    """Finish a run and return the seeds of its episodes, in order."""
    runtime = LocalRuntime(config, lambda line: None)
    runtime.run()
    runtime.close()
    store = EpisodeStore(config.root)
    seeds = [row.seed for row in store.rows()]
    store.close()
    return seeds


def test_episodes_are_added_and_nothing_else_changes(tmp_path):
    config, lines = tiny(tmp_path / "run"), []
    runtime = LocalRuntime(config, lambda line: None)
    before = {name: (config.root / name).read_bytes() for name in ("run.json", "metrics.jsonl")}
    assert collect_alongside(tiny(config.root), 3, lines.append) == {"episodes": 4.0, "added": 4.0}
    assert lines == ["alongside the run  collect  episodes 4"]
    assert {name: (config.root / name).read_bytes() for name in before} == before
    runtime.close()
    seeds = collected_seeds(config)
    assert seeds[4:] == collected_seeds(tiny(tmp_path / "alone")), "the run collects the same as alone"
    assert set(seeds[:4]).isdisjoint(seeds[4:])
    config.seed = 5
    with pytest.raises(UserError, match="seed=0, not 5"):
        collect_alongside(config, 30, lambda line: None)
