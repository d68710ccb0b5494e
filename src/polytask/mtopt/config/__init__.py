"""Settings of MT-Opt. Nothing here imports torch, so that `--help` is answered at once."""

from polytask.mtopt.config.commands import (
    CheckConfig,
    EvaluateConfig,
    ExportConfig,
    RelabelConfig,
    StatusConfig,
    TaskConfig,
)
from polytask.mtopt.config.exchange import ActConfig, ImportConfig
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.run import RunConfig

__all__ = [
    "ActConfig",
    "CheckConfig",
    "EvaluateConfig",
    "ExportConfig",
    "ImportConfig",
    "LabelConfig",
    "RelabelConfig",
    "RunConfig",
    "StatusConfig",
    "TaskConfig",
]
