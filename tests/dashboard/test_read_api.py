"""The read API through a real socket, and its client: what programs read is what the answers are."""

from __future__ import annotations

import gzip
import io
import json
import threading

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.client import Client
from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.change_log import ChangeLog, LostCursorError, NewWindow
from skyband.dashboard.history import History
from skyband.dashboard.openapi import ARROW, openapi
from skyband.dashboard.server import token_of
from tests.dashboard.asking import served
from tests.dashboard.making import MINUTE
from tests.dashboard.seeded import step
from tests.dashboard.serve import Pretended

NEWEST = "2024-01-01T09:35:00+00:00"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with Pretended(tmp_path_factory.mktemp("run"), many=3) as found:
        yield found


@pytest.fixture(scope="module")
def page(run):
    show = LiveShow("seeded")
    show.begin(lambda: run.file, run.numbers)
    run.give(show.history, 5)
    with served(show) as asking:
        yield asking


@pytest.fixture(scope="module")
def client(page):
    return Client(f"http://127.0.0.1:{page.server.port}")


def rows_of(run, stream, number, query, symbol=None):
    rows = step(run.file, number)[stream].to_pylist()
    return [row for row in rows if row["query"] == query and symbol in (None, row.get("symbol"))]


def test_queries(client):
    found = {one["name"]: one for one in client.queries()}
    assert found["by symbol"]["groups"] == ["symbol"]
    assert found["by symbol"]["newest"] == NEWEST
    assert found["largest"]["columns"] == ["symbol", "trade_id", "price", "note"]


def test_the_newest_and_an_older_window(client, run):
    for moment, number in ((None, 5), ("2024-01-01T09:32:00+00:00", 2)):
        found = client.window("largest", moment=moment)
        rows = rows_of(run, "trades", number, "largest")
        assert found["is_newest"] == (number == 5)
        assert [one["trade_id"] for one in found["rows"]] == [row["trade_id"] for row in rows]
        names = ("rank", "score", "symbol", "price", "note")
        assert [{name: one[name] for name in names} for one in found["rows"]] == [
            {name: row[name] for name in names} for row in rows
        ]


def test_a_group(client, run):
    found = client.window("by symbol", group=["S007"])
    assert (found["group"], found["moment"]) == (["S007"], NEWEST)
    assert [row["trade_id"] for row in found["rows"]] == [
        row["trade_id"] for row in rows_of(run, "trades", 5, "by symbol", "S007")
    ]
    assert "symbol" not in found["rows"][0]


def test_pages_of_groups_and_windows(client, page):
    assert len(list(client.groups("by symbol"))) == 300
    assert sorted(client.groups("by symbol", like="s01")) == [[f"S01{place}"] for place in range(10)]
    first = page.get("v1/groups", query="by symbol", limit=120)
    assert (first["total"], first["next"], len(first["groups"])) == (300, 120, 120)
    assert page.get("v1/groups", query="by symbol", limit=120, skip=240)["next"] is None
    moments = [one["moment"] for one in client.windows("largest")]
    assert moments == [f"2024-01-01T09:3{minute}:00+00:00" for minute in (5, 4, 3, 2, 1)]
    two = page.get("v1/windows", query="largest", limit=2)
    assert (two["total"], two["next"]) == (5, moments[1])
    rest = page.get("v1/windows", query="largest", before=two["next"])
    assert ([one["moment"] for one in rest["windows"]], rest["next"]) == (moments[2:], None)


def test_rows_in_bulk_equal_the_answers(client, page, run):
    every = client.answers("largest")
    wanted = [row for number in range(1, 6) for row in rows_of(run, "trades", number, "largest")]
    assert every.to_pylist() == wanted
    some = client.answers("largest", start="2024-01-01T09:32:00+00:00", end="2024-01-01T09:33:00+00:00")
    assert some.to_pylist() == [row for number in (2, 3) for row in rows_of(run, "trades", number, "largest")]
    assert client.answers("largest", start="2030-01-01T00:00:00+00:00").num_rows == 0
    found = page.get("v1/answers", query="largest", limit=2)
    assert found["next"] == "2024-01-01T09:33:00+00:00"
    assert [row[found["columns"].index("score")] for row in found["rows"]] == [row["score"] for row in wanted][
        : len(found["rows"])
    ]
    _, headers, content = page.raw("GET", "/api/v1/answers?query=largest&limit=2", Accept=ARROW)
    assert headers["content-type"] == ARROW
    assert pa.ipc.open_stream(io.BytesIO(content)).schema.metadata == {
        b"next": b"2024-01-01T09:33:00+00:00",
        b"dropped": b"0",
    }


