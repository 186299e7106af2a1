"""The sink by itself: what it makes of a batch, of the same batch again, of names, values and servers of all kinds."""

from __future__ import annotations

import datetime as dt
import decimal
import logging
import math
import sys
import threading
import time
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest

import skyband as sb
from skyband.connectors.postgres_writer import PostgresWriter
from tests.servers import PASSWORD, free_port
from tests.waiting import wait_for

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
HOSTILE = ['"; DROP TABLE x; --', "'; DROP TABLE x; --", 'a"b', "ü€😀", "%s %(a)s {}", "a\\b", "select", "\\."]


def at(second):
    return EPOCH + dt.timedelta(seconds=second)


def answers(rows, **more):
    """Answers of (query, group, window end in seconds, rank, id, score)."""
    names = ("query", "g", "window_end", "rank", "id", "score")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)) if rows else [[]] * 6, strict=True))
    return pa.table(
        {
            "query": pa.array(columns["query"], pa.string()),
            "g": pa.array(columns["g"], pa.string()),
            "window_end": pa.array(map(at, columns["window_end"]), pa.timestamp("us", "UTC")),
            "rank": pa.array(columns["rank"], pa.int32()),
            "id": pa.array(columns["id"], pa.int64()),
            "score": pa.array(columns["score"], pa.float64()),
            **more,
        }
    )


BATCH = answers(
    [
        ("all", "b", 5, 1, 1, 9.0),
        ("all", "a", 5, 2, 2, math.inf),
        ("each", "a", 5, 1, 2, -math.inf),
        ("each", None, 5, 1, 3, 4.0),
        ("each", None, 5, 1, 4, 4.0),
        ("each", "a", 10, 1, 2, 0.1),
    ]
)
GROUPS = {"all": (), "each": ("g",)}


@pytest.fixture
def sink(database):
    made = []

    def making(table="answers", groups=GROUPS, **more):
        made.append(PostgresWriter(table, groups, **{"url": database.url(), "retry": 300, **more}))
        return made[-1]

    yield making
    for one in made:
        one.close()


def plain(rows):
    return [(row["query"], row["g"], row["window_end"], row["rank"], row["id"], row["score"]) for row in rows]


def sorted_rows(table):
    return sorted(plain(table.to_pylist()), key=repr)


def test_a_batch_is_written_once_however_often_it_comes(sink, database):
    one = sink()
    for number in (0, 1, 1, 0):
        one.take(number, BATCH)
    found = database.rows()
    assert sorted(plain(found), key=repr) == sorted_rows(BATCH)
    told = [(row["query"], row["answer_group"], row["answer_place"], row["id"]) for row in found]
    assert told == [
        ("all", "[]", 1, 1),
        ("all", "[]", 2, 2),
        ("each", '["a"]', 1, 2),
        ("each", "[null]", 1, 3),
        ("each", "[null]", 2, 4),
        ("each", '["a"]', 1, 2),
    ]


def test_the_table_is_made_of_the_answers_columns_with_a_key(sink, database):
    sink("sales.answers" if database.execute("CREATE SCHEMA sales") is None else "").take(0, BATCH)
    [(definition,)] = database.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'sales.answers'::regclass"
    )
    assert definition == "PRIMARY KEY (query, window_end, answer_group, answer_place)"
    columns = database.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'sales' "
        "ORDER BY ordinal_position"
    )
    assert columns == [
        ("query", "text"),
        ("g", "text"),
        ("window_end", "timestamp with time zone"),
        ("rank", "integer"),
        ("id", "bigint"),
        ("score", "double precision"),
        ("answer_group", "text"),
        ("answer_place", "integer"),
    ]


def test_an_answer_is_replaced_as_a_whole(sink, database):
    one = sink()
    one.take(0, answers([("all", "a", 5, rank, rank, 1.0) for rank in (1, 2, 3)] + [("each", "a", 5, 1, 1, 1.0)]))
    one.take(1, answers([("all", "a", 5, 1, 7, 2.0)]))
    assert [(row["query"], row["id"]) for row in database.rows()] == [("all", 7), ("each", 1)]


