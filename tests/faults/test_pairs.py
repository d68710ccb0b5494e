from helpers.faults import run_script, wrong_rows


def test_a_folder_has_one_owner(tmp_path):
    result = run_script("pairs", tmp_path, count=6)
    assert wrong_rows(result) == []
    assert result["cases"] >= 6
