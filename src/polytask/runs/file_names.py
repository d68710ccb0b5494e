"""The names of the files in the folders of runs and sweeps."""

CHECKPOINT_FILE = "checkpoint.pt"
CONFIG_FILE = "config.yaml"
METRICS_FILE = "metrics.jsonl"
START_FILE = "start.json"  # what the policy began with; the summary says it, too, at the end
SUMMARY_FILE = "summary.json"
INDEX_FILE = "index.json"  # of a sweep
MTOPT_FILE = "run.json"  # the state of a run of `polytask mtopt`, which has another folder
OUTPUT = "{output}/"  # stands for the folder of the sweep in this file
