"""The record of questions asked twice."""

from polytask.mtopt.label.journal import Journal, SecondAnswer


def test_agreement_counts_equal_answers_and_outlives_the_process(tmp_path):
    journal = Journal(tmp_path / "a" / "second.jsonl")
    assert journal.agreement() == (0, 0)
    journal.add(SecondAnswer("lift-any", 1, True, True))
    journal.add(SecondAnswer("lift-any", 2, True, False))
    journal.add(SecondAnswer("lift-can", 2, False, False))
    for each in (journal, Journal(journal.path)):
        assert each.agreement() == (2, 3)
        assert each.agreement("lift-any") == (1, 2)
        assert each.done("lift-any") == [1, 2]


def test_the_newest_line_counts_and_none_takes_back(tmp_path):
    journal = Journal(tmp_path / "second.jsonl")
    journal.add(SecondAnswer("a", 1, True, False))
    journal.add(SecondAnswer("a", 1, True, True))
    journal.add(SecondAnswer("a", 2, True, True))
    journal.add(SecondAnswer("a", 2, True, None))
    assert Journal(journal.path).agreement() == (1, 1)
    assert Journal(journal.path).done("a") == [1]


def test_a_line_torn_by_a_crash_loses_only_itself(tmp_path):
    journal = Journal(tmp_path / "second.jsonl")
    journal.add(SecondAnswer("a", 1, True, True))
    with journal.path.open("a") as file:
        file.write('\n{"task": "a", "epis')
    reopened = Journal(journal.path)
    reopened.add(SecondAnswer("a", 3, True, True))
    assert Journal(journal.path).agreement() == (2, 2)
