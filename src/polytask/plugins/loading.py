"""Find and import plug-ins: modules that call `polytask.register_task` and its like when they are imported.

A user names them (`plugins=[my_module]`), or an installed package declares them as entry points of `polytask.plugins`.
This module does not import torch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from polytask.errors import UserError, shown
from polytask.result import note

GROUP = "polytask.plugins"  # of the entry points
_current: list[str] = []  # the plug-ins that are being imported, the innermost last
_searched = False


def current() -> str | None:
    """Return the name of the plug-in that is being imported, if any."""
    return _current[-1] if _current else None


def load_plugins(names: Sequence[str]) -> None:
    """Import plug-ins.

    Args:
        names: Names of modules, also of modules in the current folder, or paths of files that end in .py.

    Raises:
        UserError: If there is no such module, or it raises an error.
    """
    for name in names:
        with _loading(name):
            if name.endswith(".py"):
                _import_file(name)
            elif all(part.isidentifier() for part in name.split(".")):
                if str(Path.cwd()) not in sys.path:
                    sys.path.append(str(Path.cwd()))
                import_module(name)
            else:
                raise UserError(f"plugins: '{shown(name)}' is neither the name of a module nor a file that ends in .py")


def load_installed() -> None:
    """Import, once, the plug-ins of installed packages. One that fails is left out, with a note."""
    global _searched
    if _searched:
        return
    _searched = True
    for entry in entry_points(group=GROUP):
        try:
            _load_entry(entry)
        except UserError as error:
            note(f"{error}; it is left out")


def installed() -> set[str]:
    """Return the modules of the plug-ins that installed packages declare; every command imports them."""
    return {entry.module for entry in entry_points(group=GROUP)}


def _load_entry(entry: EntryPoint) -> None:
    """Import the module of an entry point and, if it names a function, call it."""
    with _loading(entry.module):
        found = entry.load()
        if callable(found):
            found()


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Remember which plug-in registers what, and turn its errors into one line."""
    _current.append(name)
    try:
        yield
    except UserError:
        raise
    except ModuleNotFoundError as error:
        is_itself = error.name is not None and (name == error.name or name.startswith(f"{error.name}."))
        missing = shown(error.name)
        reason = f"there is no module '{missing}'" if is_itself else f"it needs '{missing}', which is missing"
        raise UserError(f"plug-in '{shown(name)}' cannot be imported: {reason}") from error
    except Exception as error:  # whatever the code of the plug-in raises
        reason = shown((str(error).strip().splitlines() or [""])[0], 200)
        raise UserError(f"plug-in '{shown(name)}' cannot be imported: {type(error).__name__}: {reason}") from error
    finally:
        _current.pop()


def _import_file(name: str) -> None:
    """Import a file as a module named after it."""
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise UserError(f"plugins: there is no file '{shown(name)}'")
    known = sys.modules.get(path.stem)
    if known is not None:
        if getattr(known, "__file__", None) == str(path):
            return  # imported before
        raise UserError(f"plugins: a module named '{path.stem}' exists already; rename '{shown(name)}'")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
