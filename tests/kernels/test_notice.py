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
LINE = "skyband: compiling kernels; the first use takes up to half a minute, later uses start at once."


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
        return shown.splitlines()

    return saying


def test_on_a_terminal_it_is_said_once_and_only_when_it_is_so(said):
    assert said(terminal=True) == [LINE]
    assert said(terminal=True) == []


def test_a_program_that_uses_the_library_writes_nothing_and_can_log_it(said, tmp_path):
    assert said() == []
    for path in (tmp_path / "cache").rglob("*.nb?"):
        path.unlink()
    (logged,) = said(before="logging.basicConfig(level=logging.INFO)")
    assert logged == f"INFO:skyband.kernels:{LINE}"


def test_a_command_says_it_everywhere(said):
    assert said(before="_notice.announce()") == [LINE]


def test_what_has_been_said_otherwise_is_not_said_again(said):
    assert said(terminal=True, before="_notice.silence()") == []


def test_cold_or_not(tmp_path, monkeypatch):
    from skyband.kernels import _cache

    monkeypatch.setattr(_cache, "kernel_store", lambda: _cache.KernelStore(tmp_path))
    assert _cache.is_cold()
    (tmp_path / "kernels_1").mkdir()
    (tmp_path / "kernels_1" / "x.nbi").touch()
    assert not _cache.is_cold()
    monkeypatch.setattr(_cache, "kernel_store", lambda: _cache.KernelStore(None))
    assert _cache.is_cold()
