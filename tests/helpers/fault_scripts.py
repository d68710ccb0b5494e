"""Run scripts of `benchmarks/faults`, each in a fork of this process, which has imported all of polytask before.

Every line of the input is a list: the folder for the script's output, the script's name, its words. Each is answered by
a line with the exit code.
"""

import json
import os
import runpy
import sys

from faults.process import warm_up


def run(folder: str, name: str, *words: str) -> int:
    """Run a script in a fork, and return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, file in ((1, "stdout.txt"), (2, "stderr.txt")):
                os.dup2(os.open(os.path.join(folder, file), os.O_WRONLY | os.O_CREAT), number)
            sys.argv = [f"{name}.py", *words]
            runpy.run_module(f"faults.{name}", run_name="__main__")
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    warm_up()
    for line in sys.stdin:
        print(run(*json.loads(line)), flush=True)
