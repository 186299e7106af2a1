"""Programs in processes of their own: the command line as a user meets it, and Python without the compiler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "skyband.cli"]
LONGEST = 1200  # seconds; a machine that does other things besides may need them


def skyband(*arguments, **options):
    """Run ``skyband`` and return the finished process; its output is text."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False, **options)


def on_terminal(*arguments, ctrl_c_after=None, **options):
    """Run ``skyband`` on a terminal: its exit code and all it wrote. Ctrl-C comes when a text has been written."""
    import pty  # not on Windows

    terminal, inside = pty.openpty()
    known = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    running = subprocess.Popen([*COMMAND, *arguments], stdout=inside, stderr=inside, env=known, **options)
    os.close(inside)
    seen = b""
    while True:
        try:
            seen += os.read(terminal, 65536)
        except OSError:  # which is how a terminal ends
            break
        if ctrl_c_after is not None and ctrl_c_after.encode() in seen:
            running.send_signal(signal.SIGINT)
            ctrl_c_after = None
    os.close(terminal)
    return running.wait(LONGEST), seen.decode()


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