def test_only_the_newest_window_is_kept_if_that_is_wanted(sink, database):
    one = sink(newest=True)
    one.take(0, BATCH)
    assert {(row["query"], row["window_end"]) for row in database.rows()} == {("all", at(5)), ("each", at(10))}
    one.take(1, answers([("all", "a", 20, 1, 5, 1.0), ("all", "a", 15, 1, 4, 1.0)]))
    one.take(2, answers([("all", "a", 10, 1, 3, 1.0)]))  # older than what is there
    assert [(row["query"], row["id"]) for row in database.rows()] == [("all", 5), ("each", 2)]


def test_values_of_all_types(sink, database):
    values = {
        "yes": pa.array([True, None]),
        "small": pa.array([-3, None], pa.int16()),
        "tiny": pa.array([-3, None], pa.int8()),
        "real": pa.array([1.5, math.nan], pa.float32()),
        "number": pa.array([decimal.Decimal("-12345678901234567890.12"), None], pa.decimal128(30, 2)),
        "day": pa.array([dt.date(1, 1, 1), None]),
        "naive": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 456789), None], pa.timestamp("us")),
        "there": pa.array([at(0.000001), None], pa.timestamp("us", "America/New_York")),
        "span": pa.array([dt.timedelta(days=-400, microseconds=1), None], pa.duration("us")),
        "bytes": pa.array([b'\x00\xff"\n', None]),
        "list": pa.array([["a\0", 'b"', None], None]),
        "map": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
        "struct": pa.array([{"a": math.inf, "b": at(0)}, None]),
        "void": pa.nulls(2),
        "text": pa.array(["a\0b\n\\.\n,\"'", ""]),
    }
    rows = answers([("all", None, 5, 1, 1, math.nan), ("all", "", 5, 2, 2, -0.0)], **values)
    one = sink()
    one.take(0, rows)
    one.take(0, rows)
    first, second = database.rows()
    for name in ("yes", "small", "tiny", "real", "number", "day", "naive", "there", "span", "bytes", "void"):
        assert repr([first[name], second[name]]) == repr(_in_utc(values[name].to_pylist())), name
    assert first["list"] == ["a\ufffd", 'b"', None]
    assert first["map"] == [["k", 1.5]]
    assert first["struct"] == {"a": "Infinity", "b": "1970-01-01T00:00:00Z"}
    assert (first["text"], second["text"]) == ("a\ufffdb\n\\.\n,\"'", "")
    assert (first["g"], second["g"]) == (None, "")
    assert math.isnan(first["score"])
    assert math.copysign(1, second["score"]) == -1


def _in_utc(values):
    return [value.astimezone(dt.UTC) if getattr(value, "tzinfo", None) else value for value in values]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_and_values_are_never_read_as_sql(sink, database, name):
    database.execute("CREATE TABLE x (a int)")
    table = name.replace(".", "_")
    rows = answers([(name, name, 5, 1, 1, 1.0)], **{name: pa.array([name])})
    one = sink(table, {name: ("g",)})
    one.prepare(rows)
    assert not one.holds_rows()
    for _ in range(2):
        one.take(0, rows)
    assert one.holds_rows()
    with psycopg.connect(database.url()) as connection:
        query = psycopg.sql.SQL("SELECT query, g, {} FROM {}").format(*map(psycopg.sql.Identifier, (name, table)))
        assert connection.execute(query).fetchall() == [(name, name, name)]
    one.clear()
    assert not one.holds_rows()
    assert database.execute("SELECT count(*) FROM x") == [(0,)]


@pytest.mark.parametrize("length", [63, 64])
def test_names_have_63_bytes(sink, database, length):
    name = "é" * 31 + "x" * (length - 62)
    rows = answers([("all", "a", 5, 1, 1, 1.0)], **{name: pa.array([7])})
    if length == 63:
        sink(name).take(0, rows)
        assert database.rows(f'"{name}"')[0][name] == 7
    else:
        with pytest.raises(sb.InvalidInputError, match=r"it has 64 bytes, and names must have 1 to 63"):
            sink().take(0, rows)


