"""The allowed imports, between packages and inside them."""

import ast
from functools import cache
from pathlib import Path

import pytest

import polytask

ROOT = Path(polytask.__file__).parent

# The parts of polytask that each part may import. Every part is listed, in the order of the layers.
BASE = {
    "errors",
    "types",
    "settings",
    "files",
    "stopping",
    "device",
    "cuda_graph",
    "result",
    "statistics",
    "parallel",
    "web",
}
WORLDS = BASE | {"scenes", "sim", "robots"}
LEARNING = {"nets", "grads", "algos"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "types": set(),
    "result": set(),
    "cuda_graph": {"result"},
    "statistics": set(),
    "settings": {"errors"},
    "files": {"errors", "result"},
    "stopping": {"result"},
    "device": {"errors"},
    "parallel": {"errors"},
    "web": set(),
    "nets": BASE,
    "grads": BASE,
    "scenes": {"errors"},
    "sim": BASE | {"scenes"},
    "robots": BASE | {"scenes", "sim"},
    "envs": WORLDS,
    "algos": BASE | {"nets", "grads"},
    "mtopt": WORLDS | {"nets"},
    "config": BASE | {"sim", "envs", "nets", "grads", "algos"},
    "plugins": BASE | {"robots", "envs", "mtopt", "config"},
    "policies": BASE | {"nets", "algos", "plugins"},
    "runs": BASE | {"envs", "nets", "grads", "algos", "config", "plugins", "policies"},
    "datasets": WORLDS | {"envs", "mtopt", "config", "runs"},
    "tools": WORLDS | {"envs", "nets", "grads", "algos", "config", "policies", "runs"},
    "viewer": BASE | {"envs", "config", "runs"},
    "adapters": {"errors", "envs"},
    "cli": WORLDS
    | LEARNING
    | {"envs", "mtopt", "config", "plugins", "policies", "runs", "datasets", "tools"}
    | {"viewer"},
    "__main__": {"cli"},
}

# The same for the folders of MT-Opt.
MTOPT_BASE = {"config", "records", "tasks", "task_table", "run_tasks", "policy_names", "seeds"}
MTOPT: dict[str, set[str]] = {
    "records": set(),
    "policy_names": set(),
    "seeds": set(),
    "tasks": {"records"},
    "task_table": {"records"},
    "config": {"records", "tasks", "task_table"},
    "run_tasks": {"config", "records", "task_table"},
    "networks": MTOPT_BASE,
    "store": MTOPT_BASE,
    "world": MTOPT_BASE,
    "detector": MTOPT_BASE | {"networks", "store"},
    "learning": MTOPT_BASE | {"networks", "store"},
    "label": MTOPT_BASE | {"store", "detector", "learning"},
    "roles": MTOPT_BASE | {"store", "world", "detector", "learning", "label"},
    "runtime": MTOPT_BASE | {"networks", "store", "detector", "learning", "roles"},
    "status": MTOPT_BASE | {"store", "detector", "learning", "roles", "runtime"},
    "evaluation_tables": MTOPT_BASE | {"roles"},
    "act": MTOPT_BASE | {"learning", "label", "runtime"},
    "task_commands": MTOPT_BASE | {"store", "label", "roles", "runtime"},
    "commands": MTOPT_BASE | {"act", "store", "detector", "label", "roles", "runtime", "status", "evaluation_tables"},
}

