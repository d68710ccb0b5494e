"""A tiny layout, and a detector trained with it."""

import pytest
import torch
from helpers.outcomes import TINY, config, labelled

from polytask.mtopt.detector import train_detector
from polytask.mtopt.networks import LAYOUTS


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(LAYOUTS, "tiny", TINY)


@pytest.fixture(scope="session")
def trained():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LAYOUTS, "tiny", TINY)
        generator = torch.Generator().manual_seed(0)
        return train_detector(*labelled(900, generator), config(), generator)
