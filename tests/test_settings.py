"""Declaration of settings with help, defaults and choices."""

from dataclasses import dataclass, fields

import pytest

from polytask.errors import UserError
from polytask.settings import check_choices, default_of, setting


@dataclass
class Inner:
    mode: str = setting("slow", "how", choices=("slow", "fast"))


@dataclass
class Outer:
    widths: list[int] = setting([1, 2], "widths")
    inner: Inner = setting(Inner, "inside")
    mode: str | None = setting(None, "how", choices={"a": 1, "b": 2})


def test_lists_and_parts_are_made_anew_for_every_object():
    one, other = Outer(), Outer()
    one.widths.append(3)
    one.inner.mode = "fast"
    assert (other.widths, other.inner.mode) == ([1, 2], "slow")
    assert [default_of(each) for each in fields(Outer)] == [[1, 2], Inner(), None]


def test_help_is_part_of_the_field():
    assert [each.metadata["about"] for each in fields(Outer)] == ["widths", "inside", "how"]


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (Outer(mode="c"), "mode=c is not valid; known: a, b"),
        (Outer(inner=Inner("fasst")), "inner.mode=fasst is not valid; did you mean 'fast'?"),
    ],
)
def test_a_word_that_is_no_choice_is_named_with_the_valid_ones(config, line):
    with pytest.raises(UserError) as caught:
        check_choices(config)
    assert str(caught.value) == line


def test_valid_words_and_none_pass():
    check_choices(Outer(mode="b"))
    check_choices(Outer())
