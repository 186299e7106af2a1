"""Who listens to `skyband ctl` goes on listening, whatever happens to its folder. Without Spark."""

from __future__ import annotations

from types import SimpleNamespace

from skyband.jobs.control_server import ControlServer
from tests.dashboard.seeded import workload_file


def test_a_mailbox_that_cannot_be_read_for_a_while(tmp_path, monkeypatch, caplog):
    """As where the process has no descriptor left: the thread must not end with the first error."""
    file = workload_file(tmp_path, many=3)
    failures = [OSError(24, "Too many open files") for _ in range(5)]
    attendant = ControlServer(SimpleNamespace(file=file, metrics=dict))
    requests = attendant._box.requests

    def failing():
        if failures:
            raise failures.pop()
        yield from requests()

    monkeypatch.setattr(attendant._box, "requests", failing)  # of this mailbox: others may be open in this process
    monkeypatch.setattr("skyband.jobs.control_server.POLL", 0.01)
    with attendant:
        reply = attendant._box.ask({"kind": "nonsense"}, timeout=300)
    assert failures == []
    assert "a message of kind 'nonsense' is not supported" in reply["refused"]
    assert sum("cannot read the mailbox" in record.getMessage() for record in caplog.records) <= 1
    assert not any(record.exc_info for record in caplog.records)
