"""The names of the files in a run's folder."""

CHECKPOINT_FILE = "checkpoint.pt"
CONFIG_FILE = "config.yaml"
METRICS_FILE = "metrics.jsonl"
START_FILE = "start.json"  # what the policy began with; the summary says it, too, at the end
SUMMARY_FILE = "summary.json"
