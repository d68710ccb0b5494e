"""`polytask completion`: print a script that lets a shell complete commands, keys and values.

The script is made from the table of commands, so it holds plain words and starts no Python while the user types. The
words that can follow a command have four forms:

    key=                     a free value
    key=value                a known value; key=[value] in a list
    key=@                    the name of a file or folder
    algo=sac|algo.batch=     one of these, if the line has algo=sac, or no algo at all
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """Return the words that can follow a command, in the forms above."""
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
            for name, entry in GROUPS[group].items():
                yield f"{key}={name}"
                yield from (f"{key}={name}|{word}" for word in _words(entry, f"{key}."))
        elif each.metadata.get("choices"):
            yield from (f"{key}={word}" for word in each.metadata["choices"])
        elif bool in (get_args(kind) if isinstance(kind, UnionType) else (kind,)):
            yield from (f"{key}=true", f"{key}=false")
        elif each.name in LISTS and issubclass(config, WorldOptions):
            yield from (f"{key}={LISTS[each.name].format(name)}" for name in TASKS)
        elif each.metadata.get("is_path"):
            yield f"{key}=@"
        else:
            yield f"{key}="


# Choose the words that fit. It reads three lines: the words before the current one, the current one, and all words that
# can follow the command. Keys are completed first, then their values. A line with `@` alone asks for names of files.
_FITTING = """awk '
        NR == 1 { n = split($0, given, " ")
                  for (i = 1; i <= n; i++) if (at = index(given[i], "=")) {
                      chosen[substr(given[i], 1, at - 1)] = "," substr(given[i], at + 1) "," } }
        NR == 2 { current = start = $0; key = substr($0, 1, index($0, "="))
                  is_list = index($0, key "[") == 1 && sub(/,[^,]*$/, ",", start) }
        NR == 3 { n = split($0, words, " ")
                  for (i = 1; i <= n; i++) {
                      word = words[i]
                      if (at = index(word, "|")) {
                          split(substr(word, 1, at - 1), when, "=")
                          if (when[1] in chosen && !index(chosen[when[1]], "," when[2] ",")) continue
                          word = substr(word, at + 1) }
                      if (key == "") sub(/=.*/, "=", word)
                      else if (word == (key "@")) { print "@"; exit }
                      else if (is_list && index(word, key "[") == 1) word = start substr(word, length(key) + 2)
                      if (index(word, current) == 1 && !seen[word]++) print word } }'"""

# What each shell runs. A line for each command goes where `CASES` stands; it sets `known` to the words that can follow.

_BASH = """# bash: polytask completion bash > ~/.local/share/bash-completion/completions/polytask
_polytask() {
    local line=${COMP_LINE:0:COMP_POINT} current= known= part
    local -a given
    read -ra given <<<"$line"
    if [[ $line != *' ' ]]; then current=${given[-1]}; unset 'given[-1]'; fi
    case "${given[*]:1:2} " in
CASES
    esac
    mapfile -t COMPREPLY < <(printf '%s\\n' "${given[*]}" "$current" "$known" | FITTING)
    if [[ ${COMPREPLY[0]} == @ ]]; then
        part=${current#*=}
        if [[ $part == '['* ]]; then part=${part##*['[,']}; fi
        mapfile -t COMPREPLY < <(compgen -P "${current%"$part"}" -f -- "$part")
        compopt -o filenames 2>/dev/null
    fi
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
    all=(${(f)"$(print -rl -- "${given[*]}" "$PREFIX" "$known" | FITTING)"})
    if [[ $all[1] == @ ]]; then
        compset -P 1 '*='
        if [[ $PREFIX == '['* ]]; then compset -P '*[[,]'; fi
        _files
    else
        compadd -S '' -- $all
    fi
}
if [[ $funcstack[1] == _polytask ]]; then _polytask "$@"; else compdef _polytask polytask; fi
"""

_FISH = """# fish: polytask completion fish > ~/.config/fish/completions/polytask.fish
function __polytask_words
    set -l given (commandline -opc)
    set -l current (commandline -ct)
    set -l known
    switch "$given[2..3] "
CASES
    end
    set -l found (printf '%s\\n' "$given" "$current" "$known" | FITTING)
    if test "$found" = @
        set -l start (string match -r '^[^=]*=(?:\\[(?:.*,)?)?' -- $current)
        set -l part (string sub -s (math (string length -- $start) + 1) -- $current)
        for path in $part*
            test -d $path; and echo $start$path/; or echo $start$path
        end
    else if set -q found[1]
        printf '%s\\n' $found
    end
end
complete -c polytask -f -a '(__polytask_words)'
"""


def bash(words: dict[str, list[str]]) -> str:
    """Return the script for bash."""
    return _script(_BASH, [f"        {_posix(name)}) known='{text}' ;;" for name, text in _cases(words)])


def zsh(words: dict[str, list[str]]) -> str:
    """Return the script for zsh."""
    return _script(_ZSH, [f"        {_posix(name)}) known='{text}' ;;" for name, text in _cases(words)])


def fish(words: dict[str, list[str]]) -> str:
    """Return the script for fish."""
    cases = (f"        case '{name} *'\n            set known '{text}'" for name, text in _cases(words) if name)
    first = next(text for name, text in _cases(words) if not name)
    return _script(_FISH, [f"        case ' '\n            set known '{first}'", *cases])


def _script(template: str, cases: Iterable[str]) -> str:
    return template.replace("FITTING", _FITTING).replace("CASES", "\n".join(cases))


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
