from helpers.faults import run_script, wrong_rows


def test_command_lines_run_or_are_refused_in_one_line(tmp_path):
    result = run_script("command_lines", tmp_path, count=70)
    assert wrong_rows(result) == []
    assert result["cases"] >= 70
