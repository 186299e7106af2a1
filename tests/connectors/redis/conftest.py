"""One server for the tests of a process, emptied before each."""

from __future__ import annotations

import pytest

from tests.connectors.redis.server import Redis, binary


@pytest.fixture(scope="session")
def running():
    if binary() is None:
        pytest.skip("there is no Redis or Valkey server on this machine; on Debian: apt-get install redis-server")
    found = Redis()
    yield found
    found.remove()


@pytest.fixture
def server(running, monkeypatch):
    monkeypatch.delenv("REDISCLI_AUTH", raising=False)
    with running.connect() as client:
        client.flushall()
    return running


@pytest.fixture
def client(server):
    with server.connect() as found:
        yield found