def test_long_groups_are_told_apart(sink, database):
    groups = ["x" * 4000 + ending for ending in ("a", "b")]
    sink().take(0, answers([("each", group, 5, 1, 1, 1.0) for group in groups]))
    found = database.rows()
    assert {row["g"] for row in found} == set(groups)
    assert all(len(row["answer_group"]) < 600 for row in found)


def test_several_groups_columns_with_nulls(sink, database):
    drawn = [(a, b) for a in ("x", None, "null", '["x"]') for b in (1, None, 2)]
    rows = answers([("two", a, 5, 1, number, 1.0) for number, (a, b) in enumerate(drawn)])
    rows = rows.append_column("h", pa.array([b for _, b in drawn]))
    one = sink(groups={"two": ("G", "h")})
    for _ in range(2):
        one.take(0, rows)
    found = database.rows()
    assert len(found) == len({row["answer_group"] for row in found}) == len(drawn)
    assert {row["answer_place"] for row in found} == {1}


# Tables that are there already.


def test_a_table_of_ones_own_may_have_more_and_wider_columns(sink, database):
    database.execute(
        "CREATE TABLE answers (query varchar, g text, window_end timestamptz, rank bigint, id bigint, score float8, "
        "answer_group text, answer_place bigint, note text, made timestamptz NOT NULL DEFAULT now(), "
        "UNIQUE (answer_place, answer_group, window_end, query) INCLUDE (rank))"
    )
    for _ in range(2):
        sink().take(0, BATCH)
    assert sorted(plain(database.rows()), key=repr) == sorted_rows(BATCH)


RIGHT = "query text, g text, window_end timestamptz, rank int, id bigint, score float8, answer_group text"
KEY = "UNIQUE (query, window_end, answer_group, answer_place)"


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("a int", "has no column 'query' (text), which answers of this stream need"),
        (
            f"{RIGHT.replace('score float8', 'score int')}, answer_place int, {KEY}",
            "its column 'score' has type integer instead of double precision",
        ),
        (f"{RIGHT}, answer_place int", "has no primary key or unique index on (query, window_end, answer_group, ans"),
        (f"{RIGHT}, answer_place int, UNIQUE (query)", "has no primary key or unique index on"),
        (f"{RIGHT}, answer_place int, note text NOT NULL, {KEY}", "its column 'note' is NOT NULL without a default"),
    ],
)
def test_a_table_of_another_shape_is_refused(sink, database, columns, says):
    database.execute(f"CREATE TABLE answers ({columns})")
    with pytest.raises(sb.InvalidInputError) as caught:
        sink().prepare(BATCH)
    assert says in str(caught.value)
    assert "table 'answers' exists, but" in str(caught.value)


def test_columns_that_answers_get_are_not_the_streams(sink):
    with pytest.raises(sb.InvalidInputError, match="column name 'answer_place' is reserved"):
        sink().prepare(BATCH.append_column("Answer_Place", pa.nulls(6)))


def test_rows_of_other_queries_stay(sink, database):
    sink().take(0, BATCH)
    sink(groups={"each": ("g",)}, newest=True).take(0, answers([("each", "a", 99, 1, 1, 1.0)]))
    assert {(row["query"], row["window_end"]) for row in database.rows()} == {("all", at(5)), ("each", at(99))}
    other = sink(groups={"all": ()})
    other.prepare(BATCH)
    other.clear()
    assert {row["query"] for row in database.rows()} == {"each"}


# Doors that stay shut.


