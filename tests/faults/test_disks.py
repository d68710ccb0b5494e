import pytest
from helpers.faults import run_script, wrong_rows


def test_full_and_read_only_disks_are_refused_in_one_line(tmp_path):
    result = run_script("disks", tmp_path, count=16)
    assert wrong_rows(result) == []
    assert result["cases"] >= 16
    if not any(disk.endswith("bytes left") for disk in result["disks"]):
        pytest.skip("no full disk was tried, as this system forbids to mount one; all other disks passed")
