"""Requests and replies in a folder: whole, in order, and nothing but data."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from pathlib import Path

import pytest

import skyband as sb
from skyband.jobs.mailbox import LONGEST, Mailbox


@pytest.fixture
def box(tmp_path):
    found = Mailbox(tmp_path / "mail")
    found.open()
    return found


def test_it_is_the_users_alone(box):
    assert stat.S_IMODE(box.folder.stat().st_mode) == 0o700


def test_requests_are_heard_in_order(box):
    names = [box.send({"number": number}) for number in range(20)]
    heard = list(box.requests())
    assert [name for name, _ in heard] == names
    assert [message["number"] for _, message in heard] == list(range(20))


def test_a_reply_is_given_once(box):
    name = box.send({"kind": "list"})
    assert box.fetch(name) is None
    box.reply(name, {"done": "yes"})
    assert list(box.requests()) == []
    assert box.fetch(name) == {"done": "yes"}
    assert box.fetch(name) is None


def test_a_reply_that_cannot_be_written_is_no_reason_to_hear_the_request_again(box, monkeypatch):
    name = box.send({"kind": "list"})

    def is_full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", is_full)
    with pytest.raises(OSError, match="No space left"):
        box.reply(name, {"done": "yes"})
    assert list(box.requests()) == []
    with pytest.raises(sb.InvalidInputError, match=r"cannot write to .*mail', .* \(No space left on device\)"):
        box.open()


def test_asking_waits_for_the_reply(box):
    def attend():
        while not (waiting := list(box.requests())):
            pass
        for name, message in waiting:
            box.reply(name, {"heard": message})

    thread = threading.Thread(target=attend)
    thread.start()
    assert box.ask({"kind": "list"}, 300) == {"heard": {"kind": "list"}}
    thread.join()


def test_asking_in_vain_leaves_nothing_behind(box):
    assert box.ask({"kind": "list"}, 0.1) is None
    box.close()
    assert box.ask({"kind": "list"}, 30) is None  # at once: nobody listens
    assert list(box.folder.iterdir()) == []


@pytest.mark.parametrize("about", [{"pid": 2**22 + 12345}, {"pid": "x"}, {}, []])
def test_a_run_that_is_gone_is_not_heard(box, about):
    (box.folder / "run.json").write_text(json.dumps(about))
    assert not box.is_heard()


def test_this_process_is_heard(box):
    assert box.is_heard()
    assert json.loads((box.folder / "run.json").read_text())["pid"] == os.getpid()


def test_what_is_too_long_is_not_sent(box):
    with pytest.raises(sb.InvalidInputError, match=r"can have at most 65,536 bytes, got 65,590\. Nothing was sent"):
        box.send({"sql": "x" * LONGEST})
    assert list(box.requests()) == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x80\x04cos\nsystem\n.", "can't decode"),
        (b"[" * 60_000, ""),
        (b"7", "not a mapping"),
        (b"", "Expecting value"),
    ],
)
def test_what_is_no_message_says_why(box, content, why):
    (box.folder / "0.request.json").write_bytes(content)
    ((_, message),) = box.requests()
    assert message["kind"] == "unreadable"
    assert why in message["why"]


def test_messages_without_a_checksum_are_read(box):
    (box.folder / "0.request.json").write_bytes(b'{"kind": "list"}')
    (box.folder / "1.reply.json").write_bytes(b'{"done": "yes"}')
    assert list(box.requests()) == [("0", {"kind": "list"})]
    assert box.fetch("1") == {"done": "yes"}


def test_opening_removes_what_an_earlier_run_left(box):
    box.send({"kind": "list"})
    box.reply("0-old", {"done": "long ago"})
    box.open()
    assert [path.name for path in box.folder.iterdir()] == ["run.json"]
