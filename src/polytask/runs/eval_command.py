"""`polytask eval`: measure a policy in our worlds or, with `env=metaworld`, also in the original Meta-World."""

from __future__ import annotations

from polytask.config.schema import EvalConfig
from polytask.result import Result
from polytask.runs.evaluate import evaluate
from polytask.runs.metaworld.compare import compare


def run_eval(config: EvalConfig) -> Result:
    """Run `polytask eval`."""
    return compare(config) if config.env == "metaworld" else evaluate(config)