def test_what_is_wrong_at_the_door_is_said_without_the_secret(sink, database):
    wrong, escaped = "wr0ng/secret", "wr0ng%2Fsecret"
    database.execute(f"CREATE ROLE guest_{database.name} LOGIN PASSWORD '{PASSWORD}'")
    nobody = f"guest_{database.name}"
    cases = {
        "password authentication failed for user": {"url": database.url(password=wrong)},
        "no password supplied": {"url": database.url(password=None)},
        'database "nowhere" does not exist': {"url": database.url().replace(database.name, "nowhere")},
        "Connection refused": {"url": f"postgresql://boss:{escaped}@127.0.0.1:{free_port()}/x"},
        "permission denied for schema public (the user needs USAGE on the schema, and CREATE": {
            "url": database.url(nobody)
        },
        'invalid connection option "sslmod"': {"options": {"sslmod": "require"}},
        'invalid integer value "x"': {"url": f"postgresql://boss:{escaped}@127.0.0.1:x/y"},
        "in URI (expected": {"url": f"postgresql://boss:{escaped}@[::1]x:{database.server.port}/y"},
        "boss:***@127.0.0.1:5/y cannot be used": {"url": f"postgresql://boss:{wrong}@127.0.0.1:5/y"},
        "certificate verify failed": {
            "options": {"sslmode": "verify-full", "sslrootcert": str(_foreign_certificate(database.server))}
        },
    }
    for says, given in cases.items():
        one = sink(**given)
        with pytest.raises(sb.InvalidInputError) as caught:
            one.prepare(BATCH)
        said = str(caught.value)
        assert says in said
        assert "\n" not in said
        assert not any(secret in said for secret in (PASSWORD, quote(PASSWORD, safe=""), wrong, escaped))
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
    database.execute(f"DROP ROLE {nobody}")


def _foreign_certificate(server):
    path = server.folder / "foreign.crt"
    server.run(
        "openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=other",
        "-out", path, "-keyout", server.folder / "foreign.key",
    )  # fmt: skip
    return path


def test_a_password_and_tls_by_options(sink, database):
    options = {
        "password": PASSWORD,
        "sslmode": "verify-full",
        "sslrootcert": str(database.server.certificate),
    }
    one = sink(url=database.url(password=None), options=options)
    one.take(0, BATCH)
    encrypted = database.execute(
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
        "WHERE application_name = 'skyband' AND datname = %s",
        [database.name],
    )
    assert encrypted == [(True,)]


def test_all_of_it_by_libpqs_variables(sink, database, monkeypatch):
    named = {"HOST": "127.0.0.1", "PORT": database.server.port, "USER": "boss", "PASSWORD": PASSWORD}
    for name, value in {**named, "DATABASE": database.name}.items():
        monkeypatch.setenv(f"PG{name}", str(value))
    sink(url=None).take(0, BATCH)
    assert len(database.rows()) == 6


def test_without_the_driver_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "skyband.connectors.postgres_writer")
    with pytest.raises(sb.MissingDependencyError, match=r"pip install 'skyband\[postgres\]'"):
        import skyband.connectors.postgres_writer  # noqa: F401


# Servers that go and come back.


@pytest.mark.faults
def test_a_server_that_restarts_in_the_middle_of_a_write(sink, database, tally):
    """The write waits for a lock; the server dies; what was begun is gone, and is done again."""
    one = sink()
    one.take(0, BATCH.slice(0, 2))
    blocker = database.server.connect(database.name)
    blocker.execute("BEGIN")
    blocker.execute("LOCK TABLE answers IN ACCESS EXCLUSIVE MODE")
    writing = threading.Thread(target=one.take, args=(1, BATCH.slice(2)))
    writing.start()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
    wait_for(lambda: database.execute(waiting, [database.name]) == [(1,)])
    database.server.crash()
    blocker.close()
    time.sleep(0.3)
    assert writing.is_alive()
    database.server.start()
    writing.join(300)
    tally.fault("crash of PostgreSQL in the middle of a write")
    assert sorted(plain(database.rows()), key=repr) == sorted_rows(BATCH)


def test_a_connection_that_was_lost_while_nothing_was_written(sink, database, caplog):
    one = sink()
    one.take(0, BATCH)
    database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skyband'")
    with caplog.at_level(logging.WARNING):
        one.take(1, answers([("all", "a", 50, 1, 5, 1.0)]))
    assert len(database.rows()) == 7
    assert "retrying for 300 seconds" in caplog.text
    assert PASSWORD not in caplog.text


def test_it_gives_up_and_says_that_nothing_is_lost(sink, database):
    one = sink(retry=1.5)
    one.take(0, BATCH)
    database.server.stop()
    try:
        began = time.monotonic()
        with pytest.raises(sb.PipelineError) as caught:
            one.take(1, BATCH)
        assert 1.4 < time.monotonic() - began < 300
    finally:
        database.server.start()
    said = str(caught.value)
    assert "could not be written for 1.5 seconds" in said
    assert "no answers are lost. Fix the problem and run it again." in said
    assert PASSWORD not in said
    one.take(1, BATCH)
    assert len(database.rows()) == 6


