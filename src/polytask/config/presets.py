"""Presets: named sets of settings that `preset=NAME` chooses.

Hand-tuned presets, and the parts that presets are composed of, are YAML files in `conf`. The other presets are products
(every method on every suite, and grids of sizes), built here from tables. `polytask show preset=NAME` prints the
settings of a preset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore

CONF = Path(__file__).parent / "conf"
PRESET = "preset"  # the key, and the folder of the presets of `polytask train`
IN_STORE = "from_tables"  # Hydra's name of the preset that was last built from the tables


@dataclass(frozen=True)
class Preset:
    """One product: parts, of which later ones override earlier ones, then choices and settings."""

    about: str  # one line for `polytask list presets`
    parts: tuple[str, ...]  # files below `conf`
    settings: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)  # group -> entry, such as "grads": "famo"


PPO_METHODS = {
    "vanilla": "one network for all tasks",
    "multihead": "a head per task",
    "pcgrad": "PCGrad on the critic",
    "cagrad": "CAGrad on the critic",
    "famo": "FAMO on the critic",
    "sh_care": "CARE, one head",
    "mh_care": "CARE, a head per task",
    "sh_moore": "MOORE, one head",
    "mh_moore": "MOORE, a head per task",
    "paco": "PaCo",
    "soft_modular": "soft modularization",
}
MT50_SIZES: dict[str, dict[str, Any]] = {
    "sh_moore": {"net": {"experts": 6}},
    "mh_moore": {"net": {"experts": 6}},
    "paco": {"net": {"sets": 20}},
}
# On MT50, MTBench has no run of PQN, of SAC with soft modularization or of GRPO with FAMO. These presets have the
# settings of MT10, with the worlds and frames of the algorithm's other run on MT50.
OTHER_METHODS: dict[str, Preset] = {
    "grpo_vanilla": Preset("GRPO with one network for all tasks", ("/mtbench/grpo",)),
    "grpo_famo": Preset(
        "GRPO with FAMO on the policy",
        ("/mtbench/grpo",),
        {"grads": {"apply_to": "actor", "normalize_gradient": True}},  # there is no critic
        {"grads": "famo"},
    ),
    "pqn_vanilla": Preset("PQN with a residual network", ("/mtbench/pqn", "/mtbench/method/pqn_residual")),
    "pqn_soft_modular": Preset("PQN with soft modularization", ("/mtbench/pqn", "/mtbench/method/pqn_soft_modular")),
    "sac_vanilla": Preset("SAC with one network for all tasks", ("/mtbench/sac", "/mtbench/method/sac_mlp")),
    "sac_soft_modular": Preset("SAC with soft modularization", ("/mtbench/sac", "/mtbench/method/sac_soft_modular")),
    "fast_td3_vanilla": Preset(
        "FastTD3 with perceptrons", ("/mtbench/fast_td3", "/mtbench/method/td3_mlp"), {"algo": {"gamma": 0.99}}
    ),
    "fast_td3_simba_v2": Preset("FastTD3 with SimbaV2", ("/mtbench/fast_td3", "/mtbench/method/td3_simba_v2")),
}
# Suite and method -> settings of this pair only.
PAIR_SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("mt10", "fast_td3_vanilla"): {"max_frames": 98_304_000},
    ("mt10", "fast_td3_simba_v2"): {"max_frames": 50_000_000},
    ("mt50", "fast_td3_vanilla"): {"num_envs": 8192, "max_frames": 196_608_000},
    ("mt50", "fast_td3_simba_v2"): {"num_envs": 8192, "max_frames": 500_000_000, "algo": {"gamma": 0.99}},
}
# Suite and algorithm -> part that this pair adds.
SUITE_PARTS = {("mt50", "grpo"): "/mtbench/grpo_mt50", ("mt50", "sac"): "/mtbench/sac_mt50"}

CRITIC_SIZES = {  # width -> parameters on MT50; those on MT10 differ by less than a fifth
    "mlp": {256: "64 K", 768: "1.2 M", 1500: "4.6 M", 3000: "18 M", 6000: "72 M", 12000: "288 M"},
    "simba_v2": {256: "1.1 M", 512: "4.5 M", 1024: "17.9 M", 2048: "71 M", 4096: "285 M"},
}
CRITIC_NAMES = {"mlp": "A perceptron", "simba_v2": "SimbaV2", "bro": "BroNet"}
MT10_CRITIC_FRAMES = {"mlp": 1_000_000_000, "simba_v2": 250_000_000}
BRO_SIZES = {256: "0.28 M", 512: "1.1 M", 1024: "4.3 M", 2048: "16.9 M", 4096: "67 M"}  # on MT10
ACTOR_SIZES = {768: "1.3 M", 1500: "4.6 M", 3000: "18 M", 6000: "73 M"}  # on MT50
SAC_UPDATES, SAC_STEPS = (4, 8, 16, 32), (4, 8, 16, 32, 64)
BATCH_WORLDS, BATCH_HORIZONS = (1024, 2048, 4096, 8192, 16384, 32768), (32, 64)
SINGLE_TASK_CRITICS = (768, 1500, 3000, 6000)

PARKOUR_NETS = {
    "vanilla": "PPO (one network for all tasks)",
    "multihead": "Multi-head PPO (a head per task)",
    "care": "CARE (encoders pooled by attention)",
    "moore": "MOORE (a mixture of orthogonal experts)",
    "paco": "PaCo (parameters composed per task)",
    "soft_modular": "Soft modularization (modules routed by the task)",
}
PARKOUR_GRADS = {  # these start from `vanilla_flat`
    "pcgrad": "PCGrad (projection of the critic's conflicting gradients)",
    "cagrad": "CAGrad (conflict-averse gradient for the critic)",
    "famo": "FAMO (critic losses weighted by their progress)",
}
# With these networks the presets `<net>_<setting>_tuned` exist. A run starts from `<net>_flat_tuned`.
PARKOUR_TUNED = {
    **{name: PARKOUR_NETS[name] for name in ("vanilla", "multihead", "moore")},
    "simba_v2": "PPO (one SimbaV2 network for all tasks)",
}
PARKOUR_SETTINGS = {
    "flat": "flat ground, as a start for other runs with init_from",
    "easy": "Parkour-easy",
    "hard": "Parkour-hard",
    "hard_cl": "Parkour-hard with curriculum",
}

PTSL_METHODS = {
    "sac": "one network for all tasks",
    "soft_modular": "soft modularization",
    "care": "CARE",
    "care_ptsl_2hidden": "CARE and PTSL, two hidden layers",
    "care_ptsl_3hidden": "CARE and PTSL, three hidden layers",
}
PTSL_LENGTHS = {"200k": "200 K", "1m": "1 M"}
# Width 326, the default here, matches CARE's parameter count without a residual, 321 with the residual `project`. The
# authors' run without a residual has 321.
PTSL_STUDIES: dict[str, dict[str, dict[str, Any]]] = {
    "projection": {"independent": {}, "shared": {}},
    "residual": {"none": {}, "sum": {}, "linear": {}, "project": {"hidden": 321}},
}


def _mtbench_methods() -> Iterator[tuple[str, Preset]]:
    for suite in ("mt10", "mt50"):
        where = f"on {suite.upper()} with"
        for method, about in PPO_METHODS.items():
            parts = ("/mtbench/ppo", f"/mtbench/method/{method}")
            settings = {"suite": suite, **(MT50_SIZES.get(method, {}) if suite == "mt50" else {})}
            yield f"{suite}_rand/ppo_{method}", Preset(f"PPO with {about}, {where} random goals.", parts, settings)
            fixed = (*parts, f"/mtbench/{suite}_fixed")
            about = f"PPO with {about}, {where} goals fixed per world."
            yield f"{suite}_fixed/ppo_{method}", Preset(about, fixed, settings)
        for method, one in OTHER_METHODS.items():
            added = [part for (name, algo), part in SUITE_PARTS.items() if name == suite and method.startswith(algo)]
            settings = {**one.settings, **PAIR_SETTINGS.get((suite, method), {}), "suite": suite}
            about = f"{one.about}, {where} random goals."
            yield f"{suite}_rand/{method}", Preset(about, (*one.parts, *added), settings, one.choices)


def _mtbench_critics() -> Iterator[tuple[str, Preset]]:
    for net, sizes in CRITIC_SIZES.items():
        mt10 = {"suite": "mt10", "max_frames": MT10_CRITIC_FRAMES[net]}
        for width, count in sizes.items():
            yield from _critics("critic_scaling", net, width, count, "MT50", {})
            yield from _critics("critic_scaling_mt10", net, width, count, "MT10", mt10)
    for width, count in BRO_SIZES.items():
        yield from _critics("bro_scaling", "bro", width, count, "MT10", {})


def _critics(
    folder: str, net: str, width: int, count: str, suite: str, settings: dict[str, Any]
) -> Iterator[tuple[str, Preset]]:
    """Yield the presets of one size of critic, without and with a task embedding."""
    about = f"{CRITIC_NAMES[net]} of about {count} parameters"
    hidden: Any = width if net != "mlp" else [256, 128, 64] if width == 256 else [width] * 3
    parts, own = (f"/mtbench/critic_{net}",), {**settings, "critic_net": {"hidden": hidden}}
    yield f"{folder}/{net}_{width}", Preset(f"{about} as PPO's critic, on {suite}.", parts, own)
    embedded = f"{about} and a task embedding as PPO's critic, on {suite}."
    bound = () if net == "mlp" else ("/mtbench/bounded_embedding",)
    yield f"{folder}/{net}_{width}_te", Preset(embedded, (*parts, "/mtbench/task_embedding", *bound), own)


def _mtbench_sizes() -> Iterator[tuple[str, Preset]]:
    for width, count in ACTOR_SIZES.items():
        about = f"A perceptron of about {count} parameters as PPO's actor, and a small critic, on MT50."
        yield f"actor_scaling/mlp_{width}", Preset(about, ("/mtbench/critic_mlp",), {"net": {"hidden": [width] * 3}})
    for updates in SAC_UPDATES:
        for steps in SAC_STEPS:
            about = f"SAC on MT10 with {updates} updates per step of all worlds and returns of {steps} steps."
            own = {"suite": "mt10", "algo": {"updates_per_step": float(updates), "n_step": steps}}
            parts = ("/mtbench/sac", "/mtbench/method/sac_mlp")
            yield f"sac_grid/updates_{updates}_steps_{steps}", Preset(about, parts, own)
    for worlds in BATCH_WORLDS:
        for horizon in BATCH_HORIZONS:
            yield (
                f"batch_scaling/envs_{worlds}_horizon_{horizon}",
                Preset(
                    f"PPO on MT50 with {worlds:,} worlds and {horizon} steps per iteration, for 60,000 updates: the "
                    "393 M frames of MTBench's script; its thesis gives 500 M.",
                    ("/mtbench/critic_mlp", "/mtbench/task_embedding"),
                    {
                        "num_envs": worlds,
                        "max_frames": 393_216_000,
                        "critic_net": {"hidden": [1500] * 3},
                        "algo": {"horizon": horizon},
                    },
                ),
            )
    first, new = ("/mtbench/ppo", "/mtbench/method/vanilla"), "PPO on the five new tasks of Meta-World's ML45"
    about = "PPO on the 45 training tasks of Meta-World's ML45, as a start for mtbench/transfer/new_tasks."
    yield "transfer/first_tasks", Preset(about, first, {"suite": "ml45-train", "max_frames": 500_000_000})
    about = f"{new}, from scratch or with init_from=RUN."
    yield "transfer/new_tasks", Preset(about, first, {"suite": "ml45-test", "max_frames": 100_000_000})
    one = "PPO on one task, named by tasks=[NAME]"
    yield "single_task/ppo", Preset(f"{one}.", ("/mtbench/single_task",))
    for width in SINGLE_TASK_CRITICS:
        yield (
            f"single_task/ppo_critic_{width}",
            Preset(
                f"{one}, with a critic of three layers of {width}.",
                ("/mtbench/single_task",),
                {"critic_net": {"hidden": [width] * 3, "task_code": "none"}},
                {"critic_net": "mlp"},
            ),
        )


def _parkour() -> Iterator[tuple[str, Preset]]:
    for method, about in {**PARKOUR_NETS, **PARKOUR_GRADS}.items():
        for name, where in PARKOUR_SETTINGS.items():
            if name != "flat" or method in PARKOUR_NETS:
                parts = ("/parkour/base", f"/parkour/method/{method}", f"/parkour/setting/{name}")
                yield f"{method}_{name}", Preset(f"{about} on {where}.", parts)
    for method, about in PARKOUR_TUNED.items():
        for name, where in PARKOUR_SETTINGS.items():
            own = (f"/parkour/method/{method}", f"/parkour/setting/{name}")
            extra, also = (("/parkour/tuned_cl",), ", and revisits easier levels") if name == "hard_cl" else ((), "")
            added = f"adds fixed scales of observations and a low first rate{also}"
            yield (
                f"{method}_{name}_tuned",
                Preset(f"{about} on {where}; {added}.", ("/parkour/base", *own, "/parkour/tuned", *extra)),
            )


def _real_parkour() -> Iterator[tuple[str, Preset]]:
    about = "PPO for a Go1 with the limits and errors of a real one, whose policy sees what it measures"
    for name, where in PARKOUR_SETTINGS.items():
        parts = ("/parkour/base", "/parkour/method/vanilla", f"/parkour/setting/{name}", "/parkour/tuned")
        extra = ("/parkour/tuned_cl",) if name == "hard_cl" else ()
        yield f"go1_real_{name}", Preset(f"{about}, on {where}.", (*parts, *extra, "/parkour/real"))


def _ptsl() -> Iterator[tuple[str, Preset]]:
    for suite in ("mt10", "mt50"):
        for length, steps in PTSL_LENGTHS.items():
            for method, about in PTSL_METHODS.items():
                parts = ("/ptsl/base", f"/ptsl/method/{method}", f"/ptsl/setting/{suite}_{length}")
                about = f"SAC with {about}, on {suite.upper()} for {steps} steps of every task."
                yield f"{suite}_{length}/{method}", Preset(about, parts)
    methods = {"projection": "care_ptsl_2hidden", "residual": "care_ptsl_3hidden"}
    for study, choices in PTSL_STUDIES.items():
        for choice, extra in choices.items():
            about = f"PTSL's study of {study}s, on MT10 for 200 K steps of every task: {choice}."
            parts = ("/ptsl/base", f"/ptsl/method/{methods[study]}", "/ptsl/setting/mt10_200k")
            yield f"{study}/{choice}", Preset(about, parts, {"net": {study: choice, **extra}})


@cache
def products() -> dict[str, Preset]:
    """Build the presets of the tables, by name."""
    families = {
        "mtbench": (_mtbench_methods, _mtbench_critics, _mtbench_sizes),
        "parkour": (_parkour, _real_parkour),
        "ptsl": (_ptsl,),
    }
    return {
        f"{family}/{name}": preset for family, makers in families.items() for make in makers for name, preset in make()
    }


def store_preset(name: str) -> str:
    """Return the name by which Hydra finds a preset. One of the tables is put into Hydra's store first.

    It takes the place of the one before, because Hydra copies its whole store whenever it composes.
    """
    if name not in products():
        return name  # a file
    preset = products()[name]
    choices = [{f"override /{group}": entry} for group, entry in preset.choices.items()]
    node = {"defaults": [*preset.parts, *choices, "_self_"], **preset.settings}
    ConfigStore.instance().store(group=PRESET, name=IN_STORE, node=node, package="_global_")
    return IN_STORE


def presets(folder: str = PRESET) -> dict[str, str]:
    """Return one line of text for each preset: the first comment of its file, or the text in the tables."""
    table = {name: preset.about for name, preset in products().items()} if folder == PRESET else {}
    for path in (CONF / folder).rglob("*.yaml"):
        comments = [line[1:].strip() for line in path.read_text().splitlines() if line.startswith("#")]
        name = path.relative_to(CONF / folder).with_suffix("").as_posix()
        table[name] = next((line for line in comments if not line.startswith("@")), "")
    return dict(sorted(table.items()))
