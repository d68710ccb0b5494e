"""Declaration of settings with help, defaults and choices."""

import math
from dataclasses import dataclass, fields

import pytest

from polytask.errors import UserError
from polytask.settings import check_values, default_of, require_order, setting, with_default


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


def test_a_field_of_a_base_class_can_get_another_default_alone():
    @dataclass
    class Eager(Inner):
        mode: str = with_default(Inner, "mode", "fast")

    assert (Eager().mode, Inner().mode) == ("fast", "slow")
    (again,), (first,) = fields(Eager), fields(Inner)
    assert again.metadata == first.metadata


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (Outer(mode="c"), "mode=c is not valid; known: a, b"),
        (Outer(inner=Inner("fasst")), "inner.mode=fasst is not valid; did you mean 'fast'?"),
    ],
)
def test_a_word_that_is_no_choice_is_named_with_the_valid_ones(config, line):
    with pytest.raises(UserError) as caught:
        check_values(config)
    assert str(caught.value) == line


@dataclass
class Numbers:
    share: float = setting(0.5, "share", at_least=0.0, below=1.0)
    rate: float = setting(0.1, "rate", above=0.0)
    bound: float = setting(1.0, "bound", above=0.0, at_most=math.inf)
    any: float = setting(0.0, "any", is_free=True)
    count: int = setting(1, "count", within=(1, 9))
    big: int | None = setting(None, "big", at_least=0)
    widths: list[int] = setting([4], "widths", at_least=1, min_length=1)
    low: float = setting(0.0, "low", is_free=True)
    high: float = setting(1.0, "high", is_free=True)

    def check_together(self, prefix):
        require_order(self, prefix, "low", "high", is_strict=True)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"share": 1.0}, "share=1.0 is not valid; it must be at least 0.0 and less than 1.0"),
        ({"share": -1e-9}, "share=-1e-09 is not valid; it must be at least 0.0 and less than 1.0"),
        ({"rate": 0.0}, "rate=0.0 is not valid; it must be more than 0.0"),
        ({"rate": math.nan}, "rate=nan is not valid; it must be more than 0.0"),
        ({"rate": math.inf}, "rate=inf is not valid; it must be more than 0.0"),
        ({"bound": math.nan}, "bound=nan is not valid; it must be more than 0.0"),
        ({"any": -math.inf}, "any=-inf is not valid; it must be a finite number"),
        ({"any": math.nan}, "any=nan is not valid; it must be a finite number"),
        ({"count": 0}, "count=0 is not valid; it must be at least 1 and at most 9"),
        ({"count": 10}, "count=10 is not valid; it must be at least 1 and at most 9"),
        ({"big": 2**63}, f"big={2**63} is not valid; it must be at least 0 and at most {2**63 - 1}"),
        (
            {"big": 10**400},
            f"big=1{59 * '0'}... (401 characters) is not valid; it must be at least 0 and at most {2**63 - 1}",
        ),
        ({"widths": [3, 0]}, "widths=0 is not valid; it must be at least 1"),
        ({"widths": []}, "widths is empty; give at least one entry"),
        ({"low": 1.0}, "low=1.0 is not valid; it must be below high=1.0"),
    ],
)
def test_a_number_out_of_its_range_is_named_with_the_range(values, line):
    with pytest.raises(UserError) as caught:
        check_values(Numbers(**values))
    assert str(caught.value) == line


def test_numbers_at_the_edge_of_their_range_pass():
    check_values(Numbers(share=0.0, bound=math.inf, any=-1e38, count=9, big=2**63 - 1, widths=[1]))


@dataclass
class Place:
    path: str = setting("here", "where", is_path=True)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", "path is empty; name a file or folder, or leave the key out"),
        ("a\0b", "path contains a NUL character, which no name can have"),
        (256 * "x", "is too long: at most 255 bytes per name and 4095 in all"),
        (128 * "é", "is too long"),  # 256 bytes
        ("/".join(2100 * ["x"]), "is too long"),
        ("~nobody-here/x", "path=~nobody-here/x: there is no user 'nobody-here'"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(path, line):
    with pytest.raises(UserError) as caught:
        check_values(Place(path))
    assert line in str(caught.value)


def test_ordinary_names_pass():
    for path in (255 * "x", "~/runs", "a b/${c}", "\udcff"):
        check_values(Place(path))


def test_valid_words_and_none_pass():
    check_values(Outer(mode="b"))
    check_values(Outer())
