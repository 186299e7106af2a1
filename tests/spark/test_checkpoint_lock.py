"""A lock on a folder: one process at a time, and nothing is left of one that was killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

import skyband as sb
from skyband.spark.checkpoint_lock import Lock

HOLDING = """
import sys, time
from pathlib import Path
from skyband.spark.checkpoint_lock import Lock
lock = Lock(Path(sys.argv[1]))
lock.take()
print("taken", flush=True)
time.sleep(600)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "lock"


def refused(path):
    with pytest.raises(sb.InvalidInputError) as caught:
        Lock(path).take()
    return str(caught.value)


def test_who_has_it_is_named(path):
    lock = Lock(path)
    lock.take()
    lock.take()  # again is once
    said = refused(path)
    assert f"is in use by process {os.getpid()} on {socket.gethostname()} since 20" in said
    assert "so the stream was not started" in said
    lock.release()
    lock.release()
    Lock(path).take()


def test_a_killed_process_leaves_none(path):
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "taken\n"
        assert f"process {holder.pid} on" in refused(path)
        holder.kill()
    Lock(path).take()


def test_a_child_that_was_forked_does_not_keep_it(path):
    lock = Lock(path)
    lock.take()
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        refused(path)  # it is still the parent's
        lock.release()
        Lock(path).take()
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff" * 9000])
def test_what_the_file_says_is_not_trusted(path, content):
    lock = Lock(path)
    lock.take()
    path.write_bytes(content)
    assert "is in use by another process," in refused(path)


def test_where_nothing_can_be_written_somebody_else_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    Lock(tmp_path / "file" / "lock").take()
    Lock(None).take()
