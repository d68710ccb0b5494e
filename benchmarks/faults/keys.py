"""Find all keys of the commands in their config classes, and bad values for each by its type."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from faults.rights import is_safe
from polytask.config.groups import GROUPS
from polytask.settings import default_of

# The nested settings of a class are tried with the first command that has them, and one value each with the others.
INTEGERS = ("-1", "0", "1e30", str(2**63), str(2**64), str(-(2**70)), "nan", "inf", "text", "", "[]", "null", "1.5")
FLOATS = ("nan", "inf", "-inf", "-1", "0", "1e308", "-1e30", str(2**70), "text", "", "[1]", "null")
SWITCHES = ("2", "maybe", "", "null", "[]", "1.5")
WORDS = (
    *("", "\0", "x" * 300, "x" * 5000, "~nouser/x", "${seed}", "${oc.env:HOME}", "${nothing}", "'", '"', "a\nb", "a'b"),
    *("é日本", "[a", "{a: 1}", "[a,b]", "null", "7", "nan", " ", "a b", "-x", "\\", "a=b", "a,b", "../../x"),
)
PATHS = (
    *("", "\0", "x" * 300, "x" * 5000, "~nouser/x", "${oc.env:HOME}", "${seed}", "a_file", "a_file/x", "a_folder"),
    *("'", "a\nb", "é日本", "[a", "null", " ", ".", "..", "missing/deeply/nested", "-x", "loop"),
    *("locked", "locked/x", "locked_file", "/proc/x"),
)
DEVICES = ("/dev/null", "/dev/full")  # root could replace these
ELEMENTS = ("[]", "[null]", "[[1],[2]]", "[{a: 1}]", "text", "", "null", "[a", "3", "[1,text,1.5]", "${seed}", "[\0]")
ENTRIES = ("", "nothing", "null", "[]", "7", "{a: 1}", "${seed}", "x" * 300, "../ppo", "\0", "a/b")
PARTS = ("", "text", "null", "7", "[]")


@dataclass(frozen=True)
class Key:
    """A key of a command.

    Attributes:
        name: Dotted name.
        kind: integer, float, switch, word, path, list, entry (of a group), name (of an entry) or part (with
            nested settings).
        owner: The config class that declares it.
        chosen: The words without which there is no such key, such as `algo=sac`.
        declared: The dataclass field.
    """

    name: str
    kind: str
    owner: type[Any]
    chosen: tuple[str, ...]
    declared: Field[Any]

    @property
    def values(self) -> tuple[str, ...]:
        """Return bad values, and some odd ones that may be valid."""
        if self.kind == "list":
            inner = {int: INTEGERS, float: FLOATS}.get(_element(self.owner, self.declared), WORDS)
            return (*ELEMENTS, *(f"[{value}]" for value in inner if "\n" not in value and len(value) < 400))
        if self.kind == "path" and is_safe():
            return PATHS + DEVICES
        return VALUES[self.kind]


VALUES = {
    "integer": INTEGERS,
    "float": FLOATS,
    "switch": SWITCHES,
    "word": WORDS,
    "path": PATHS,
    "entry": ENTRIES,
    "part": PARTS,
    "name": ("other",),
}


def keys_of(schema: type[Any], prefix: str = "", chosen: tuple[str, ...] = ()) -> Iterator[Key]:
    """Walk over the keys of a config class, of the classes inside it, and of all entries of its groups."""
    for each in fields(schema):
        name, group = prefix + each.name, each.metadata.get("group")
        if group is not None:
            yield Key(name, "entry", schema, chosen, each)
            for entry, config in GROUPS[group].items():
                yield from keys_of(config, f"{name}.", (*chosen, f"{name}={entry}"))
        elif each.name == "name" and chosen:
            yield Key(name, "name", schema, chosen, each)
        elif is_dataclass(default_of(each)):
            yield Key(name, "part", schema, chosen, each)
            yield from keys_of(type(default_of(each)), f"{name}.", chosen)
        else:
            yield Key(name, _kind(schema, each), schema, chosen, each)


def _kind(schema: type[Any], each: Field[Any]) -> str:
    hint = hint_of(schema, each)
    if get_origin(hint) is list:
        return "list"
    if each.metadata.get("is_path"):
        return "path"
    return {int: "integer", float: "float", bool: "switch", str: "word"}[hint]


def hint_of(schema: type[Any], each: Field[Any]) -> Any:
    """Return the type of a field, without None."""
    hint = get_type_hints(schema)[each.name]
    if get_origin(hint) in (Union, types.UnionType):
        return next(one for one in get_args(hint) if one is not type(None))
    return hint


def _element(schema: type[Any], each: Field[Any]) -> Any:
    return get_args(hint_of(schema, each))[0]
