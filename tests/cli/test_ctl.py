"""`skyband ctl` as a user meets it: in a process of its own, with somebody who listens or nobody. Without Spark."""

from __future__ import annotations

import json
import os
import threading

import pytest

from skyband.jobs.mailbox import Mailbox
from tests.programs import skyband

FILE = """
streams:
  trades: {path: in, format: parquet, time: ts}
queries:
  - {name: big, k: 3, size: 20 seconds, by: price}
"""
LISTED = {
    "queries": {"trades": ["big: TOPK price, 3 OVER 20 SECONDS"], "visits": []},
    "metrics": {"trades": {"rows": 12345, "windows": 6, "late": 1, "dropped": {"bad": "1/x cannot be computed"}}},
}


def ctl(folder, *arguments, **environment):
    return skyband("ctl", *arguments, cwd=folder, env={**os.environ, **environment})


class Attendant:
    """Listens in place of a run: hears messages, and gives the reply it was told to."""

    def __init__(self, folder, reply):
        self._box, self._reply = Mailbox(folder / ".skyband" / "skyband" / "mail"), reply
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self.heard = []

    def __enter__(self):
        self._box.open()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._closed.set()
        self._thread.join(300)
        self._box.close()

    def _attend(self):
        while not self._closed.wait(0.05):
            for name, message in self._box.requests():
                self.heard.append(message)
                self._box.reply(name, self._reply)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "skyband.yaml").write_text(FILE)
    return tmp_path


def test_help_names_what_can_be_done():
    done = ctl(".", "--help")
    assert done.returncode == 0
    for what in ("add", "drop", "list", "flush", "advance"):
        assert what in done.stdout


@pytest.mark.parametrize("arguments", [["list"], ["drop", "big"], ["flush"], ["add", "x: TOPK price, 1 OVER 1 HOUR"]])
def test_nobody_listens(folder, arguments):
    done = ctl(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("skyband: no running job found for skyband.yaml on this machine")
    assert "`skyband run skyband.yaml`" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / ".skyband").exists()  # asking leaves nothing behind


def test_a_run_that_was_killed_does_not_listen(folder):
    with Attendant(folder, {}) as attendant:
        pass
    (attendant._box.folder / "run.json").write_text(json.dumps({"pid": 2**22 + 12345}))
    assert ctl(folder, "list").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["add", "few: TOPK price, 1 OVER 1 HOUR", "--stream", "trades"],
            {"kind": "add", "sql": "few: TOPK price, 1 OVER 1 HOUR", "stream": "trades"},
        ),
        (["drop", "big"], {"kind": "drop", "name": "big"}),
        (["flush"], {"kind": "flush", "stream": None}),
        (
            ["advance", "2024-01-01T09:30:00+00:00", "-f", "skyband.yaml"],
            {"kind": "advance", "to": "2024-01-01T09:30:00+00:00", "stream": None},
        ),
    ],
)
def test_what_is_asked_is_heard_and_the_reply_is_printed(folder, arguments, message):
    with Attendant(folder, {"done": "it was done; [bold]valid[/bold] from then on"}) as attendant:
        done = ctl(folder, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "it was done; [bold]valid[/bold] from then on\n"
    assert attendant.heard == [message]


def test_queries_are_listed(folder):
    with Attendant(folder, LISTED):
        done = ctl(folder, "list")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "stream trades: 12,345 rows, 6 windows, 1 late",
        "  big: TOPK price, 3 OVER 20 SECONDS",
        "  dropped 'bad': 1/x cannot be computed",
        "stream visits: 0 rows, 0 windows, 0 late",
    ]


@pytest.mark.parametrize("reply", [LISTED, {"done": "yes"}])
def test_json_is_the_reply_itself(folder, reply):
    with Attendant(folder, reply):
        done = ctl(folder, "list", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == reply
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_what_is_refused_says_why(folder, more):
    with Attendant(folder, {"refused": "'big' is the last query of stream 'trades'."}):
        done = ctl(folder, "drop", "big", *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "skyband: 'big' is the last query of stream 'trades'. The job continues unchanged.\n"


def test_no_reply_in_time(folder):
    from pathlib import Path

    from skyband.cli.ctl import send
    from skyband.errors import PipelineError

    box = Mailbox(folder / ".skyband" / "skyband" / "mail")
    box.open()
    with pytest.raises(PipelineError, match=r"did not reply within 0.2 seconds, so .* `skyband ctl list --file \S+`"):
        send(Path(folder / "skyband.yaml"), {"kind": "list"}, as_json=False, timeout=0.2)
    assert [path.name for path in box.folder.iterdir()] == ["run.json"]


def test_what_is_too_long_is_not_sent(folder):
    with Attendant(folder, {"done": "yes"}) as attendant:
        done = ctl(folder, "drop", "x" * 70_000)
    assert done.returncode == 2
    assert "can have at most 65,536 bytes, got 70,0" in done.stderr
    assert attendant.heard == []


def test_state_elsewhere_cannot_be_reached(folder):
    (folder / "skyband.yaml").write_text(FILE + "engine: {checkpoint: s3a://bucket/state}\n")
    done = ctl(folder, "list")
    assert done.returncode == 2
    assert "not on this machine, so its running job cannot be changed" in done.stderr


def test_a_file_that_is_not_there(tmp_path):
    done = ctl(tmp_path, "list")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
