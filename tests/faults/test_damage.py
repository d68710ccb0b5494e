import pytest
from helpers.faults import run_script, wrong_rows


@pytest.mark.parametrize(("run", "count"), [("run", 24), ("bins", 6)])
def test_damaged_files_are_refused_or_mended(run, count, tmp_path):
    result = run_script("damage", tmp_path, count, "--only", run)
    assert wrong_rows(result) == []
    assert result["cases"] == count
