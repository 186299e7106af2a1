"""The OpenAPI document and the routes agree: every response that is described can be had, and no other one."""

from __future__ import annotations

import io
import json
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import Connections, Listening
from skyband.dashboard.openapi import ARROW, openapi
from skyband.dashboard.read_api import read_routes
from tests.dashboard.asking import TIMEOUT, served
from tests.dashboard.making import answers

NAMES = sorted(openapi()["paths"])
OPERATIONS = {path.rpartition("/")[2]: one["get"] for path, one in openapi()["paths"].items()}
GIVEN = {
    "queries": {},
    "changes": {},
    "events": {},
    "rank": {"query": "q", "id": "x"},
    "ranks": {"query": "q", "id": "x"},
}
LOST = "00000000-0"
FORMATS = {"json": "application/json", "arrow": ARROW, "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


@pytest.fixture(scope="module")
def show():
    found = LiveShow("shown")
    found.history.put(0, "s", answers([("q", "a", 1, [("x", 2.0), ("y", 1.0)]), ("q", "a", 2, [("y", 3.0)])]))
    found.end()  # so that streams of events end
    return found


@pytest.fixture(scope="module")
def page(show):
    with served(show) as asking:
        yield asking


def asked(page, name, params=None, **headers):
    """The status, the type and the content of a response."""
    given = {**GIVEN.get(name, {"query": "q"}), **(params or {})}
    query = "&".join(f"{key}={value}" for key, value in given.items() if value is not None)
    status, found, content = page.raw("GET", f"/api/v1/{name}?{query}", **headers)
    return str(status), found.get("content-type"), content, found


def wrong(name):
    """Parameters and headers for each status other than 200, and what has to fail for it."""
    cases = {"403": ({}, {"Sec_Fetch_Site": "cross-site"}), "421": ({}, {"Host": "other.example"})}
    names = {one["name"] for one in OPERATIONS[name]["parameters"]}
    if "query" in names:
        cases["404"] = ({"query": "nobody"}, {})
    if "since" in names:
        cases |= {"400": ({"since": "yesterday"}, {}), "410": ({"since": LOST}, {})}
    elif "query" in names:
        cases["400"] = ({"query": None}, {})
    return cases


def test_the_document_has_the_routes_of_the_server(show):
    routes = {route.path for route in read_routes(show, None)}
    assert {*NAMES, "/api/v1/openapi.json"} == routes


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_the_statuses_of_a_route(page, show, name, monkeypatch):
    described = OPERATIONS[name]["responses"]
    seen = {"503"}  # see below
    status, kind, _, headers = asked(page, name)
    assert status == "200"
    seen.add(status)
    assert kind.partition(";")[0] in {one.partition(";")[0] for one in described["200"]["content"]}
    again = asked(page, name, If_None_Match=headers.get("etag", '"other"'))
    assert again[0] == ("304" if "304" in described else "200")
    seen.add(again[0])
    for wanted, (params, given) in wrong(name).items():
        status, kind, content, _ = asked(page, name, params, **given)
        assert status == wanted
        seen.add(status)
        assert_is_error(kind, content)
    monkeypatch.setattr(show, "refresh", lambda: 1 // 0)
    monkeypatch.setattr(type(show.history), "settled", None)
    status, kind, content, _ = asked(page, name, {"limit": "7"})  # not in the cache
    assert status == "500"
    assert_is_error(kind, content)
    assert seen | {"500"} == set(described)


def test_no_room_for_readers(page, monkeypatch):
    """Waiting readers have a limit, and connections have one, for any route."""
    monkeypatch.setattr(page.server._notifier, "most", 0)
    cursor = page.get("v1/changes")["cursor"]
    for name, params in (("changes", {"since": cursor, "wait": "9"}), ("events", {})):
        status, kind, content, _ = asked(page, name, params)
        assert status == "503"
        assert_is_error(kind, content)
    with (
        Listening(socket.create_server(("127.0.0.1", 0)), Connections(0)) as listening,
        socket.create_connection(listening.getsockname(), TIMEOUT) as client,
    ):
        with pytest.raises(BlockingIOError):
            listening.accept()
        head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")
    fields = dict(line.split(": ") for line in head.decode().split("\r\n")[1:])
    assert head.startswith(b"HTTP/1.1 503 ")
    assert int(fields["Content-Length"]) == len(body)
    assert_is_error(fields["Content-Type"], body)


@pytest.mark.parametrize("given", FORMATS)
def test_the_types_of_answers(page, given):
    """Each type can be asked for, and has what the document says."""
    operation = OPERATIONS["answers"]
    (parameter,) = [one for one in operation["parameters"] if one["name"] == "format"]
    assert parameter["schema"]["enum"] == list(FORMATS)
    described = {kind.partition(";")[0]: kind for kind in operation["responses"]["200"]["content"]}
    assert set(described) == set(FORMATS.values())
    status, kind, content, _ = asked(page, "answers", {"format": given})
    assert (status, kind.partition(";")[0]) == ("200", FORMATS[given])
    assert kind == described[FORMATS[given]]
    if given == "json":
        example = operation["responses"]["200"]["content"][kind]["example"]
        assert set(json.loads(content)) == set(example)
    elif given == "arrow":
        assert pa.ipc.open_stream(content).read_all()["id"].to_pylist() == ["x", "y", "y"]
        assert asked(page, "answers", Accept=ARROW)[1] == ARROW
    elif given == "csv":
        assert content.decode().splitlines()[1].endswith('"x"')
    else:
        assert pq.read_table(io.BytesIO(content))["id"].to_pylist() == ["x", "y", "y"]


def test_examples_have_the_fields_of_responses(page):
    for name, operation in OPERATIONS.items():
        content = operation["responses"]["200"]["content"]
        if "application/json" not in content:
            continue
        found, example = json.loads(asked(page, name)[2]), content["application/json"]["example"]
        assert set(found) == set(example), name
        for key, value in example.items():
            if isinstance(value, list) and value and isinstance(value[0], dict) and found[key]:
                assert set(value[0]) <= {*found[key][0], "trade_id", "price"}, (name, key)


def assert_is_error(kind, content):
    assert kind.partition(";")[0] == "application/json"
    found = json.loads(content)
    assert list(found) == openapi()["components"]["schemas"]["Error"]["required"]
    assert isinstance(found["error"], str)
