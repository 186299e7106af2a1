"""Programs in processes of their own: the command line as a user meets it, and Python without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "skyband.cli"]
LONGEST = 1200  # seconds; a machine that does other things besides may need them


def skyband(*arguments, **options):
    """Run ``skyband`` and return the finished process; its output is text."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False, **options)


def without_compiler(program):
    """Run a Python program in which kernels are not compiled; what it prints."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import numba\nassert numba.config.DISABLE_JIT\n{program}"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
