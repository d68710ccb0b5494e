"""Fixtures of the labelling page; without the extra `label` none of its tests runs."""

from importlib.util import find_spec

import numpy as np
import pytest

HAS_EXTRA = all(find_spec(name) is not None for name in ("fastapi", "uvicorn", "PIL"))
if HAS_EXTRA:
    from helpers.label_page import TASKS, Page, episode

    from polytask.mtopt.config.label import LabelConfig
    from polytask.mtopt.config.store import StoreConfig
    from polytask.mtopt.label.app import create_app
    from polytask.mtopt.store import EpisodeStore
collect_ignore_glob = [] if HAS_EXTRA else ["test_*.py"]


@pytest.fixture
def store(tmp_path):
    """Hold 40 lift episodes, the even ones successes, and 3 of placing."""
    rng = np.random.default_rng(0)
    made = EpisodeStore(tmp_path / "store", StoreConfig(fsync=False))
    with made.writer("test") as writer:
        writer.append_many([episode(rng, lifted=number % 2 == 0) for number in range(40)])
        writer.append_many([episode(rng, "place-any") for _ in range(3)])
    yield made
    made.close()


@pytest.fixture
def config(store):
    return LabelConfig(run_dir=str(store.root), reask=0.0, goal=20)


@pytest.fixture
def page(config, store):
    return Page(create_app(config, TASKS, store))
