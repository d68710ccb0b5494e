"""What polytask does under bad input, damaged files, kills, full disks and two processes at once.

Each script runs in `benchmarks/`, such as `python -m faults.command_lines --out results/faults/command_lines.json`. The
tests in `tests/faults` run a small sample of each. The results are in `docs/reliability.md`.
"""
