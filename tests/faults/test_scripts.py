"""A sample of the cases of each script in `benchmarks/faults`."""

import pytest
from helpers.faults import run_script, scripts, wrong_rows


@pytest.fixture(scope="module")
def process():
    """Start the process that the scripts share. Its tests are in one file, so that there is one such process."""
    with scripts() as started:
        yield started


def test_command_lines_run_or_are_refused_in_one_line(process, tmp_path):
    result = run_script(process, "command_lines", tmp_path, 70)
    assert wrong_rows(result) == []
    assert result["cases"] >= 70


@pytest.mark.parametrize(("run", "count"), [("run", 24), pytest.param("bins", 6, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_mended(process, run, count, tmp_path):
    result = run_script(process, "damage", tmp_path, count, "--only", run)
    assert wrong_rows(result) == []
    assert result["cases"] == count


def test_full_and_read_only_disks_are_refused_in_one_line(process, tmp_path):
    result = run_script(process, "disks", tmp_path, 16)
    assert wrong_rows(result) == []
    assert result["cases"] >= 16
    if not any(disk.endswith("bytes left") for disk in result["disks"]):
        pytest.skip("no full disk was tried, as this system forbids to mount one; all other disks passed")


def test_killed_runs_end_as_undisturbed_ones(process, tmp_path):
    result = run_script(process, "kills", tmp_path, 4)
    assert wrong_rows(result) == []
    assert result["kills"] >= 4


def test_a_folder_has_one_owner(process, tmp_path):
    result = run_script(process, "pairs", tmp_path, 6)
    assert wrong_rows(result) == []
    assert result["cases"] >= 6
