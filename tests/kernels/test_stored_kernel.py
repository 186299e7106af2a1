"""Stored kernels: never stale, shared by copies of the sources, compiled once by several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from skyband.kernels import _stored_kernel

LOW = "from skyband.kernels._jit import kernel\n\n\n@kernel\ndef low(x):\n    return x + 1\n"
MIDDLE = "from skyband.kernels._jit import kernel\nfrom skyband.low import low\n\n\n@kernel\ndef middle(x):\n    return low(x) * 10\n"  # noqa: E501
OTHER = "from skyband.kernels._jit import kernel\n\n\n@kernel\ndef other(x):\n    return x - 1\n"
PROGRAM = """
import sys
from pathlib import Path
import skyband
from skyband.kernels import _notice
skyband.__path__.append(sys.argv[1])
from skyband.middle import middle
from skyband.low import low
from skyband.other import other
print(middle(1), other(1), _notice.compiled_kernels())
{more}
"""


@pytest.fixture
def called(tmp_path):
    """Writes three kernels into a folder and calls them in another process; returns values and compilations."""

    def calling(*, folder="a", low=LOW, more="", wait=True, cache="cache", **environment):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        for name, text in (("low", low), ("middle", MIDDLE), ("other", OTHER)):
            (place / f"{name}.py").write_text(text)
        known = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / cache), "PYTHONDONTWRITEBYTECODE": "1"} | environment
        command = [sys.executable, "-c", PROGRAM.format(more=more), str(place)]
        started = subprocess.Popen(command, env=known, stdout=subprocess.PIPE, text=True)
        return numbers(started) if wait else started

    return calling


def numbers(started):
    shown, _ = started.communicate()
    assert started.returncode == 0
    return [int(word) for word in shown.split()]


def test_a_copy_of_the_sources_compiles_nothing(called):
    assert called() == [20, 0, 3]
    assert called() == [20, 0, 0]
    assert called(folder="b") == [20, 0, 0]


def test_an_edit_of_a_called_kernel_compiles_its_callers_and_no_other(called):
    assert called() == [20, 0, 3]
    edited = LOW.replace("x + 1", "x + 2")
    assert called(low=edited) == [30, 0, 2]
    assert called() == [20, 0, 0], "the earlier kernels are still there"


def test_a_comment_and_a_new_file_time_compile_nothing(called, tmp_path):
    assert called() == [20, 0, 3]
    assert called(low="# moved\n\n" + LOW) == [20, 0, 0]


@pytest.mark.long
def test_other_settings_of_the_compiler_compile_again(called):
    assert called() == [20, 0, 3]
    assert called(NUMBA_OPT="1")[2] == 3
    assert called(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")[2] == 3
    assert called() == [20, 0, 0]


@pytest.mark.long
def test_inner_code_becomes_an_entry_when_python_calls_it(called):
    assert called(more="print(low(5), _notice.compiled_kernels())") == [20, 0, 3, 6, 4]
    assert called(more="print(low(5), low(6), _notice.compiled_kernels())") == [20, 0, 0, 6, 7, 0]


@pytest.mark.parametrize("damage", [pytest.param(b"", marks=pytest.mark.long), b"damaged"])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_file_is_compiled_again(called, tmp_path, suffix, damage):
    assert called() == [20, 0, 3]
    for path in (tmp_path / "cache").glob(f"middle.*.{suffix}"):
        path.write_bytes(damage)
    assert called() == [20, 0, 1]
    assert called() == [20, 0, 0]


def test_two_processes_compile_each_kernel_once(called):
    both = [numbers(started) for started in [called(wait=False), called(wait=False)]]
    assert [found[:2] for found in both] == [[20, 0], [20, 0]]
    assert sum(found[2] for found in both) == 3


def test_a_folder_that_cannot_be_written_to_is_not_used(called, tmp_path):
    """The next place is beside the sources, where an earlier run of this test may have left its kernels."""
    (tmp_path / "file").write_text("")
    found = called(cache="file/below", HOME=str(tmp_path / "file"), XDG_CACHE_HOME="", TMPDIR=str(tmp_path))
    assert found[:2] == [20, 0]
    assert found[2] in (0, 3)


def test_without_compilation(called):
    assert called(NUMBA_DISABLE_JIT="1") == [20, 0, 0]


def test_kernels_that_are_not_used_are_deleted(tmp_path):
    for name, days in (("old.nbi", 61), ("old.1.nbc", 61), ("new.nbi", 1), ("other.txt", 100)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - days * _stored_kernel.DAY,) * 2)
    _stored_kernel.delete_unused(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"new.nbi", "other.txt"}


def test_a_lock_that_its_process_left_behind_is_taken(tmp_path):
    (tmp_path / "x.lock").touch()
    with _stored_kernel._lock(tmp_path / "x.lock", tmp_path / "x.1.nbc"):
        assert (tmp_path / "x.lock").exists()
    assert not (tmp_path / "x.lock").exists()
