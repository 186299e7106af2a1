"""Compile a part of the pane executor in a second process: ``python -m skyband.topk.compile_ahead``.

numba compiles in one thread. Of the first run of a command with nothing compiled, most of the time goes into one kernel
and the kernels that are linked into it. A second process compiles what the first one needs last, and stores it.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.kernels import _notice
from skyband.kernels._jit import STORE
from skyband.kernels.stream import Rows
from skyband.topk.algorithms.panes import Panes
from skyband.topk.kernels import candidates, minimal, panes
from skyband.topk.query import TopK

__all__ = ["compile_in_two_processes", "compile_part"]


def compile_in_two_processes() -> None:
    """Start a second process when this one begins to compile, if there is a core for it and a store that they share.

    It ends with this process at the latest.
    """
    if STORE.folder is not None and STORE.kept and pa.cpu_count() > 1:
        _notice.at_first_compilation(_start)


def _start() -> None:
    command = [sys.executable, "-m", "skyband.topk.compile_ahead"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    atexit.register(_stop, process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


class _Compiled(Panes):
    """The pane executor, whose arrays have the types that its kernels are compiled for."""

    def compile(self) -> None:
        """Compile the end of `panes.advance`, in the form in which it is linked, then what is called after it."""
        store, pane, plan, work = self._store, self._pane, self._plan, self._work
        numbers = np.empty(0, np.int64)
        rows = Rows(np.empty(0), numbers, numbers, 0, 0)
        _prepare(panes.take_pane, store, pane, plan, work, rows, 0, 0, is_inner=True)
        _prepare(candidates.sweep, store, plan, work, 0, is_inner=True)
        # Backwards, because the first process begins with the others.
        _prepare(minimal.needed, np.empty(0), numbers, numbers, numbers, plan.ties)
        _prepare(minimal.live_views, self._together, plan.listed, numbers, 0)
        _prepare(candidates.sweep, store, plan, work, 0)
        _prepare(candidates.close_pane, store, pane, plan, work, 0)


def _prepare(kernel: Any, *arguments: Any, is_inner: bool = False) -> None:
    kernel.prepare(*arguments, is_inner=is_inner)


def compile_part() -> None:
    """Compile what a process that runs `Panes` compiles last."""
    _Compiled([TopK(k=1, size="2 seconds", slide="1 second")]).compile()


if __name__ == "__main__":
    compile_part()
