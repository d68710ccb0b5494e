"""Shells complete commands, keys and values with the scripts that `polytask completion` prints."""

from __future__ import annotations

import shutil
import subprocess
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


def test_shells_offer_what_fits(shell, capsys):
    name, path = shell
    capsys.readouterr()
    assert main(["completion", name]) == 0
    path.write_text(capsys.readouterr().out)
    for line, expected in CASES.items():
        start = line.rpartition(" ")[2]
        cut = start.rpartition("=")[0] + "=" if name == "bash" and "=" in start else ""
        assert ask(shell, line) == {word.removeprefix(cut) for word in expected}, line
    assert {"train", "mtopt", "--help"} <= ask(shell, "polytask ")


def test_every_key_of_every_command_is_offered():
    for name, command in COMMANDS.items():
        keys = {word.partition("=")[0] for word in words_of(name)}
        for each in fields(command.schema):
            assert any(key == each.name or key.startswith(f"{each.name}.") for key in keys), (name, each.name)


def test_the_shell_must_be_named(run):
    assert run("completion") == (2, "", "polytask: name the shell: polytask completion bash|zsh|fish\n")
