"""Shells complete commands, keys and values with the scripts that `polytask completion` prints."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from dataclasses import fields
from pathlib import Path

import pytest

from polytask.cli.commands import COMMANDS
from polytask.cli.completion import words_of
from polytask.cli.main import main

# What a user has typed so far, and what can complete the last word.
CASES = {
    "polytask tr": {"train"},
    "polytask mtopt r": {"relabel", "run"},
    "polytask mt": {"mtopt"},
    "polytask train max_": {"max_frames=", "max_iterations=", "max_minutes="},
    "polytask train algo=p": {"algo=ppo", "algo=pqn"},
    "polytask train suite=mt10 video=": {"video=true", "video=false"},
    "polytask list ta": {"tasks"},
    "polytask eval tasks=[reach-": {"tasks=[reach-wall]"},
    "polytask record task=door-o": {"task=door-open"},
    "polytask mtopt run preset=t": {"preset=tiny"},
    "polytask mtopt run world.num": {"world.num_envs="},
    "polytask sweep grads=mg": {"grads=mgda"},
    "polytask nothing x": set(),
    "polytask train algo=sac algo.b": {"algo.batch=", "algo.bf16="},
    "polytask train algo=ppo algo.b": {"algo.bf16=", "algo.borrow_share=", "algo.bounds=", "algo.bounds_coef="},
    "polytask train algo=sac algo.critic=c": {"algo.critic=categorical"},
    "polytask train algo.bat": {"algo.batch="},
    "polytask train algo=ppo algo.batc": set(),
    "polytask sweep algo=ppo,sac algo.bat": {"algo.batch="},
    "polytask train net=moore net.exp": {"net.experts="},
    "polytask train net=mlp net.exp": set(),
    "polytask train algo=sac critic_net=moore critic_net.exp": {"critic_net.experts="},
    "polytask train tasks=[reach,door-o": {"tasks=[reach,door-open]"},
    "polytask train tasks=[reach,push,door-o": {"tasks=[reach,push,door-open]"},
    "polytask train run_": {"run_dir="},
}
ASK = {
    "bash": """source {file}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; _polytask
               printf '%s\\n' "${{COMPREPLY[@]}}" """,
    "fish": """source {file}; complete -C '{line}'""",
    "zsh": """compdef() {{ }}; compadd() {{ print -l -- "${{@[4,-1]}}" }}; source {file}
              line='{line}'; words=("${{(@s: :)line}}"); CURRENT=$#words; PREFIX=$words[-1]; _polytask""",
}


@pytest.fixture(scope="module", params=sorted(ASK))
def shell(request, tmp_path_factory):
    """Return the name of a shell and the file of its script."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param, tmp_path_factory.mktemp("completion") / "script"


def ask(shell: tuple[str, Path], line: str) -> set[str]:
    """Return what a shell offers for a line; bash offers only the part after the last `=`."""
    name, path = shell
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
    command = [name, *options, "-c", ASK[name].format(file=path, line=line)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    start = line.rpartition(" ")[2] if name == "zsh" else ""  # its compadd, replaced here, would compare the start
    return {word for word in done.stdout.splitlines() if word and word.startswith(start)}


def script(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the script for a shell."""
    capsys.readouterr()
    assert main(["completion", name]) == 0
    return capsys.readouterr().out


def test_shells_offer_what_fits(shell, capsys):
    name, path = shell
    path.write_text(script(name, capsys))
    for line, expected in CASES.items():
        start = line.rpartition(" ")[2]
        cut = start.rpartition("=")[0] + "=" if name == "bash" and "=" in start else ""
        assert ask(shell, line) == {word.removeprefix(cut) for word in expected}, line
    assert {"train", "mtopt", "--help"} <= ask(shell, "polytask ")


STREAMS = ("stdin", "stdout", "stderr")
FILES = {
    "polytask eval checkpoint=ru": {"checkpoint=runs/"},
    "polytask eval checkpoint=runs/": {"checkpoint=runs/one/", "checkpoint=runs/a b/", "checkpoint=runs/lr=1/"},
    "polytask eval checkpoint=runs/lr=": {"checkpoint=runs/lr=1/"},
    "polytask eval checkpoint=nothing": set(),
    "polytask train init_from=runs/o": {"init_from=runs/one/"},
    "polytask train run_dir=runs/o": {"run_dir=runs/one/"},
    "polytask report runs=runs/o": {"runs=runs/one/"},
    "polytask report runs=[runs/one,runs/o": {"runs=[runs/one,runs/one/"},
    "polytask report runs=[runs/o": {"runs=[runs/one/"},
    "polytask record output=runs/o": {"output=runs/one/"},
    "polytask mtopt import data=runs/o": {"data=runs/one/"},
}


def test_shells_complete_names_of_files(shell, tmp_path, capsys, monkeypatch):
    name, path = shell
    if name == "zsh":
        pytest.skip("zsh's own function for files needs a terminal")
    monkeypatch.chdir(tmp_path)
    for folder in ("one", "a b", "lr=1"):
        Path("runs", folder).mkdir(parents=True)
    path.write_text(script(name, capsys))
    for line, expected in FILES.items():
        if name == "bash":  # readline adds the slash, and only what follows the last `=` is replaced
            cut = line.rpartition(" ")[2].rpartition("=")[0] + "="
            expected = {word.removesuffix("/").removeprefix(cut) for word in expected}
        assert ask(shell, line) == expected, line


# What a user types before the tab key and a `1`, and the words that bash then gives to the command.
TYPED = {
    "polytask train algo=sac algo.bat": "<train> <algo=sac> <algo.batch=1>",
    "polytask train tasks=[reach,door-o": "<train> <tasks=[reach,door-open]> <1>",
    "polytask eval checkpoint=my": "<eval> <checkpoint=my runs/1>",
}


def test_the_tab_key_completes_in_an_interactive_bash(tmp_path, capsys):
    (tmp_path / "my runs").mkdir()
    (tmp_path / "script").write_text(script("bash", capsys))
    command = ["bash", "--norc", "--noprofile", "-i"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "PS1": "", "INPUTRC": "/dev/null"}
    terminal, other_end = pty.openpty()
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **dict.fromkeys(STREAMS, other_end)) as shell:
        os.close(other_end)
        enter(terminal, "source ./script; polytask() { printf '<%s> ' \"$@\"; echo; }; echo rea''dy", "ready")
        for line, expected in TYPED.items():
            enter(terminal, f"{line}\t1", expected)
        os.write(terminal, b"exit\n")
        shell.wait(timeout=60)
    os.close(terminal)


def enter(terminal: int, line: str, expected: str) -> None:
    """Type a line and wait until a text appears."""
    os.write(terminal, f"{line}\n".encode())
    seen, deadline = "", time.monotonic() + 60
    while expected not in seen:
        assert select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0], (line, seen)
        seen += os.read(terminal, 1 << 16).decode(errors="replace")


def test_every_key_of_every_command_is_offered():
    for name, command in COMMANDS.items():
        keys = {word.partition("=")[0] for word in words_of(name)}
        for each in fields(command.schema):
            assert any(key == each.name or key.startswith(f"{each.name}.") for key in keys), (name, each.name)


def test_the_shell_must_be_named(run):
    assert run("completion") == (2, "", "polytask: name the shell: polytask completion bash|zsh|fish\n")
