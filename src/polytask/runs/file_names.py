"""The names of the files in a run's folder."""

CHECKPOINT_FILE = "checkpoint.pt"
CONFIG_FILE = "config.yaml"
METRICS_FILE = "metrics.jsonl"
SUMMARY_FILE = "summary.json"
