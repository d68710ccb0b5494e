import pytest
from helpers.faults import run_script, wrong_rows


@pytest.mark.parametrize("run", ["run", pytest.param("bins", marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_mended(run, tmp_path):
    result = run_script("damage", tmp_path, 24, "--only", run)
    assert wrong_rows(result) == []
    assert result["cases"] == 24
