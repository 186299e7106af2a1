"""What is sent to who listens: only changes, the newest of them to who is slow, and the end."""

from __future__ import annotations

import socket
import threading

import pyarrow as pa
import pytest

from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.engine_view import EngineView
from skyband.dashboard.events import Listener
from skyband.dashboard.query_info import QueryInfo
from tests.dashboard.asking import Asking, served
from tests.dashboard.making import answers, grouped
from tests.dashboard.serve import Pretended


@pytest.fixture
def show():
    found = LiveShow("few")
    asked = {"a": QueryInfo("a", "s", "topk"), "b": QueryInfo("b", "s", "topk"), "g": grouped("g")}
    found.history.set_queries(asked)
    found._queries = asked
    return found


def give(show, batch, *windows, groups=False):
    show.history.outlet("s").take(batch, answers(windows, groups=groups))


def kinds(events):
    """The kinds of events in a piece of the stream, and their contents."""
    found = []
    for event in events.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in event.splitlines())
        if lines:
            found.append(lines["event"])
    return found


def test_only_what_changed_is_told(show):
    give(show, 0, ("a", None, 1, [(1, 1.0)]), ("b", None, 1, [(1, 1.0)]))
    listener = Listener(show, EngineView(show), [("a", None)])
    first = listener.news()
    assert kinds(first)[-2:] == ["board", "summary"]
    assert b'"b":{' in first
    assert listener.news() == b""
    give(show, 1, ("b", None, 2, [(1, 1.0)]))
    then = listener.news()
    assert kinds(then) == ["summary"]
    assert b'"a":{' not in then
    give(show, 2, ("a", None, 2, [(1, 1.0)]))
    assert kinds(listener.news()) == ["board", "summary"]


def test_a_listener_that_was_away_is_told_the_newest_once(show):
    listener = Listener(show, EngineView(show), [("a", None)])
    listener.news()
    for minute in range(1, 500):
        give(show, minute, ("a", None, minute, [(minute, 1.0)]))
    told = listener.news()
    assert kinds(told).count("board") == 1
    assert b'"id":498,"old_rank"' in told or b'"id":499' in told
    assert len(told) < 5_000


def test_a_batch_that_is_run_again_is_no_new_window(show):
    listener = Listener(show, EngineView(show), [("a", None)])
    give(show, 0, ("a", None, 1, [(1, 1.0)]))
    listener.news()
    give(show, 0, ("a", None, 1, [(1, 1.0)]))
    assert "board" not in kinds(listener.news())
    give(show, 0, ("a", None, 1, [(2, 1.0)]))  # it says something else: that must be seen
    assert b'"id":2' in listener.news()


def test_boards_of_groups(show):
    listener = Listener(show, EngineView(show), [("g", '["x"]'), ("g", '["y"]')])
    give(show, 0, ("g", "x", 1, [(1, 1.0)]), groups=True)
    assert kinds(listener.news()).count("board") == 1
    give(show, 1, ("g", "y", 1, [(1, 1.0)]), groups=True)
    assert kinds(listener.news()).count("board") == 1


def test_the_end_is_told_once(show):
    listener = Listener(show, EngineView(show), [])
    listener.news()
    show.end()
    assert kinds(listener.news()) == ["end"]
    assert listener.news() == b""


def test_events_arrive_as_answers_are_written(show):
    with served(show) as page, page.events([["a", None]]) as events:
        assert (events.status, events.type) == (200, "text/event-stream; charset=utf-8")
        assert set(events.until("engine")) == {"streams"}
        for minute in (1, 2, 3):
            give(show, minute, ("a", None, minute, [(minute, 1.0)]))
            board = events.until("board", lambda board, minute=minute: board["rows"][0]["id"] == minute)
            assert board["moment"] == f"1970-01-01T00:0{minute}:00+00:00"
        show.end()
        assert events.until("end") == {}


def test_ids_count_up(show):
    with served(show) as page, page.events() as events:
        assert [number for _, (_, _, number) in zip(range(3), events, strict=False)] == [1, 2, 3]


def test_a_changed_workload_is_told(tmp_path):
    with Pretended(tmp_path, many=3) as run:
        show = LiveShow("run")
        show.begin(lambda: run.file, run.numbers)
        with served(show) as page, page.events() as events:
            run._done({"kind": "drop", "name": "thousand"})
            run.give(show.history)
            state = events.until("state", lambda state: "thousand" not in [one["name"] for one in state["queries"]])
            assert "largest" in [one["name"] for one in state["queries"]]


def test_who_does_not_read_holds_up_nobody(show):
    """A client that never reads fills its own connection; answers are taken and others are told as ever."""
    wide = "x" * 4_000
    with served(show) as page:
        stuck = socket.create_connection(("127.0.0.1", page.server.port))
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.sendall(b"GET /api/events?watch=%5B%5B%22a%22,null%5D%5D HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with page.events([["a", None]]) as events:
            for minute in range(1, 60):
                rows = answers([("a", None, minute, [(place, 1.0) for place in range(200)])])
                rows = rows.append_column("wide", pa.array([wide] * 200))
                show.history.outlet("s").take(minute, rows)
                if minute % 10 == 0:
                    wanted = f"1970-01-01T00:{minute:02}:00+00:00"
                    assert events.until("board", lambda board, wanted=wanted: board["moment"] == wanted)
        stuck.close()


def test_a_server_that_was_started_again_goes_on(show):
    """As after a crash: another server, the same answers; who listened asks anew."""
    give(show, 0, ("a", None, 1, [(1, 1.0)]))
    with served(show) as page, page.events([["a", None]]) as events:
        events.until("board")
    again = LiveShow("few")
    again.history.set_queries(show.queries())
    with served(again) as page:
        assert page.status("board", query="a")[0] == 404
        again.history.outlet("s").take(0, answers([("a", None, 1, [(1, 1.0)])]))
        with page.events([["a", None]]) as events:
            assert events.until("board")["rows"][0]["id"] == 1


def test_closing_lets_all_listeners_go(show):
    done = threading.Event()
    with served(show) as page:

        def listen(page: Asking = page) -> None:
            with page.events() as events:
                for kind, _, _ in events:
                    if kind == "engine":
                        started.set()
            done.set()

        started = threading.Event()
        threading.Thread(target=listen, daemon=True).start()
        assert started.wait(300)
    assert done.wait(300)