def test_the_rank_of_an_entity(client, run):
    rows = rows_of(run, "trades", 5, "largest")
    for place, row in enumerate(rows):
        found = client.rank("largest", row["trade_id"], neighbours=1)
        assert (found["rank"], found["row"]["score"], found["of"]) == (row["rank"], row["score"], len(rows))
        beside = [rows[at]["trade_id"] for at in (place - 1, place + 1) if 0 <= at < len(rows)]
        assert [one["trade_id"] for one in found["neighbours"]] == beside
    nobody = client.rank("largest", "nobody")
    assert (nobody["rank"], nobody["row"], nobody["neighbours"]) == (None, None, [])
    assert nobody["last"]["score"] == rows[-1]["score"]


def test_ids_that_no_double_holds_are_found(client):
    row = client.window("fast")["rows"][0]
    found = client.rank("fast", next(value for value in row.values() if str(value).startswith("11529215046068469")))
    assert found["rank"] == row["rank"]


def test_ranks_over_time(client, run):
    row = rows_of(run, "trades", 5, "largest")[0]
    found = client.ranks("largest", row["trade_id"], last=4)
    wanted = []
    for number in range(2, 6):
        mine = [one for one in rows_of(run, "trades", number, "largest") if one["trade_id"] == row["trade_id"]]
        wanted.append((mine[0]["rank"], mine[0]["score"]) if mine else (None, None))
    assert [(one["rank"], one["score"]) for one in found] == wanted


def test_tags_and_compression(page):
    path = "/api/v1/window?query=thousand"
    status, headers, content = page.raw("GET", path)
    assert (status, headers["cache-control"]) == (200, "no-cache")
    assert page.raw("GET", path, If_None_Match=headers["etag"])[::2] == (304, b"")
    _, compressed, small = page.raw("GET", path, Accept_Encoding="gzip")
    assert compressed["content-encoding"] == "gzip"
    assert gzip.decompress(small) == content
    assert len(small) < len(content)


@pytest.mark.parametrize(("path", "params", "status", "why"), [
    ("window", {}, 400, "the parameter query is missing"),
    ("window", {"query": "nobody"}, 404, "no query 'nobody' found. /api/v1/queries lists"),
    ("window", {"query": "largest", "moment": "1970-01-01"}, 404, "no window at 1970-01-01T00:00:00+00:00"),
    ("window", {"query": "by symbol", "group": '["none"]'}, 404, 'no answers of the group ["none"]'),
    ("window", {"query": "by symbol", "group": "S001"}, 400, "group must be a JSON list"),
    ("rank", {"query": "largest"}, 400, "the parameter id is missing"),
    ("rank", {"query": "largest", "id": "x", "neighbours": "1000"}, 400, "neighbours must be an integer between 0"),
    ("windows", {"query": "largest", "limit": "0"}, 400, "limit must be an integer between 1 and 1,000, got '0'"),
    ("answers", {"query": "largest", "from": "soon"}, 400, "from must be a time such as"),
    ("changes", {"since": "yesterday"}, 400, "since must be a cursor"),
    ("changes", {"since": "00000000-0"}, 410, "no longer known"),
    ("changes", {"query": "nobody"}, 404, "no query 'nobody'"),
])  # fmt: skip
def test_wrong_requests(page, path, params, status, why):
    found, content = page.status(f"v1/{path}", **params)
    assert found == status
    assert why in content["error"]


def test_the_document_describes_every_route(page):
    found = page.get("v1/openapi.json")
    assert found == json.loads(json.dumps(openapi()))
    for path, one in found["paths"].items():
        asked = {
            parameter["name"]: parameter["example"] for parameter in one["get"]["parameters"] if parameter["required"]
        }
        if "query" in asked:
            asked["query"] = "largest"
        if path.endswith("/events"):
            continue  # it does not end
        got = page.get(path.removeprefix("/api/"), **asked)
        example = one["get"]["responses"]["200"]["content"]["application/json"]["example"]
        assert set(got) == set(example), path


