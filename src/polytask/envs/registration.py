"""Tell Gymnasium about the suites; it calls this itself through the package's entry point."""

from __future__ import annotations

from polytask.envs.suites import SUITES


def register_envs() -> None:
    """Register every suite, such as "polytask/MT10-v0", without loading torch or MuJoCo."""
    from gymnasium.envs.registration import register, registry

    for suite in SUITES:
        name = f"polytask/{suite.upper()}-v0"
        if name not in registry:
            register(name, vector_entry_point="polytask.envs.gym:GymVectorEnv", kwargs={"suite": suite})
