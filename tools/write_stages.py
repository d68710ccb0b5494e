"""Write the table of stages into docs/shaped_reward.md, from the tasks: python tools/write_stages.py"""

from pathlib import Path

from polytask.envs.manipulation.tasks import TASKS

PAGE = Path(__file__).parents[1] / "docs" / "shaped_reward.md"
HEADING = "## Stages of each task\n"


def main() -> None:
    """Replace everything after the heading by the table."""
    rows = [f"| {task.name} | {' → '.join(task.shaped.words)} |" for task in TASKS.values() if task.shaped is not None]
    text, _, _ = PAGE.read_text().partition(HEADING)
    lines = ["Written by `python tools/write_stages.py`, not by hand.", "", "| task | stages |", "|---|---|", *rows]
    PAGE.write_text(text + HEADING + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