def test_who_stops_does_not_wait_for_a_server(sink, database):
    one = sink(retry=600)
    one.take(0, BATCH)
    failed = []

    def taking():
        try:
            one.take(1, BATCH)
        except sb.PipelineError as error:
            failed.append(error)

    database.server.stop()
    try:
        thread = threading.Thread(target=taking)
        thread.start()
        time.sleep(0.5)
        assert thread.is_alive()
        one.stop_waiting()
        thread.join(300)
        assert failed
    finally:
        database.server.start()


def test_what_will_not_pass_is_not_waited_for(sink, database):
    one = sink(retry=600)
    one.take(0, BATCH)
    database.execute("DROP TABLE answers")
    with pytest.raises(
        sb.PipelineError, match=r'relation "answers" does not exist\. The stream stopped; no answers are lost'
    ):
        one.take(1, BATCH)


def test_two_who_write_at_once(sink, database):
    """Both make the table, both write the same answers and some of their own."""
    shared = [answers([("all", "a", end, rank, rank, 1.0) for rank in range(1, 200)]) for end in range(5)]
    sinks = [sink(), sink()]
    gate, failed = threading.Barrier(2), []

    def work(number):
        try:
            gate.wait()
            for end in range(5) if number else reversed(range(5)):
                sinks[number].take(end, shared[end])
                sinks[number].take(end, answers([("each", str(number), end, 1, 1, 1.0)]))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert failed == []
    assert len(database.rows()) == 5 * 199 + 5 * 2


def test_a_provisional_answer_is_replaced_by_a_shorter_one_and_by_the_final_one(sink, database):
    one = sink()
    for number, (final, ids) in enumerate([(False, [1, 2, 3]), (False, [4]), (True, [4, 1])]):
        rows = [("all", "a", 5, place, id_, 1.0) for place, id_ in enumerate(ids, 1)]
        one.take(number, answers(rows, final=pa.array([final] * len(ids))))
        assert [(row["id"], row["final"]) for row in database.rows()] == [(id_, final) for id_ in ids]


@pytest.mark.long
@pytest.mark.parametrize(
    ("rights", "says"),
    [
        (None, "permission denied for schema public"),
        ("SELECT, INSERT, UPDATE", "permission denied for table answers"),
        ("SELECT, INSERT, DELETE", "permission denied for table answers"),
        ("SELECT, INSERT, UPDATE, DELETE", None),
    ],
)
def test_rights_are_checked_before_anything_is_written(sink, database, rights, says):
    guest = f"limited_{database.name}"
    database.execute(f"CREATE ROLE {guest} LOGIN PASSWORD '{PASSWORD}'")
    if rights is not None:
        first = sink()
        first.prepare(BATCH)
        first.take(0, BATCH)
        database.execute(f"GRANT {rights} ON answers TO {guest}")
    one = sink(url=database.url(guest))
    try:
        if says is None:
            one.check(BATCH)
            one.prepare(BATCH)
            one.take(1, BATCH)
        else:
            with pytest.raises(sb.InvalidInputError, match=says):
                one.check(BATCH)
        if rights is not None:
            assert len(database.rows()) == BATCH.num_rows
    finally:
        one.close()
        database.execute(f"DROP OWNED BY {guest}")
        database.execute(f"DROP ROLE {guest}")


@pytest.mark.long
def test_a_check_creates_no_table(sink, database):
    sink().check(BATCH)
    with database.server.connect(database.name) as connection:
        assert connection.execute("SELECT to_regclass('answers')").fetchone()[0] is None


def test_a_connection_that_is_cut_before_the_first_batch(database, sink):
    """Streams start one after another, and connections that wait meanwhile may be cut."""
    one = sink()
    one.reach()
    for work in (lambda: one.check(BATCH), lambda: one.prepare(BATCH), one.holds_rows, one.clear):
        cut = database.server.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s", [database.name]
        )
        assert cut[0][0] == 1
        work()
    one.take(0, BATCH)
    assert len(database.rows()) == BATCH.num_rows