# Outside packages that only some parts may import. All other packages may be imported anywhere.
OWNERS = {
    "warp": {"sim"},
    "mujoco_warp": {"sim"},
    "mujoco": {"scenes", "sim", "robots", "envs", "mtopt", "viewer"},
    "gymnasium": {"envs", "datasets", "adapters"},
    "safetensors": {"policies"},
    "rsl_rl": {"adapters"},
    "skrl": {"adapters"},
    "stable_baselines3": {"adapters"},
    "tensordict": {"adapters"},
    "torchrl": {"adapters"},
    "minari": {"datasets"},
    "pyarrow": {"datasets"},
    "PIL": {"envs", "tools", "mtopt", "runs"},
    "fastapi": {"mtopt"},
    "starlette": {"mtopt"},
    "pydantic": {"mtopt"},
    "uvicorn": {"mtopt"},
    "ray": {"mtopt", "parallel", "runs"},
    "submitit": {"runs"},
    "viser": {"viewer"},
    "glfw": {"viewer"},
    "hydra": {"config"},
    "omegaconf": {"config", "runs", "cli", "mtopt"},
    "rich": {"runs", "envs", "cli"},
    "matplotlib": {"runs"},
    "imageio_ffmpeg": {"envs"},
    "tensorboard": {"runs"},
    "wandb": {"runs"},
    "triton": {"grads"},
}

FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def module_of(path: Path) -> str:
    """Return the name of a file's module, without the prefix `polytask`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def imports(path: Path) -> set[str]:
    """Return the dotted names that a file imports anywhere. For imports from polytask, return the module names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = str(node.module)
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= {name if name.removeprefix("polytask.") in MODULES else module for name in names}
    return found


def ours(path: Path) -> set[str]:
    """Return the modules of polytask that a file imports."""
    return {name.removeprefix("polytask.") for name in imports(path) if name.startswith("polytask.")}


@cache
def all_imports() -> dict[str, set[str]]:
    """Return the modules of polytask that each of them imports. This takes seconds, so it waits for the first test."""
    return {module: ours(path) for module, path in MODULES.items()}


def check(table: dict[str, set[str]], prefix: str) -> None:
    """Check all imports inside a package against its table."""
    modules = {name.removeprefix(prefix): needs for name, needs in all_imports().items() if name.startswith(prefix)}
    assert {name.split(".")[0] for name in modules} == set(table), "the table and the existing parts differ"
    for module, needs in modules.items():
        part = module.split(".")[0]
        used = {need.removeprefix(prefix).split(".")[0] for need in needs if need.startswith(prefix)}
        wrong = sorted(used - {part} - table[part])
        assert not wrong, f"{prefix}{module} imports {wrong}"


def test_every_part_imports_only_what_it_may():
    check(ALLOWED, "")


def test_every_part_of_mtopt_imports_only_what_it_may():
    check(MTOPT, "mtopt.")


@pytest.mark.parametrize("table", [ALLOWED, MTOPT])
def test_the_tables_are_layers(table):
    seen = set()
    for part, needs in table.items():
        assert needs <= seen, f"{part} may import {sorted(needs - seen)}, which come after it in the table"
        seen.add(part)


def test_the_domains_do_not_know_each_other():
    for one, other in (("manipulation", "parkour"), ("parkour", "manipulation")):
        for module, needs in all_imports().items():
            if module.startswith(f"envs.{one}"):
                assert not [need for need in needs if need.startswith(f"envs.{other}")], module


@pytest.mark.parametrize("package", OWNERS)
def test_outside_packages_are_imported_where_they_belong(package):
    users = {
        module.split(".")[0]
        for module, path in MODULES.items()
        if package in {name.split(".")[0] for name in imports(path)}
    }
    assert users, f"nothing imports {package}; remove it from the table"
    assert users <= OWNERS[package]


def test_no_modules_import_each_other_in_a_circle():
    graph = {module: needs & all_imports().keys() for module, needs in all_imports().items()}
    while graph:
        leaves = {module for module, needs in graph.items() if needs <= {module}}
        assert leaves, f"these import each other: {sorted(graph)}"
        graph = {module: needs - leaves for module, needs in graph.items() if module not in leaves}


def test_the_root_is_small():
    assert len(list(ROOT.glob("*.py"))) <= 10


def test_modules_stay_small():
    long = {module: count for module, path in MODULES.items() if (count := len(path.read_text().splitlines())) > 400}
    assert not long
