"""`python -m polytask` runs the command `polytask`."""

from __future__ import annotations

import sys

from polytask.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
