"""Settings of MT-Opt. Nothing here imports torch, so that `--help` is answered at once."""

from polytask.mtopt.config.commands import EvaluateConfig, ExportConfig, RelabelConfig, StatusConfig
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.run import RunConfig

__all__ = ["EvaluateConfig", "ExportConfig", "LabelConfig", "RelabelConfig", "RunConfig", "StatusConfig"]
