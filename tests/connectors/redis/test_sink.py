"""The sink by itself: what it makes of a batch, of an older one, of the same one again, and of servers of all kinds."""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time

import pyarrow as pa
import pytest
import redis

import skyband as sb
from skyband.connectors.redis_writer import SortedSets
from tests.connectors.postgres.test_sink import HOSTILE, answers, at
from tests.servers import PASSWORD, free_port

QUERIES = [
    sb.TopK(name="all", k=3, size="10 seconds", by="s"),
    sb.TopK(name="each", k=3, size="10 seconds", by="s", partition_by="g", order="asc"),
]
BATCH = answers(
    [
        ("all", "b", 5, 1, 1, math.inf),
        ("all", "a", 5, 2, 2, 7.5),
        ("all", "a", 10, 1, 3, 0.1),
        ("all", "b", 10, 2, 4, -math.inf),
        ("each", "a", 5, 1, 2, -1.0),
        ("each", "a", 5, 2, 9, 4.0),
        ("each", None, 10, 1, 3, 4.0),
        ("each", None, 10, 1, 4, 4.0),
    ]
)


@pytest.fixture
def sink(server):
    made = []

    def making(queries=QUERIES, **more):
        made.append(SortedSets(queries, **{"url": server.url(), "retry": 300, **more}))
        return made[-1]

    yield making
    for one in made:
        one.close()


def ids(client, key, **more):
    return [json.loads(member)["id"] for member in client.zrange(key, 0, -1, **more)]


def test_the_newest_answer_of_each_query_and_group(sink, client):
    one = sink()
    for number in (0, 0, 1):
        one.take(number, BATCH)
    assert sorted(client.keys()) == sorted(
        [
            "skyband:all",
            "skyband:all:about",
            "skyband:each:about",
            'skyband:each:["a"]',
            'skyband:each:["a"]:about',
            "skyband:each:[null]",
            "skyband:each:[null]:about",
        ]
    )
    assert ids(client, "skyband:all", desc=True) == [3, 4]
    assert ids(client, 'skyband:each:["a"]') == [2, 9]
    assert sorted(ids(client, "skyband:each:[null]")) == [3, 4]
    assert [score for _, score in client.zrange("skyband:all", 0, -1, withscores=True)] == [-math.inf, 0.1]
    assert client.hgetall("skyband:all:about") == {
        "query": "all",
        "order": "desc",
        "end": "10000000",
        "window_end": "1970-01-01T00:00:10Z",
        "group": "[]",
        "rows": "2",
    }
    assert client.hgetall('skyband:each:["a"]:about')["end"] == "5000000"
    assert client.hgetall("skyband:each:about")["end"] == "10000000", "the newest of all groups"
    assert client.hget('skyband:each:["a"]:about', "order") == "asc"


def test_an_older_answer_never_replaces_a_newer_one(sink, client):
    one = sink()
    one.take(1, answers([("all", "a", 10, 1, 7, 1.0), ("each", "a", 10, 1, 7, 1.0)]))
    one.take(0, answers([("all", "a", 5, 1, 6, 1.0), ("each", "a", 5, 1, 6, 1.0), ("each", "b", 5, 1, 5, 1.0)]))
    assert ids(client, "skyband:all") == [7]
    assert ids(client, 'skyband:each:["a"]') == [7]
    assert ids(client, 'skyband:each:["b"]') == [5]
    assert client.hget("skyband:each:about", "end") == "10000000"
    one.take(2, answers([("all", "a", 10, 1, 8, 1.0)]))
    assert ids(client, "skyband:all") == [8], "the same window again replaces its answer as a whole"


def test_members_of_a_column_by_rank_for_a_while(sink, client):
    one = sink(prefix="a:b", member="ID", by_rank=True, expire=100)
    rows = answers([("all", "x", 5, rank, id_, 9.0 - rank) for rank, id_ in enumerate([30, 10, 30, 20], 1)])
    one.take(0, rows)
    assert client.zrange("a:b:all", 0, -1, withscores=True) == [("30", 1.0), ("10", 2.0), ("20", 4.0)]
    assert client.hget("a:b:all:about", "rows") == "3"
    assert 0 < client.pttl("a:b:all") <= 100_000
    assert 0 < client.pttl("a:b:all:about") <= 100_000


def test_members_are_the_whole_row_and_equal_rows_stay_apart(sink, client):
    rows = answers([("all", "x", 5, 1, 7, 2.0)] * 2, at=pa.array([at(1)] * 2), tags=pa.array([["a"], ["a"]]))
    sink().take(0, rows)
    members = [json.loads(member) for member in client.zrange("skyband:all", 0, -1)]
    assert sorted(member["answer_place"] for member in members) == [1, 2]
    assert members[0] | {"answer_place": 0} == {
        "query": "all",
        "g": "x",
        "window_end": "1970-01-01T00:00:05Z",
        "rank": 1,
        "id": 7,
        "score": 2.0,
        "at": "1970-01-01T00:00:01Z",
        "tags": ["a"],
        "answer_place": 0,
    }


@pytest.mark.parametrize("name", [*HOSTILE, "a:b", "a%3Ab", "*", "[a]", "a\r\nFLUSHALL\r\n", "about"])
def test_names_are_names(sink, client, name):
    client.set("other", "1")
    one = sink([sb.TopK(name=name, k=1, size=10), sb.TopK(name="each", k=1, size=10, partition_by="g")])
    one.take(0, answers([(name, name, 5, 1, 1, 1.0), ("each", name, 5, 1, 2, 1.0)]))
    key = f"skyband:{name.replace('%', '%25').replace(':', '%3A')}"
    assert ids(client, key) == [1]
    assert ids(client, f"skyband:each:{json.dumps([name], ensure_ascii=False)}") == [2]
    assert one.holds_rows()
    one.clear()
    assert client.keys() == ["other"]
    assert not one.holds_rows()


