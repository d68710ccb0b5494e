"""The project's own files agree with each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import polytask
from polytask.cli.commands import COMMANDS
from polytask.config.compose import compose

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lower_bounds() -> dict[str, str]:
    """Return the lowest version of each dependency that pyproject.toml allows."""
    lines = [*PROJECT["dependencies"], *(line for lines in PROJECT["optional-dependencies"].values() for line in lines)]
    found = (re.match(r"([\w.-]+)(?:\[[^\]]*\])?>=([\d.]+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_the_lowest_versions_are_those_of_the_ranges() -> None:
    assert pins("constraints-lowest.txt") == lower_bounds()


def test_pinned_versions_lie_within_the_ranges() -> None:
    def number(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", version)[:3])

    pinned = pins("constraints.txt")
    for name, low in lower_bounds().items():
        if name in pinned:  # extras that CI does not install have no pin
            assert number(pinned[name]) >= number(low), name


def test_pinned_versions_install_on_the_lowest_python() -> None:
    """Debian 12 has Python 3.11.2: a pin that wants a later 3.11 stops `make install` there."""
    lowest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    pinned = {canonicalize_name(name): version for name, version in pins("constraints.txt").items()}
    installed = [d for d in distributions() if pinned.get(canonicalize_name(d.name)) == d.version]
    wanted = {d.name: d.metadata.get("Requires-Python") or "" for d in installed}
    assert wanted
    assert [name for name, versions in wanted.items() if not SpecifierSet(versions).contains(lowest)] == []


def test_readme_has_few_links_and_absolute_pictures() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(re.findall(r"(?<!!)\[[^\]]*\]\((?!https?:)", text)) <= 8
    assert not re.findall(r"!\[[^\]]*\]\((?!https?:)", text)


def test_every_page_is_on_the_map() -> None:
    linked = set()
    for page in ("index.md", "nets/index.md", "grads/index.md"):
        targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / "docs" / page).read_text())
        linked |= {(ROOT / "docs" / page).parent.joinpath(target).resolve() for target in targets}
    missing = [page for page in (ROOT / "docs").rglob("*.md") if page.resolve() not in linked]
    assert [str(page.relative_to(ROOT)) for page in missing] == ["docs/index.md"]


def test_citation_names_the_last_release() -> None:
    version, date = re.findall(r"^## \[(\d.*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {version}" in lines
    assert f"date-released: {date}" in lines
    assert polytask.__version__ == version or polytask.__version__.endswith(".dev0")  # a tag needs the first


@pytest.mark.parametrize("path", sorted((ROOT / "docker").iterdir()), ids=lambda path: path.name)
def test_images_are_built_from_what_exists(path: Path) -> None:
    text = path.read_text().replace("\\\n", " ")
    copied = [source for words in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for source in words.split()[:-1]]
    used = re.findall(r"/opt/polytask/([\w./-]+)", text)
    assert copied
    assert used
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for file in copied + used:
        assert (ROOT / file).exists(), file
        assert not any(fnmatch(file.split("/")[0], pattern) for pattern in ignored), file


@pytest.mark.parametrize("path", sorted((ROOT / "docker").iterdir()), ids=lambda path: path.name)
def test_images_install_pinned_versions(path: Path) -> None:
    (extras,) = re.findall(r"'/opt/polytask\[([\w,-]+)\]'", path.read_text())
    groups = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][name] for name in extras.split(","))]
    names = {re.match(r"[\w.-]+", line)[0] for lines in groups for line in lines}
    assert names <= set(pins("constraints.txt"))


def caches() -> dict[str, str]:
    """Return the variables of the image for GPUs that name a folder of its volume."""
    text = (ROOT / "docker/cuda.Dockerfile").read_text()
    (volume,) = re.findall(r"^VOLUME (\S+)$", text, re.MULTILINE)
    words = " ".join(re.findall(r"^ENV (.+)$", text, re.MULTILINE)).split()
    variables = dict(word.split("=", 1) for word in words)
    return {name: folder for name, folder in variables.items() if folder.startswith(f"{volume}/")}


def test_the_volume_of_the_gpu_image_has_a_folder_for_every_compiler() -> None:
    found = caches()
    assert found.keys() == {"WARP_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}
    assert len(set(found.values())) == 3
    assert "mkdir --mode=1777 /cache\n" in (ROOT / "docker/cuda.Dockerfile").read_text()  # also for `--user`


def test_compilers_use_the_folders_that_the_variables_name(tmp_path: Path) -> None:
    """The variables that the image sets are those that Warp, as polytask uses it, torch and Triton read."""
    names = {name: str(tmp_path / name) for name in caches()}
    code = (
        "from polytask.sim.kernels import cache_folder; print(cache_folder().parent)\n"
        "from torch._inductor.runtime.cache_dir_utils import cache_dir, triton_cache_dir\n"
        "print(cache_dir()); print(triton_cache_dir(0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **names}, capture_output=True, text=True, check=True
    )
    found = done.stdout.splitlines()[-3:]
    assert found == [names[name] for name in ("WARP_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")]


@pytest.mark.parametrize("path", ["docker/cuda.Dockerfile", "docs/startup.md"])
def test_the_commands_for_the_gpu_image_keep_its_caches(path: str) -> None:
    commands = re.findall(r"docker run .*polytask:cuda (\w+) (.*)$", (ROOT / path).read_text(), re.MULTILINE)
    assert [command for command, _ in commands] == ["warmup", "train"]
    assert compose(COMMANDS["warmup"].schema, commands[0][1].split()).device == "cuda"
    assert (ROOT / path).read_text().count("--gpus all -v polytask-cache:/cache ") == 2
