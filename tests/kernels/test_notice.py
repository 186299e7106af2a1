"""That kernels are being compiled is said once, where somebody waits, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

KERNELS = "from skyband.kernels._jit import kernel\n\n\n@kernel\ndef one(x):\n    return x + 1\n\n\n@kernel\ndef two(x):\n    return x + 2\n"  # noqa: E501
PROGRAM = """
import importlib.util, logging, sys
from skyband.kernels import _notice
{before}
spec = importlib.util.spec_from_file_location("skyband.small", {file!r})
small = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(small)
print(small.one(1), small.two(1))
"""
LINE = "skyband: compiling kernels, first use only."
CLEAR = "\r\x1b[K"


@pytest.fixture
def said(tmp_path):
    """Compiles two kernels, or loads them the next time, and returns what is written to stderr."""
    (tmp_path / "small.py").write_text(KERNELS)

    def saying(*, terminal=False, before=""):
        program = PROGRAM.format(file=str(tmp_path / "small.py"), before=before)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        leader, follower = pty.openpty()
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=follower if terminal else subprocess.PIPE,
            text=True,
            check=True,
        )
        os.close(follower)
        try:
            shown = os.read(leader, 10_000).decode() if terminal else done.stderr
        except OSError:  # nothing was written
            shown = ""
        os.close(leader)
        assert done.stdout == "2 3\n"
        return shown if terminal else shown.splitlines()

    return saying


AT_ONCE = "_notice.PATIENCE = _notice.REDRAWN = 0.0"


def test_on_a_terminal_a_line_shows_each_kernel_and_is_cleared(said):
    shown = said(terminal=True, before=AT_ONCE)
    lines = [part for part in shown.split(CLEAR) if part]
    assert lines[0] == "skyband: compiling kernels, first use only: 0 done, now small.one"
    assert lines[-1] == "skyband: compiling kernels, first use only: 1 done, now small.two"
    assert shown.endswith(CLEAR)
    assert said(terminal=True, before=AT_ONCE) == "", "stored kernels are loaded without a word"


def test_what_compiles_in_less_than_a_second_shows_nothing(said):
    assert said(terminal=True, before="_notice.PATIENCE = 60.0") == ""


@pytest.mark.long
def test_a_line_is_no_longer_than_the_terminal(said):
    shown = said(terminal=True, before=AT_ONCE + "; import os; os.environ['COLUMNS'] = '30'")
    assert {len(part) for part in shown.split(CLEAR) if part} == {29}


def test_a_command_with_a_spinner_gets_the_text(said):
    shown = said(
        terminal=True,
        before=AT_ONCE
        + """
import atexit
told = []
following = _notice.following(told.append)
following.__enter__()
atexit.register(lambda: sys.stderr.write("; ".join(told)))
""",
    )
    first = "compiling kernels, first use only: 0 done, now small.one"
    assert shown.split("; ")[0] == first


def test_a_program_that_uses_the_library_writes_nothing_and_can_log_it(said, tmp_path):
    assert said() == []
    for path in (tmp_path / "cache").rglob("*.nb?"):
        path.unlink()
    (logged,) = said(before="logging.basicConfig(level=logging.INFO)")
    assert logged == f"INFO:skyband.kernels:{LINE}"


def test_a_command_says_it_everywhere(said):
    assert said(before="_notice.announce()") == [LINE]


@pytest.mark.long
def test_what_has_been_said_otherwise_is_not_said_again(said):
    assert said(terminal=True, before=AT_ONCE + "; _notice.silence()") == ""


@pytest.mark.long
def test_waiting_for_another_process_is_shown_and_cleared(said):
    """A wait of no length draws the line at the first look."""
    program = (
        AT_ONCE
        + """
with _notice.waiting("sap.advance") as show:
    show()
"""
    )
    shown = said(terminal=True, before=program)
    assert shown.startswith(f"{CLEAR}skyband: waiting for another process that compiles sap.advance{CLEAR}")