def test_only_the_keys_of_these_queries_are_removed(sink, client):
    sink(prefix="p*").take(0, BATCH)
    sink(prefix="pq").take(0, BATCH)
    before = len(client.keys())
    sink([QUERIES[1]], prefix="p*").clear()
    assert len(client.keys()) == before - 5
    assert client.exists("p*:all", 'pq:each:["a"]') == 2


def test_many_groups(sink, client):
    rows = answers([("each", f"g{number}", 5, 1, number, 1.0) for number in range(1700)])
    one = sink()
    one.take(0, rows)
    assert ids(client, 'skyband:each:["g1699"]') == [1699]
    assert len(client.keys()) == 2 * 1700 + 1
    one.clear()
    assert client.keys() == []


def test_a_column_that_is_not_there(sink):
    with pytest.raises(sb.InvalidInputError, match="member: 'nam' is not a column of the answers in keys skyband:…"):
        sink(member="nam").prepare(BATCH)


def test_what_is_wrong_at_the_door_is_said_without_the_secret(sink, server):
    wrong = "wr0ng-secret"
    cases = {
        "invalid username-password pair": {"url": server.url(wrong)},
        "Authentication required": {"url": server.url(None)},
        "Connection refused": {"url": f"redis://:{wrong}@127.0.0.1:{free_port()}/0"},
        "certificate verify failed": {"url": server.url(tls=True)},
        "unexpected keyword argument 'sll'": {"options": {"sll": True}},
        "could not be cast to integer": {"url": f"redis://:{wrong}@127.0.0.1:x/0"},
    }
    for says, given in cases.items():
        with pytest.raises(sb.InvalidInputError) as caught:
            sink(**given).reach()
        said = str(caught.value)
        assert says in said
        assert not any(secret in said for secret in (PASSWORD, wrong))
        assert caught.value.__suppress_context__


def test_a_password_from_the_environment_and_tls(sink, server, client, monkeypatch):
    monkeypatch.setenv("REDISCLI_AUTH", PASSWORD)
    url = server.url(None, tls=True)
    sink(url=url, options={"ssl_ca_certs": str(server.certificate)}).take(0, BATCH)
    assert client.exists("skyband:all")
    monkeypatch.delenv("REDISCLI_AUTH")
    options = {"ssl_ca_certs": str(server.certificate), "password": PASSWORD}
    sink(url=url, options=options).reach()


def test_without_the_client_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "skyband.connectors.redis_writer")
    with pytest.raises(sb.MissingDependencyError, match=r"pip install 'skyband\[redis\]'"):
        import skyband.connectors.redis_writer  # noqa: F401


def test_a_server_that_restarts(sink, server, caplog):
    one = sink()
    one.take(0, BATCH)
    server.crash()
    back = threading.Timer(0.7, server.start)
    back.start()
    with caplog.at_level(logging.WARNING):
        one.take(1, answers([("all", "a", 50, 1, 5, 1.0)]))
    back.join()
    with server.connect() as client:
        assert ids(client, "skyband:all") == [5]
        assert client.exists('skyband:each:["a"]')
    assert "retrying for 300 seconds" in caplog.text
    assert PASSWORD not in caplog.text


def test_it_gives_up_and_says_that_nothing_is_lost(sink, server):
    one = sink(retry=1)
    one.take(0, BATCH)
    server.stop()
    try:
        with pytest.raises(sb.PipelineError, match=r"no answers are lost\. Fix the problem and run it again") as caught:
            one.take(1, BATCH)
    finally:
        server.start()
    assert PASSWORD not in str(caught.value)


def test_what_will_not_pass_is_not_waited_for(sink, server, client):
    client.execute_command("ACL SETUSER guest on >guest ~other:* +@all")
    one = sink(url=f"redis://guest:guest@127.0.0.1:{server.port}/0", retry=600)
    began = time.monotonic()
    with pytest.raises(sb.PipelineError, match="no permissions to access one of the keys"):
        one.take(0, BATCH)
    assert time.monotonic() - began < 300


def test_who_writes_in_between_is_seen(sink, client, monkeypatch):
    """Between looking and writing somebody else brings a newer answer: ours stays behind it."""
    one = sink()
    execute = redis.client.Pipeline.execute
    came = []

    def slowly(self, *more):
        found = execute(self, *more)
        if not came:
            came.append(True)
            sink().take(9, answers([("all", "a", 99, 1, 99, 1.0)]))
        return found

    monkeypatch.setattr(redis.client.Pipeline, "execute", slowly)
    one.take(0, BATCH)
    assert ids(client, "skyband:all") == [99]
    assert ids(client, 'skyband:each:["a"]') == [2, 9]


def test_the_newest_window_so_far_is_not_replaced_by_an_older_final_one(sink, client):
    one = sink()
    steps = [(10, False, [1]), (5, True, [2]), (10, False, [3, 1]), (10, True, [3])]
    for number, ((end, final, mine), shown) in enumerate(zip(steps, ([1], [1], [1, 3], [3]), strict=True)):
        rows = [("all", "a", end, place, id_, float(id_)) for place, id_ in enumerate(mine, 1)]
        one.take(number, answers(rows, final=pa.array([final] * len(mine))))
        assert sorted(ids(client, "skyband:all")) == shown


def test_a_connection_that_is_cut_before_the_first_batch(server, client, sink):
    one = sink()
    one.reach()
    for work in (lambda: one.check(BATCH), one.holds_rows, one.clear):
        assert client.client_kill_filter(_type="normal", skipme=True)
        work()
    one.take(0, BATCH)
    assert client.exists("skyband:all")