def test_following_changes(run, tmp_path):
    with Pretended(tmp_path, many=2) as mine:
        show = LiveShow("seeded")
        show.begin(lambda: mine.file, mine.numbers)
        mine.give(show.history)
        with served(show) as asking:
            client = Client(f"http://127.0.0.1:{asking.server.port}")
            cursor = asking.get("v1/changes")["cursor"]
            seen = []

            def follow():
                seen.extend(client.follow("largest", since=cursor))

            reader = threading.Thread(target=follow)
            reader.start()
            mine.give(show.history, 3)
            while len(seen) < 3:
                threading.Event().wait(0.01)
            show.end()
            reader.join(60)
            assert not reader.is_alive()
            assert [one["moment"] for one in seen] == [f"2024-01-01T09:3{minute}:00+00:00" for minute in (2, 3, 4)]
            for place, one in enumerate(seen, 2):
                rows = rows_of(mine, "trades", place, "largest")
                assert [row["trade_id"] for row in one["rows"]] == [row["trade_id"] for row in rows]
            # The same as events; the run has ended, so they end as well.
            _, headers, content = asking.raw("GET", f"/api/v1/events?query=largest&since={cursor}")
            assert headers["content-type"].startswith("text/event-stream")
            told = [part.split("\n") for part in content.decode().strip().split("\n\n")]
            assert [lines[-2] for lines in told[1:]] == ["event: window"] * 3 + ["event: end"]
            windows = [json.loads(lines[-1].removeprefix("data: ")) for lines in told[1:-1]]
            assert [one | {"is_newest": None} for one in windows] == [one | {"is_newest": None} for one in seen]
            last = next(line for lines in told for line in lines if line.startswith("id: "))
            again = asking.raw("GET", "/api/v1/events?query=largest", Last_Event_ID=last.removeprefix("id: "))[2]
            assert b"event: window" not in again


def test_a_waiting_reader_gets_what_comes():
    show = LiveShow("waiting", history=History())
    with served(show) as asking:
        cursor = asking.get("v1/changes")["cursor"]
        assert asking.get("v1/changes", since=cursor, wait=1)["changes"] == []
        found = []
        reader = threading.Thread(target=lambda: found.append(asking.get("v1/changes", since=cursor, wait=60)))
        reader.start()
        while not asking.server.listeners:
            threading.Event().wait(0.01)
        rows = pa.table(
            {
                "query": ["q"],
                "window_end": pa.array([MINUTE], pa.timestamp("us", "UTC")),
                "rank": pa.array([1], pa.int32()),
                "score": [2.5],
            }
        )
        show.history.outlet("s").take(0, rows)
        reader.join(60)
        assert [one["rows"] for one in found[0]["changes"]] == [[{"rank": 1, "score": 2.5}]]


def test_a_log_that_is_full_loses_its_oldest_changes():
    log = ChangeLog(most=3)
    start = log.cursor
    for moment in range(3):
        log.note(NewWindow("q", "[]", moment))
    found, middle = log.since(start, 2)
    assert [one.moment for one in found] == [0, 1]
    log.note(NewWindow("q", "[]", 2))
    assert [one.moment for one in log.since(middle)[0]] == [2]  # twice the same window is once
    assert log.since(log.cursor) == ([], log.cursor)
    with pytest.raises(LostCursorError):
        log.since(start)


def test_errors_of_the_client(client):
    with pytest.raises(sb.UnknownNameError, match="no query 'nobody'"):
        client.window("nobody")
    with pytest.raises(sb.InvalidInputError, match="last must be an integer"):
        client.ranks("largest", "x", last=0)
    with pytest.raises(sb.PipelineError, match="no longer known"):
        next(client.follow(since="00000000-0"))
    with pytest.raises(sb.PipelineError, match=r"cannot reach http://127\.0\.0\.1:1 \("):
        Client("http://127.0.0.1:1").queries()
    with pytest.raises(sb.InvalidInputError, match="must start with http"):
        Client("file:///etc/passwd")


def test_a_token_that_programs_know(monkeypatch):
    monkeypatch.setenv("SKYBAND_TOKEN", "a-token-of-some-length")
    show = LiveShow("guarded")
    with served(show, host="0.0.0.0") as asking:
        url = f"http://127.0.0.1:{asking.server.port}"
        with pytest.raises(sb.PipelineError, match="the token is missing or wrong"):
            Client(url).queries()
        assert Client(url, "a-token-of-some-length").queries() == []
        assert Client(asking.server.url.replace(asking.server.url.split("/")[2], url.split("/")[2])).queries() == []
    with pytest.raises(sb.InvalidInputError, match="SKYBAND_TOKEN must have at least 16"):
        token_of({"SKYBAND_TOKEN": "short"})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_window_as_a_file(page, run, kind):
    moment = "2024-01-01T09:32:00%2B00:00"
    url = f"/api/v1/answers?query=largest&from={moment}&to={moment}&format={kind}"
    status, headers, content = page.raw("GET", url)
    assert status == 200
    assert headers["content-disposition"] == f'attachment; filename="answers.{kind}"'
    table = pcsv.read_csv(io.BytesIO(content)) if kind == "csv" else pq.read_table(io.BytesIO(content))
    rows = rows_of(run, "trades", 2, "largest")
    assert table["trade_id"].to_pylist() == [row["trade_id"] for row in rows]
    assert table["score"].to_pylist() == [row["score"] for row in rows]
    assert page.status("v1/answers", query="largest", format="xls")[0] == 400
