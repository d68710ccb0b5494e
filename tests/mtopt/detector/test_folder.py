"""Versions of detectors in a folder, and which one is in use."""

import os

import pytest

from polytask.errors import UserError
from polytask.mtopt.detector.folder import choose, figures_path, in_use, newest, next_version, path_of


def test_the_newest_is_in_use_until_one_is_chosen(tmp_path):
    assert newest(tmp_path) is None and in_use(tmp_path) is None
    for number, version in enumerate(("b", "a")):
        path_of(tmp_path, version).touch()
        os.utime(path_of(tmp_path, version), (number, number))
    figures_path(tmp_path, "c").touch()
    assert newest(tmp_path) == in_use(tmp_path) == "a"
    choose(tmp_path, "b")
    assert (newest(tmp_path), in_use(tmp_path)) == ("a", "b")
    with pytest.raises(UserError, match=r"no success detector 'd3' in "):
        choose(tmp_path, "d3")
    assert in_use(tmp_path) == "b"


def test_versions_count_on(tmp_path):
    assert next_version(tmp_path / "nothing", "page") == "page-1"
    for name in ("page-2.pt", "page-10.pt", "other-99.pt", "page-11.json", "page-x.pt"):
        (tmp_path / name).touch()
    assert next_version(tmp_path, "page") == "page-11"
    assert next_version(tmp_path, "relabel") == "relabel-1"
