from helpers.faults import run_script, wrong_rows


def test_killed_runs_end_as_undisturbed_ones(tmp_path):
    result = run_script("kills", tmp_path, count=4)
    assert wrong_rows(result) == []
    assert result["kills"] >= 4
