"""Every number in every config class has a range, and nothing but a one-line error answers a number outside it."""

from dataclasses import Field

import pytest
from faults.keys import Key, hint_of, keys_of

from polytask.cli.commands import COMMANDS
from polytask.config.compose import compose
from polytask.errors import UserError
from polytask.settings import check_values, default_of

RANGE = ("at_least", "above", "at_most", "below", "is_free")
NEVER_VALID = (float("nan"), float("-inf"))
HUGE = (-(2**70), 2**70)
WORDS = ("nan", "-inf", "[]", "text")


def numeric_keys() -> dict[str, tuple[type, Key]]:
    """Return each numeric field of each config class once, with a command that has it."""
    found = {}
    for command in COMMANDS.values():
        for key in keys_of(command.schema):
            if kind_of(key) in (int, float):
                found.setdefault(f"{key.owner.__name__}.{key.declared.name}", (command.schema, key))
    return found


def kind_of(key: Key) -> type | None:
    if key.kind not in ("integer", "float", "list"):
        return None
    hint = hint_of(key.owner, key.declared)
    return hint.__args__[0] if key.kind == "list" else hint


KEYS = numeric_keys()


def config_with(owner: type, declared: Field, value: float) -> object:
    config = owner()
    is_list = isinstance(default_of(declared), list) or "list" in str(declared.type)
    setattr(config, declared.name, [value] if is_list else value)
    return config


def test_there_are_many_numeric_settings():
    assert len(KEYS) > 250


def test_every_numeric_setting_declares_its_range():
    assert [name for name, (_, key) in KEYS.items() if not any(fact in key.declared.metadata for fact in RANGE)] == []


@pytest.mark.parametrize("name", KEYS)
def test_no_setting_accepts_what_is_not_finite_or_exceeds_64_bits(name):
    _, key = KEYS[name]
    for value in NEVER_VALID + (HUGE if kind_of(key) is int else ()):
        with pytest.raises(UserError, match=key.declared.name):
            check_values(config_with(key.owner, key.declared, value))


@pytest.mark.parametrize(("number", "name"), list(enumerate(KEYS))[::5])
def test_words_with_odd_numbers_are_refused(number, name):
    schema, key = KEYS[name]
    value = WORDS[number % len(WORDS)]
    word = f"[{value}]" if key.kind == "list" else value
    with pytest.raises(UserError, match=key.declared.name):
        compose(schema, [*key.chosen, f"{key.name}={word}"])
