"""Clients that open connections and say nothing: they take nothing away from the run, nor from other clients."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress

import pytest

from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import Connections, Listening, most_connections
from tests.dashboard.asking import TIMEOUT, served
from tests.waiting import wait_for

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
# A process as a run is one: a page, numbers and few descriptors; it does what it is told to on its input.
SERVER = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (96, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from skyband.cli.prometheus import MetricsServer
from skyband.dashboard import connections
from skyband.dashboard.connections import Address
from skyband.dashboard.server import PageServer
from skyband.dashboard.board_state import LiveShow
connections.FIRST = 0.5
with PageServer(LiveShow("x"), Address("127.0.0.1", 0)) as page, MetricsServer("0", dict) as exposed:
    print(page.port, exposed._server.server_port, flush=True)
    taken = []
    for line in sys.stdin:
        try:
            if line == "open\\n":
                for descriptor in [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]:
                    os.close(descriptor)
            elif line == "take all\\n":
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            elif line == "give back\\n":
                while taken:
                    os.close(taken.pop())
            print("done", flush=True)
        except OSError as error:
            print(error.strerror, flush=True)
"""


@pytest.fixture
def server(tmp_path):
    log = (tmp_path / "stderr").open("w+")
    running = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    )
    running.ports = [int(port) for port in running.stdout.readline().split()]
    yield running
    running.stdin.close()
    running.stdout.close()
    assert running.wait(300) == 0
    log.seek(0)
    logged = log.read()
    log.close()
    assert "Traceback" not in logged
    assert len(logged) < 10_000


def told(server, what):
    server.stdin.write(f"{what}\n")
    server.stdin.flush()
    return server.stdout.readline().strip()


def half_open(port, count):
    """So many connections that have sent half a request; those that were turned away are as good as any."""
    found = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        found.append(connection)
        try:
            connection.sendall(HALF)
        except OSError:
            continue
    return found


def await_answer(port):
    """An ordinary request is answered, if not at once then soon: who only waits must have been sent away."""

    def is_answered():
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=TIMEOUT) as found:
            return found.read() == b"ok\n"
        return False

    wait_for(is_answered)


@pytest.fixture(autouse=True)
def _descriptors():
    """The test itself opens some hundred connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(before[0], 1024), before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("which", [0, 1], ids=["page", "metrics"])
def test_more_half_requests_than_descriptors(server, which):
    waiting = half_open(server.ports[which], 150)
    assert told(server, "open") == "done"
    await_answer(server.ports[1 - which])
    await_answer(server.ports[which])  # while those who wait are still there
    for connection in waiting:
        connection.close()
    await_answer(server.ports[which])
    assert told(server, "open") == "done"


@pytest.mark.parametrize("which", [0, 1], ids=["page", "metrics"])
def test_a_process_without_a_descriptor_serves_again_when_it_has_some(server, which):
    await_answer(server.ports[which])
    assert told(server, "take all") == "Too many open files"
    waiting = half_open(server.ports[which], 50)
    for connection in waiting[:10]:
        try:
            assert connection.recv(100) == b""
        except ConnectionError:
            continue
    assert told(server, "give back") == "done"
    await_answer(server.ports[which])
    for connection in waiting:
        connection.close()
    assert told(server, "open") == "done"


@pytest.mark.parametrize("begin", [b"", HALF, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + HALF])
def test_who_sends_no_whole_request_is_sent_away(monkeypatch, begin):
    """Also after a request that was whole: the time begins anew with each."""
    monkeypatch.setattr("skyband.dashboard.connections.FIRST", 0.3)
    with (
        served(LiveShow("x")) as page,
        socket.create_connection(("127.0.0.1", page.server.port), TIMEOUT) as client,
        suppress(ConnectionError),  # it may have been sent away before all was sent
    ):
        client.sendall(begin)
        while client.recv(4096):
            pass


def test_who_is_being_answered_may_wait_and_who_reads_nothing_may_not(monkeypatch):
    monkeypatch.setattr("skyband.dashboard.connections.FIRST", -1.0)
    connections = Connections(2)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert connections.admit(ours, ("h", 1))
        with connections.request(("h", 1)) as connection:
            connections.sweep()
            connection.sending = time.monotonic()
            connections.sweep()
            theirs.setblocking(False)
            with pytest.raises(BlockingIOError):
                theirs.recv(1)
            connection.sending -= 1000
            connections.sweep()
            theirs.setblocking(True)
            assert theirs.recv(1) == b""


def test_no_more_than_there_is_room_for():
    connections = Connections(3)
    with Listening(socket.create_server(("127.0.0.1", 0)), connections) as listening:
        clients = [socket.create_connection(listening.getsockname(), TIMEOUT) for _ in range(4)]
        let_in = [listening.accept()[0] for _ in range(3)]
        with pytest.raises(BlockingIOError):
            listening.accept()
        assert clients[3].recv(1000).startswith(b"HTTP/1.1 503 ")
        assert len(connections) == 3
        let_in[0].close()
        clients.append(socket.create_connection(listening.getsockname(), TIMEOUT))
        let_in.append(listening.accept()[0])
        assert len(connections) == 3
        for one in (*clients, *let_in):
            one.close()
    assert len(connections) == 0


def test_the_limit_follows_that_of_descriptors(monkeypatch):
    for soft, most in ((1024, 128), (resource.RLIM_INFINITY, 128), (256, 32), (8, 4)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert most_connections(128, share=8) == most


def test_streams_of_events_that_are_opened_all_at_once():
    with served(LiveShow("x")) as page:
        most = page.server._notifier.most
        request = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        clients = [socket.create_connection(("127.0.0.1", page.server.port), TIMEOUT) for _ in range(most + 26)]
        for client in clients:
            client.sendall(request)
        statuses = [client.recv(12) for client in clients]
        assert (statuses.count(b"HTTP/1.1 200"), statuses.count(b"HTTP/1.1 503")) == (most, 26)
        assert page.server.listeners == most
        for client in clients:
            client.close()
        wait_for(lambda: page.server.listeners == 0)
        with page.events() as events:
            assert events.status == 200


def test_a_run_that_does_not_get_on():
    show = LiveShow("x")
    with served(show) as page:
        assert page.raw("GET", "/healthz")[::2] == (200, b"ok\n")
        show._problem = lambda: "a stream has failed; see the log of the run for the reason."
        assert page.raw("GET", "/healthz")[::2] == (
            503,
            b"a stream has failed; see the log of the run for the reason.\n",
        )


def test_a_stream_of_events_is_not_idle(server):
    """It is a request in progress, so the limit for idle connections (0.5 s here) does not apply."""
    with socket.create_connection(("127.0.0.1", server.ports[0]), timeout=TIMEOUT) as connection:
        connection.sendall(b"GET /api/events?watch=%5B%5D HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        until = time.monotonic() + 4  # eight times the limit; the server looks once a second
        while time.monotonic() < until:
            assert connection.recv(1 << 16), "the server closed the stream"
