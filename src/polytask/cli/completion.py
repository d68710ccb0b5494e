"""`polytask completion`: print a script that lets a shell complete commands, keys and values.

The script is made from the table of commands, so it holds plain words and starts no Python while the user types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_type_hints

from polytask.cli.commands import COMMANDS, FAMILIES
from polytask.config.completion import CompletionConfig
from polytask.config.groups import GROUPS
from polytask.config.presets import presets
from polytask.envs.options import WorldOptions
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.result import Result
from polytask.settings import choices_of, default_of

LISTS = {"tasks": "[{}]", "task": "{}"}  # keys whose values are names of tasks, and how one name is written


def completion(config: CompletionConfig) -> Result:
    """Run `polytask completion`."""
    if config.shell is None:
        raise UserError(f"name the shell: polytask completion {'|'.join(choices_of(CompletionConfig, 'shell'))}")
    words = {name: words_of(name) for name in COMMANDS}
    script = {"bash": bash, "zsh": zsh, "fish": fish}[config.shell](words)
    return Result({"shell": config.shell, "script": script}, lines=script.splitlines())


def words_of(command: str) -> list[str]:
    """Return the words that can follow a command: `key=` for a free value, `key=value` for each known value."""
    chosen = COMMANDS[command]
    words = list(_words(chosen.schema))
    if chosen.schema.preset_folder:
        words += [f"preset={name}" for name in presets(chosen.schema.preset_folder)]
    if chosen.positional:
        words = [*choices_of(chosen.schema, chosen.positional), *words]
    if command == "sweep":  # it takes the keys of the runs too
        words += [word for word in words_of("train") if word not in words]
    return [*words, "--help"]


def _words(config: type[Any], prefix: str = "") -> Iterator[str]:
    """Return the words of all settings of a class, and of the classes inside it."""
    kinds = get_type_hints(config)
    for each in fields(config):
        if "about" not in each.metadata:
            continue
        key, default, kind = prefix + each.name, default_of(each), kinds[each.name]
        group = each.metadata.get("group")
        if is_dataclass(default):
            yield from _words(type(default), f"{key}.")
        elif group is not None:
            yield from (f"{key}={name}" for name in GROUPS[group])
            if key == group:  # the settings of the entry that is chosen if the user chooses none
                yield from _words(GROUPS[group][default], f"{key}.")
        elif each.metadata.get("choices"):
            yield from (f"{key}={word}" for word in each.metadata["choices"])
        elif bool in (get_args(kind) if isinstance(kind, UnionType) else (kind,)):
            yield from (f"{key}=true", f"{key}=false")
        elif each.name in LISTS and issubclass(config, WorldOptions):
            yield from (f"{key}={LISTS[each.name].format(name)}" for name in TASKS)
        else:
            yield f"{key}="


# What each shell runs. A line for each command goes where `CASES` stands; it sets `known` to the words that can follow.

_BASH = """# bash: polytask completion bash > ~/.local/share/bash-completion/completions/polytask
_polytask() {
    local line=${COMP_LINE:0:COMP_POINT} current= known=
    local -a given
    read -ra given <<<"$line"
    if [[ $line != *' ' ]]; then current=${given[-1]}; unset 'given[-1]'; fi
    case "${given[*]:1:2} " in
CASES
    esac
    if [[ $current != *=* ]]; then known=$(tr ' ' '\\n' <<<"$known" | sed 's/=.*/=/' | sort -u); fi
    mapfile -t COMPREPLY < <(compgen -W "$known" -- "$current")
    if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
    # bash replaces only what follows the last `=`
    COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*=}"}"}")
}
complete -F _polytask polytask
"""

_ZSH = """#compdef polytask
# zsh: polytask completion zsh > a file `_polytask` in a folder of $fpath
_polytask() {
    local known
    local -a given all
    given=(${words[2,CURRENT-1]})
    case "${given[1,2]} " in
CASES
    esac
    all=(${=known})
    if [[ $PREFIX != *=* ]]; then all=(${(u)all/=*/=}); fi
    compadd -S '' -- $all
}
if [[ $funcstack[1] == _polytask ]]; then _polytask "$@"; else compdef _polytask polytask; fi
"""

_FISH = """# fish: polytask completion fish > ~/.config/fish/completions/polytask.fish
function __polytask_words
    set -l given (commandline -opc)
    set -l known
    switch "$given[2..3] "
CASES
    end
    if string match -q '*=*' -- (commandline -ct)
        string split ' ' -- $known
    else
        string split ' ' -- $known | string replace -r '=.*' '=' | sort -u
    end
end
complete -c polytask -f -a '(__polytask_words)'
"""


def bash(words: dict[str, list[str]]) -> str:
    """Return the script for bash."""
    return _BASH.replace(
        "CASES", "\n".join(f"        {_posix(name)}) known='{text}' ;;" for name, text in _cases(words))
    )


def zsh(words: dict[str, list[str]]) -> str:
    """Return the script for zsh."""
    return _ZSH.replace(
        "CASES", "\n".join(f"        {_posix(name)}) known='{text}' ;;" for name, text in _cases(words))
    )


def fish(words: dict[str, list[str]]) -> str:
    """Return the script for fish."""
    cases = (f"        case '{name} *'\n            set known '{text}'" for name, text in _cases(words) if name)
    first = next(text for name, text in _cases(words) if not name)
    return _FISH.replace("CASES", "\n".join([f"        case ' '\n            set known '{first}'", *cases]))


def _posix(name: str) -> str:
    """Return the pattern of the words after `polytask`, which end in a space."""
    return f"'{name} '*" if name else "' '"


def _cases(words: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Return what can follow the words given so far: nothing, the first word of a family, or a command."""
    yield "", " ".join(dict.fromkeys([*(name.partition(" ")[0] for name in words), "--help", "--version"]))
    for name, known in words.items():
        yield name, " ".join(known)
    for family in FAMILIES:
        yield family, " ".join(name.partition(" ")[2] for name in words if name.startswith(f"{family} "))
