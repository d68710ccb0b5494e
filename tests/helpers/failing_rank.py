"""Run the command line in every rank, and let rank 1 fail in its second iteration: `failing_rank.py WORDS`."""

import os
import sys

from polytask.cli.main import main
from polytask.errors import UserError
from polytask.runs import train

iterate = train.iterate


def fail_in_the_second_iteration(run):
    """Iterate, or fail."""
    if run.iteration == 1 and os.environ["RANK"] == "1":
        raise UserError("rank 1 has no memory left")
    return iterate(run)


train.iterate = fail_in_the_second_iteration
sys.exit(main())
