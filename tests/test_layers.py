"""Who may import whom."""

import ast
from pathlib import Path

import pytest

import polytask

ROOT = Path(polytask.__file__).parent

# What each part of the lower layers may import of ours. A part that is not named here belongs to the top layer: it may
# import anything, and since no set below names it, nothing below may import it.
BASE = {"errors", "types", "graph"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "types": {"errors"},
    "graph": set(),
    "statistics": set(),
    "suites": set(),
    "rewards": BASE,
    "returns": BASE,
    "normalize": BASE,
    "rollout": BASE,
    "replay": BASE,
    "reward_norm": BASE | {"normalize"},
    "policy": BASE | {"normalize"},
    "nets": BASE,
    "grads": BASE,
    "scenes": {"errors"},
    "sim": BASE | {"scenes"},
    "tasks": BASE | {"rewards", "scenes", "sim", "suites"},
    "robots": BASE | {"rewards", "scenes", "sim", "tasks"},
    "domain": BASE | {"sim"},
    "group": BASE | {"domain", "rewards", "scenes", "sim", "tasks", "robots"},
    "parkour": BASE | {"domain", "scenes", "sim", "tasks", "robots"},
    "env": BASE | {"domain"},
    "experts": BASE | {"env", "tasks"},
    "factory": BASE | {"domain", "group", "parkour", "env", "sim", "suites", "tasks", "robots"},
    "gym": BASE | {"env", "factory", "suites"},
    "registration": {"suites"},
    "mtopt": BASE | {"checkpoint", "console", "export", "logger", "robots", "scenes", "sim", "statistics", "tasks"},
    "algos": BASE | {"returns", "normalize", "reward_norm", "rollout", "replay", "policy", "nets", "grads"},
}
# Packages that only some parts may import; everything else may be imported anywhere.
OWNERS = {
    "warp": {"sim"},
    "mujoco_warp": {"sim"},
    "mujoco": {"scenes", "sim", "tasks", "robots", "domain", "group", "parkour", "render", "verify"},
    "gymnasium": {"gym", "registration", "export", "mtopt"},
    "minari": {"export", "mtopt"},
    "PIL": {"gallery", "mtopt"},
    "fastapi": {"mtopt"},
    "starlette": {"mtopt"},
    "pydantic": {"mtopt"},
    "uvicorn": {"mtopt"},
    "pyarrow": {"mtopt"},
    "ray": {"mtopt"},
    "hydra": {"config", "compose"},
    "omegaconf": {"compose", "run", "report"},
    "rich": {"console"},
    "matplotlib": {"report"},
    "imageio_ffmpeg": {"record"},
    "tensorboard": {"logger"},
    "wandb": {"logger"},
    "triton": {"grads"},
}


def imports(path: Path) -> set[str]:
    """Collect the dotted names that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = str(node.module)
            found |= {f"polytask.{alias.name}" for alias in node.names} if module == "polytask" else {module}
    return found


def part_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    # Pictures are drawn of whole environments: the renderer lies with the simulators but belongs to the top layer.
    return "render" if str(relative) == "sim/render.py" else relative.parts[0].removesuffix(".py")


def ours(path: Path) -> set[str]:
    """Name the parts of this package that a file imports."""
    files = [name.removeprefix("polytask.").replace(".", "/") + ".py" for name in imports(path) if "polytask." in name]
    return {part_of(ROOT / file) for file in files}


FILES = sorted(path for path in ROOT.rglob("*.py") if part_of(path) != "__init__")


@pytest.mark.parametrize("part", ALLOWED)
def test_lower_layers_import_only_what_they_may(part):
    files = [path for path in FILES if part_of(path) == part]
    assert files, f"{part} is in the table of layers but not in the package"
    for path in files:
        own = ours(path)
        assert own - {part} <= ALLOWED[part], f"{path.relative_to(ROOT)} imports {sorted(own - {part} - ALLOWED[part])}"


@pytest.mark.parametrize("package", OWNERS)
def test_outside_packages_are_imported_where_they_belong(package):
    users = {part_of(path) for path in FILES if package in {name.split(".")[0] for name in imports(path)}}
    assert users, f"nothing imports {package}; take it out of the table"
    assert users <= OWNERS[package]


def test_no_cycles():
    graph = {part_of(path): set() for path in FILES}
    for path in FILES:
        graph[part_of(path)] |= ours(path) & graph.keys()
    while graph:
        leaves = {part for part, needs in graph.items() if needs <= {part}}
        assert leaves, f"these import each other: {sorted(graph)}"
        graph = {part: needs - leaves for part, needs in graph.items() if part not in leaves}


def test_modules_stay_small():
    long = {str(path.relative_to(ROOT)): count for path in FILES if (count := len(path.read_text().splitlines())) > 400}
    assert not long
