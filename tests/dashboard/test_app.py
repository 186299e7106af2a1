"""Every route of the page, through a real socket."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import pytest

from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.engine_view import EngineView
from tests.dashboard.asking import served
from tests.dashboard.seeded import step
from tests.dashboard.serve import Pretended


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with Pretended(tmp_path_factory.mktemp("run"), many=30) as found:
        yield found


@pytest.fixture(scope="module")
def page(run):
    show = LiveShow("seeded")
    show.begin(lambda: run.file, run.numbers)
    run.give(show.history, 5)
    with served(show) as asking:
        yield asking


def rows_of(run, stream, number, query, symbol=None):
    rows = step(run.file, number)[stream].to_pylist()
    return [row for row in rows if row["query"] == query and symbol in (None, row.get("symbol"))]


def test_state(page):
    found = page.get("state")
    assert (found["title"], found["live"], found["ended"], found["control"]) == ("seeded", True, False, False)
    assert [one["name"] for one in found["streams"]] == ["trades", "many", "clients", "flows", "cars"]
    queries = {one["name"]: one for one in found["queries"]}
    assert len(queries) == 37
    assert queries["by symbol"] == {
        "name": "by symbol",
        "stream": "trades",
        "family": "topk",
        "k": 3,
        "window": "15 minutes, every 1 minute",
        "text": "'by symbol': TOPK price, 3 BY symbol OVER 15 MINUTES EVERY 1 MINUTE",
        "groups": ["symbol"],
        "by": "price",
        "axis": "time",
        "ascending": False,
        "columns": ["trade_id", "price", "note"],
        "label": None,
    }
    assert queries["busiest"]["text"].startswith("busiest: TOPK sum(bytes), ")
    assert queries["busiest"]["by"] == "sum of bytes"
    assert queries["fast"]["window"] == "20 minutes, at least every 2 minutes"


def test_summaries(page, run):
    found = page.get("summaries")
    assert len(found) == 37
    rows = rows_of(run, "trades", 5, "largest")
    assert found["largest"]["first"] == rows[0]["score"]
    assert found["largest"]["last"] == rows[-1]["score"]
    assert found["largest"]["trend"] == [rows_of(run, "trades", one, "largest")[-1]["score"] for one in range(1, 6)]
    assert (found["by symbol"]["groups"], found["by symbol"]["windows"]) == (300, 1500)


def test_boards_are_the_answers(page, run):
    for query, stream in (("largest", "trades"), ("thousand", "trades"), ("busiest", "clients"), ("fast", "cars")):
        found, rows = page.get("board", query=query), rows_of(run, stream, 5, query)
        assert [row["score"] for row in found["rows"]] == [row["score"] for row in rows]
        assert [row["rank"] for row in found["rows"]] == list(range(1, len(rows) + 1))
    row = rows_of(run, "trades", 5, "largest")[0]
    shown = page.get("board", query="largest")["rows"][0]
    assert shown["id"] == row["trade_id"]
    assert shown["details"] == {name: row[name] for name in ("symbol", "trade_id", "price", "note")}


def test_the_board_of_a_group_and_moment(page, run):
    moment = "2024-01-01T09:32:00+00:00"
    found = page.get("board", query="by symbol", group='["S007"]', moment=moment)
    assert (found["group"], found["moment"]) == (["S007"], moment)
    assert [row["id"] for row in found["rows"]] == [
        row["trade_id"] for row in rows_of(run, "trades", 2, "by symbol", "S007")
    ]
    assert found["previous"] == "2024-01-01T09:31:00+00:00"
    assert found["start"] == "2024-01-01T09:17:00+00:00"


def test_ids_that_no_double_holds(page):
    assert all(row["id"].startswith("11529215046068469") for row in page.get("board", query="fast")["rows"])


def test_hostile_text_is_text(page):
    ids = [row["id"] for row in page.get("board", query="flows")["rows"]]
    assert "<img src=x onerror=alert(1)>" in ids
    assert any("\u202e" in id_ for id_ in ids)


def test_groups_moments_and_history(page):
    found = page.get("groups", query="by symbol", like="s01", limit=4)
    assert found == {"total": 10, "groups": [["S010"], ["S011"], ["S012"], ["S013"]]}
    assert page.get("groups", query="largest")["total"] == 1
    moments = page.get("moments", query="largest")["moments"]
    assert moments[0] == "2024-01-01T09:31:00+00:00"
    assert len(moments) == 5
    found = page.get("history", query="largest", last=3)
    assert found["moments"] == moments[2:]
    newest = page.get("board", query="largest")
    assert [one["id"] for one in found["objects"]][:10] == [row["id"] for row in newest["rows"]]
    for one, row in zip(found["objects"], newest["rows"], strict=False):
        assert one["ranks"][-1] == row["rank"]
        assert one["ranks"][-2] == row["old_rank"]


def test_the_engine(page):
    page.server._engine.look()
    found = page.get("engine")
    trades = found["streams"]["trades"]
    assert (trades["rows"], trades["batches"], trades["bound"], trades["restarts"]) == (25_000, 5, 5000, 0)
    assert trades["views"] == 10 + 15 + 60
    assert found["streams"]["many"]["share_factor"] > 1
    assert found["streams"]["flows"]["lags"] == {"north": 0.0, "south": 5.0}
    assert set(found["trail"][-1]) == {"at", "trades", "many", "clients", "flows", "cars"}


def test_the_engine_shows_every_counter_of_rows_in_no_answer():
    """Of files that could not be read as well; the page shows those that a stream has."""
    kept = {"late": 1, "dropped_null": 2, "malformed": 3, "unreadable": 4}
    view = EngineView(SimpleNamespace(numbers=lambda: {"trades": kept}, workloads=dict))
    view.look()
    assert {name: view.now()["streams"]["trades"][name] for name in kept} == kept


def test_plans_of_views(page, run):
    found = page.get("plan", stream="trades")
    assert (found["unit"], found["family"], found["more"]) == ("seconds", "topk", 0)
    assert found["text"] == run.file.workloads["trades"].explain(on_spark=True)
    largest = [lane for lane in found["lanes"] if lane["queries"] == ["largest"]]
    assert [lane["begin"] for lane in largest] == [-60.0 * minute for minute in range(10, 0, -1)]
    assert all(lane["end"] - lane["begin"] == 600 for lane in largest)
    assert {lane["k"] for lane in found["lanes"]} == {3, 10, 1000}


def test_plans_of_schedules_and_of_neither(page):
    found = page.get("plan", stream="cars")
    # Every 2 minutes at least for 8 and every 3 for 4: one run for both, every 2 minutes.
    assert [(lane["begin"], lane["end"], lane["k"], lane["queries"]) for lane in found["lanes"]] == [
        (120.0, 240.0, 8, ["fast", "faster"])
    ]
    assert found["cost"] == pytest.approx(8 / 120)
    assert page.get("plan", stream="flows")["lanes"] == []
    assert "incomplete" in page.get("plan", stream="flows")["text"]


@pytest.mark.parametrize(
    ("path", "params", "status", "said"),
    [
        ("board", {"query": "nope"}, 404, "'nope'"),
        ("board", {}, 400, "query is missing"),
        ("board", {"query": "largest", "moment": "soon"}, 400, "'soon'"),
        ("board", {"query": "largest", "moment": "2031-01-01T00:00:00+00:00"}, 404, "not found in the history"),
        ("board", {"query": "largest", "moment": "9" * 40}, 400, "'999"),
        ("board", {"query": "largest", "moment": "0" * 40 + "5"}, 400, "'000"),
        ("board", {"query": "largest", "moment": str(2**63)}, 400, "moment must be a time"),
        ("board", {"query": "largest", "moment": "²"}, 400, "'²'"),
        ("board", {"query": "largest", "moment": "٣"}, 400, "moment must be a time"),
        ("board", {"query": "largest", "moment": "--5"}, 400, "moment must be a time"),
        ("board", {"query": "largest", "moment": "5"}, 404, "not found in the history"),
        ("board", {"query": "by symbol", "group": '["nope"]'}, 404, "nope"),
        ("board", {"query": "by symbol", "group": "S001"}, 400, "list of values"),
        ("board", {"query": "by symbol", "group": "[" * 900 + "]" * 900}, 400, "list of values"),
        ("board", {"query": "by symbol", "group": f"[{'9' * 5_000}]"}, 400, "list of values"),
        ("board", {"query": "by symbol", "group": "[1e400]"}, 404, "Infinity"),
        ("board", {"query": "by symbol", "group": "[" * 100_000}, 400, ""),
        ("history", {"query": "largest", "last": "0"}, 400, "between 1 and 2,000"),
        ("groups", {"query": "largest", "limit": "many"}, 400, "'many'"),
        ("groups", {"query": "largest", "limit": "000000000001999999"}, 400, "between 1 and 10,000"),
        ("groups", {"query": "largest", "limit": "0000010001"}, 400, "between 1 and 10,000"),
        ("groups", {"query": "largest", "limit": "²"}, 400, "'²'"),
        ("groups", {"query": "largest", "limit": "٣"}, 400, "between 1 and 10,000"),
        ("groups", {"query": "largest", "limit": "-1"}, 400, "between 1 and 10,000"),
        ("groups", {"query": "largest", "limit": "1e3"}, 400, "between 1 and 10,000"),
        ("groups", {"query": "largest", "limit": " 5"}, 400, "between 1 and 10,000"),
        ("groups", {"query": "largest", "limit": ""}, 400, "between 1 and 10,000"),
        ("history", {"query": "largest", "last": "9" * 5_000}, 400, "between 1 and 2,000"),
        ("history", {"query": "largest", "last": "²"}, 400, "'²'"),
        ("moments", {"query": "nope"}, 404, "nope"),
        ("plan", {"stream": "nope"}, 404, "nope"),
        ("events", {"watch": "{"}, 400, "watch"),
        ("events", {"watch": '{"ab": 1}'}, 400, "watch"),
        ("events", {"watch": "[[1, null]]"}, 400, "watch"),
        ("events", {"watch": '[["q", "ab"]]'}, 400, "watch"),
        ("events", {"watch": json.dumps([["q", None]] * 201)}, 400, "200"),
    ],
)
def test_what_cannot_be_answered_is_said(page, path, params, status, said):
    if len(str(params)) > 60_000:
        got, _, _ = page.raw("GET", f"/api/{path}?query=by+symbol&group={params['group']}")
        assert got >= 400
        return
    got, found = page.status(path, **params)
    assert got == status
    assert said in found["error"]


def test_the_page_and_its_files(page):
    status, headers, content = page.raw("GET", "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<html" in content
    assert page.raw("GET", "/", If_None_Match=headers["etag"])[0] == 304
    status, headers, packed = page.raw("GET", "/", Accept_Encoding="gzip")
    if "content-encoding" in headers:
        assert gzip.decompress(packed) == content
    assert page.raw("GET", "/healthz")[2] == b"ok\n"
    for path in ("/assets/nope.js", "/assets/../server.py", "/assets/%2e%2e/server.py", "/assets//etc/passwd", "/nope"):
        assert page.raw("GET", path)[0] == 404


def test_routes_take_the_methods_they_are_for(page):
    assert page.raw("GET", "/api/add")[0] == 405
    assert page.raw("PUT", "/api/state")[0] == 403
