"""The environment variables that Ray reads."""

from __future__ import annotations

import os
import secrets
import sys

# Ray reads these when it is imported and when it starts.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no usage data is sent
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers see the GPUs of their machine
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # Ray's messages about deaths stay out of stdout, which holds the result
}


def set_environment(address: str) -> None:
    """Set the variables that Ray reads when it is imported.

    Ray listens on the network even if it uses one machine only. With a token, it refuses other clients. A cluster that
    others started has its own rules.
    """
    os.environ.update(SETTINGS)
    if address or "ray" in sys.modules:
        return
    if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
