"""Register the suites with Gymnasium, which calls `register_envs` through the entry point of the package."""

from __future__ import annotations

from polytask.envs.suites import SUITES


def register_envs() -> None:
    """Register every suite, such as "polytask/MT10-v0", without loading torch or MuJoCo."""
    from gymnasium.envs.registration import register, registry

    for suite in SUITES:
        name = f"polytask/{suite.upper()}-v0"
        if name not in registry:
            register(name, vector_entry_point="polytask.envs.gym:GymVectorEnv", kwargs={"suite": suite})
