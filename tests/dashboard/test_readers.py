"""Many readers of the read API: they share work, get what is new, and are compressed for as they ask."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading

import pyarrow as pa
import pytest

from skyband.dashboard import read_views
from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import Address, most_connections
from skyband.dashboard.events import Notifier
from skyband.dashboard.history import History
from skyband.dashboard.response_cache import Content, Entry, ResponseCache
from skyband.dashboard.server import PageServer
from skyband.dashboard.shared_changes import SharedChanges
from tests.dashboard.asking import Asking, in_a_loop, served
from tests.dashboard.making import answers
from tests.waiting import wait_for


def give(show, number, rows=3):
    show.history.outlet("s").take(number, answers([("q", None, number, [(one, 1.0) for one in range(rows)])]))


def test_readers_that_wait_at_one_cursor_share_one_response(monkeypatch):
    show = LiveShow("many", history=History())
    made = []
    real = read_views.window_of
    monkeypatch.setattr(read_views, "window_of", lambda *given: made.append(given) or real(*given))
    with served(show) as asking:
        cursor = asking.get("v1/changes")["cursor"]
        found = []

        def wait():
            found.append(asking.get("v1/changes", since=cursor, wait=60))

        readers = [threading.Thread(target=wait) for _ in range(30)]
        for reader in readers:
            reader.start()
        wait_for(lambda: asking.server.listeners == 30)
        give(show, 1)
        for reader in readers:
            reader.join(60)
    assert len(found) == 30
    assert all(one == found[0] for one in found)
    assert [len(one["rows"]) for one in found[0]["changes"]] == [3]
    assert len(made) < 30  # not once for each of them


def test_a_reader_gets_what_came_after_the_read_of_others():
    """A response is shared only by those that were woken together."""
    log = []

    async def run():
        notifier = Notifier()
        shared = SharedChanges(notifier, lambda since, limit, name: {"changes": list(log), "cursor": str(len(log))})
        first = await shared.since(("0", 10, None))
        log.append("x")
        again = await shared.since(("0", 10, None))
        notifier._wake()
        return first.has_changes, again.has_changes, (await shared.since(("0", 10, None))).has_changes

    assert in_a_loop(run()) == (False, False, True)


def test_a_read_that_failed_is_tried_again():
    asked = []

    def read(*position):
        asked.append(position)
        if len(asked) == 1:
            raise OSError("no")
        return {"changes": [1], "cursor": "1"}

    async def run():
        shared = SharedChanges(Notifier(), read)
        with pytest.raises(OSError, match="no"):
            await shared.since(("0", 10, None))
        await asyncio.sleep(0)
        return (await shared.since(("0", 10, None))).cursor

    assert in_a_loop(run()) == "1"


@pytest.fixture(scope="module")
def page():
    show = LiveShow("one", history=History())
    give(show, 1, rows=500)
    with served(show) as asking:
        yield asking


@pytest.mark.parametrize(("accepted", "used"), [
    ("zstd, gzip", "zstd"), ("gzip", "gzip"), ("gzip, zstd;q=0", "gzip"), ("br", None), ("", None), ("gzip; q=0", None),
])  # fmt: skip
@pytest.mark.parametrize("path", ["window?query=q", "changes?since=CURSOR&wait=1"])
def test_a_body_is_compressed_as_the_client_asks(page, path, accepted, used):
    cursor = page.get("v1/changes")["cursor"].split("-")[0] + "-0"
    path = f"/api/v1/{path.replace('CURSOR', cursor)}"
    whole = page.raw("GET", path)[2]
    status, headers, body = page.raw("GET", path, Accept_Encoding=accepted)
    assert (status, headers.get("content-encoding")) == (200, used)
    assert "accept-encoding" in headers["vary"]
    if used is None:
        assert body == whole
    else:
        assert len(body) < len(whole)
        opened = (
            gzip.decompress(body) if used == "gzip" else pa.Codec("zstd").decompress(body, len(whole), asbytes=True)
        )
        assert opened == whole


def test_a_small_body_is_not_compressed(page):
    _, headers, _ = page.raw("GET", "/api/v1/windows?query=q", Accept_Encoding="gzip")
    assert "content-encoding" not in headers


def test_a_tag_changes_with_the_answers_only():
    show = LiveShow("tags", history=History())
    give(show, 1)
    with served(show) as asking:
        path = "/api/v1/window?query=q"
        tag = asking.raw("GET", path)[1]["etag"]
        for known in (tag, f'"other", {tag}', f"W/{tag}"):
            assert asking.raw("GET", path, If_None_Match=known)[::2] == (304, b"")
        give(show, 2)
        status, headers, body = asking.raw("GET", path, If_None_Match=tag)
        assert status == 200
        assert headers["etag"] != tag
        assert json.loads(body)["moment"] == "1970-01-01T00:02:00+00:00"


def test_the_cache_has_a_limit():
    cache = ResponseCache(most=100)
    for number in range(10):
        cache.put((str(number), ""), Entry(Content(b"x" * 30)))
    assert [number for number in range(10) if cache.get((str(number), ""), ()) is not None] == [7, 8, 9]


def test_two_hundred_readers_at_once():
    """Half of them wait, half of them read; none is turned away, and each that waits gets the new window."""
    show = LiveShow("crowd", history=History())
    give(show, 1)
    with PageServer(show, Address("127.0.0.1", 0), readers=220, share=2) as server:
        cursor = Asking(server).get("v1/changes")["cursor"]

        async def ask(path):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            found = await reader.read()
            writer.close()
            return found

        async def run():
            waiting = [asyncio.ensure_future(ask(f"/api/v1/changes?since={cursor}&wait=60")) for _ in range(100)]
            while server.listeners < 100:
                await asyncio.sleep(0.01)
            read = await asyncio.gather(*(ask("/api/v1/window?query=q") for _ in range(100)))
            give(show, 2)
            return read, await asyncio.gather(*waiting)

        read, waited = in_a_loop(run())
    assert all(one.startswith(b"HTTP/1.1 200") for one in (*read, *waited))
    assert all(b"1970-01-01T00:02:00" in one for one in waited)


def test_a_server_of_its_own_raises_the_limit_of_descriptors(monkeypatch):
    resource = pytest.importorskip("resource")
    limits = [1024, 5000]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(0, new[0]))
    assert most_connections(1000, share=2) == 512
    assert most_connections(1000, share=2, raise_limit=True) == 1000
    assert limits[0] == 2000
    assert most_connections(10_000, share=2, raise_limit=True) == 2500  # as far as the hard limit allows
