"""The second process that compiles: it must compile exactly what the first one needs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import typeof

import skyband as sb
from skyband.kernels import _notice
from skyband.topk import compile_ahead
from skyband.topk.kernels import candidates

PROGRAM = """
import sys
from skyband.kernels import _notice
from skyband.topk import compile_ahead
if sys.argv[1] == "part":
    compile_ahead.compile_part()
    print(_notice.compiled_kernels())
else:
    names, draw = [], _notice._Listener.on_start
    _notice._Listener.on_start = lambda self, started: (names.append(_notice._name_of(started)), draw(self, started))
    import numpy as np, skyband as sb
    query = sb.TopK(name="q", k=2, size="10 seconds", slide="5 seconds")
    monitor = sb.Monitor(query, algorithm="panes")
    monitor.push(np.arange(100) * 1_000_000, np.arange(100) % 7.0)
    monitor.snapshot()
    print(*names)
"""


def test_kernels_are_compiled_for_the_types_that_the_executor_passes(monkeypatch):
    asked = []
    monkeypatch.setattr(compile_ahead, "_prepare", lambda *given, is_inner=False: asked.append((given, is_inner)))
    compile_ahead.compile_part()
    monitor = sb.Monitor(sb.TopK(k=50, size="60 seconds", slide="5 seconds"), algorithm="panes")
    monitor.push(np.arange(9_000) * 20_000, np.random.default_rng(1).random(9_000))
    monitor.snapshot()  # merges the open pane and the block
    entries = [given for given, is_inner in asked if not is_inner]
    assert len(entries) == 4
    for kernel, *arguments in entries:
        if kernel is candidates.sweep:
            continue  # called from Python only if the block is not empty; the long test covers it
        assert tuple(map(typeof, arguments)) in kernel.overloads, kernel.py_func.__name__


@pytest.mark.long
def test_the_second_process_leaves_less_to_compile(tmp_path):
    """In a new store, so it takes about ten seconds."""

    def run(what):
        store = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, what], check=False, env=store, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert int(run("part")[0]) > 40
    compiled = run("rest")
    assert "panes.advance" in compiled
    theirs = {"panes.take_pane", "candidates.sweep", "candidates.close_pane", "minimal.needed", "minimal.live_views"}
    assert not theirs & set(compiled)


@pytest.mark.parametrize(("kept", "cores", "count"), [(True, 2, 1), (True, 1, 0), (False, 2, 0)])
def test_a_process_is_started_with_the_first_compilation(monkeypatch, kept, cores, count):
    waiting = []
    monkeypatch.setattr(_notice._LISTENER, "is_reported", False)
    monkeypatch.setattr(_notice._LISTENER, "at_first", waiting)
    monkeypatch.setattr(compile_ahead, "STORE", compile_ahead.STORE._replace(kept=kept))
    monkeypatch.setattr(compile_ahead.pa, "cpu_count", lambda: cores)
    compile_ahead.compile_in_two_processes()
    assert len(waiting) == count
    started, at_exit = [], []
    monkeypatch.setattr(compile_ahead.subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(compile_ahead.atexit, "register", lambda *call: at_exit.append(call))
    for call in waiting:
        call()
    assert [command[1:] for command in started] == [["-m", "skyband.topk.compile_ahead"]] * count
    assert [call for call, _ in at_exit] == [compile_ahead._stop] * count
