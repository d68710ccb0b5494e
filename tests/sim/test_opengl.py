"""Off-screen OpenGL: the limit of a picture, and Triton beside it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from polytask.errors import UserError
from polytask.scenes import compile_scene
from polytask.sim.opengl import make_renderer


@pytest.mark.parametrize(("width", "height"), [(1281, 480), (640, 961), (100_000, 100_000)])
def test_the_limit_of_a_picture_is_named(width: int, height: int) -> None:
    with pytest.raises(UserError) as caught:
        make_renderer(compile_scene("puck", "sawyer.xml"), width, height)
    assert str(caught.value) == f"a picture of {width} x {height} pixels is too large; the largest is 1280 x 960"


def test_an_optimizer_can_be_made_after_a_picture() -> None:
    code = """
import torch
from polytask.scenes import compile_scene
from polytask.sim.opengl import make_renderer

make_renderer(compile_scene("puck", "sawyer.xml"), 16, 16)
torch.optim.Adam([torch.zeros(1, requires_grad=True)])
print("alive")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout == "alive\n", found.stderr
