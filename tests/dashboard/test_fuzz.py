"""Random requests to every route of the page and of the read API: an answer or a reason, never an internal error."""

from __future__ import annotations

import http.client
import json
from contextlib import suppress
from random import Random
from urllib.parse import quote

import pytest

import skyband as sb
from skyband.dashboard.board_state import LiveShow
from tests.dashboard.asking import served
from tests.dashboard.serve import Pretended

PAGE = "state summaries board groups moments history engine plan explain add drop"
READ = "queries window windows groups answers rank ranks changes openapi.json"
ROUTES = [
    *["/", "/healthz", "/assets/x.js", "/nope", "/api", "/api/", "/api/v1", "/api/v1/", "//", "/api/../healthz"],
    *(f"/api/{name}" for name in PAGE.split()),
    *(f"/api/v1/{name}" for name in READ.split()),
]
NAMES = [
    "query",
    "group",
    "moment",
    "limit",
    "like",
    "last",
    "skip",
    "before",
    "from",
    "to",
    "stream",
    "watch",
    "id",
    "format",
    "wait",
    "cursor",
    "neighbours",
    "rank",
    "value",
    "after",
    "since",
    "until",
    "key",
    "token",
    "top",
    "max",
    "kind",
    "queries",
    "around",
    "of",
]
VALUES = [
    *["largest", "by symbol", "thousand", "busiest", "flows", "fast", "nope", "", "null", "[]", "{}", '["S001"]', "-1"],
    *["0", "1", "5", "1e3", "NaN", "inf", "²", "9" * 30, str(2**63), str(-(2**63)), "0" * 300, "%", "%00", "\x00"],
    *["2024-01-01T09:35:00+00:00", "2024-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "x" * 9000],
    *["[" * 500, '[["largest", null]]', '[["by symbol", ["S001"]]]', "json", "arrow", "csv", "parquet", "*", "a,b"],
    *["[null]", "[[]]", "[{}]", '["\\ud800"]', "true", "-0", "+5", "1.5", "'; DROP TABLE x", "../../etc/passwd", "("],
    *["[1e999]", "🚀", "\ud800", "\\"],
]
HEADERS = {
    "Accept": ["application/vnd.apache.arrow.stream", "text/csv", "*/*;q=0", "a/b;q=x", ",", "\xff", "text/html"],
    "Accept-Encoding": ["gzip", "gzip;q=0", "br", ",,,", "identity", "\xe9"],
    "If-None-Match": ["*", '"', 'W/"x"', "\xe9", "x" * 4000],
    "Host": ["evil.example", "127.0.0.1", "", "[::1", "a:b:c", "\xe9", "localhost:99999999"],
    "Origin": ["null", "http://evil.example", "http://", "://", "\xe9"],
    "Content-Type": ["application/json", "text/plain", "x", ""],
    "X-Skyband-Token": ["", "x", "\xe9"],
    "Authorization": ["Bearer x", "Bearer", "Basic \xff"],
    "Last-Event-ID": ["x", "-1", "9" * 40, "²"],
    "Content-Length": ["0", "5"],
    "Cookie": ["a=b", ";;;", "\xff"],
    "Range": ["bytes=0-1", "x"],
}
BODIES = [
    *[b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 3000, b"x" * 70_000, b"NaN", b'{"a": 1e999}'],
    *[
        b'{"sql": 5}',
        b'{"sql": ""}',
        b'{"name": null}',
        b'{"sql": "TOPK"}',
        b'{"name": {"a": 1}}',
        b'{"name": "\\ud800"}',
    ],
    *[b'{"sql": "TOPK price, 3 OVER 5 MINUTES", "stream": "trades"}', b'{"sql": "\\ud800"}'],
    *[b'{"name": "nope", "stream": "\\u0000"}', b'{"sql": "a: TOPK x, 1 OVER 1 MINUTE", "stream": []}'],
    b'{"sql": "((((", "stream": "nope"}',
]


class Control:
    """Refuses changes as a run does."""

    def explain(self, sql, stream):
        sb.sql(sql)
        return {"text": sql, "stream": stream}

    def add(self, sql, stream):
        sb.sql(sql)
        return f"added to {stream}"

    def drop(self, name):
        raise sb.UnknownNameError.among("query", name, ["largest"])


@pytest.fixture(scope="module", params=[False, True], ids=["read", "control"])
def page(tmp_path_factory, request):
    with Pretended(tmp_path_factory.mktemp("run"), many=5) as run:
        show = LiveShow("seeded", control=Control()) if request.param else LiveShow("seeded")
        show.begin(lambda: run.file, run.numbers)
        run.give(show.history, 4)
        with served(show) as asking:
            yield asking


def random_text(random):
    if random.random() < 0.8:
        return random.choice(VALUES)
    ranges = [128, 0xD800]
    return "".join(chr(random.randrange(random.choice(ranges))) for _ in range(random.randrange(20)))


def random_request(random, token):
    path = random.choice(ROUTES)
    if random.random() < 0.1:
        path += "/" + quote(random_text(random)[:50], safe="", errors="surrogatepass")
    names = random.sample(NAMES, random.randrange(4))
    if path.startswith("/api/") and random.random() < 0.8:
        names.append("query")
    if "changes" in path and "wait" in names:
        names.remove("wait")  # a valid one would wait
    pairs = []
    for name in names:
        value = random.choice(VALUES[:6]) if name == "query" and random.random() < 0.7 else random_text(random)
        safe = random.choice(["", "/:,[]"])
        pairs.append(f"{name}={quote(value, safe=safe, errors='surrogatepass')}")
    if pairs:
        path += "?" + "&".join(pairs)
    method = random.choice(["GET"] * 6 + ["POST"] * 3 + ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
    body = random.choice(BODIES) if method in ("POST", "PUT") else None
    headers = {}
    for name in random.sample(list(HEADERS), random.randrange(3)):
        headers[name] = random.choice(HEADERS[name])
    if method == "POST" and random.random() < 0.7:
        headers |= {"X-Skyband-Token": token, "Content-Type": "application/json"}
    if body is not None:
        headers.pop("Content-Length", None)
    return method, path[:60_000], body, headers


@pytest.mark.parametrize("seed", range(60))
def test_random_requests(page, seed):
    random = Random(seed)
    for _ in range(40):
        method, path, body, headers = random_request(random, page.token or "")
        connection = http.client.HTTPConnection("127.0.0.1", page.server.port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        assert response.status < 500, (method, path, body, headers, content[:300])
        if response.status >= 400 and method != "HEAD" and "json" in response.headers.get("content-type", ""):
            assert json.loads(content)["error"]


@pytest.mark.parametrize("seed", range(30))
def test_random_bytes_on_the_socket(page, seed):
    """What is no HTTP at all: the server goes on."""
    import socket

    random = Random(seed)
    begin = [
        *[b"", b"GET ", b"GET / HTTP/1.1\r\n", b"GET /%zz%00?\xff HTTP/1.1\r\n\r\n", b"\x16\x03\x01"],
        b"POST /api/add HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ]
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", page.server.port), timeout=60) as client, suppress(OSError):
            client.sendall(random.choice(begin) + random.randbytes(random.randrange(200)) + b"\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            found = client.recv(65536)
            assert b" 500 " not in found[:20]
    assert page.raw("GET", "/healthz")[0] == 200
