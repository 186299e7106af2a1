"""Queries that joined a run and break it: the stream goes on without them, and nobody else loses anything."""

from __future__ import annotations

import threading

import pytest

import skyband as sb
from skyband.jobs import run
from skyband.jobs.journal import Change, Journal
from skyband.sharding.delivery import Wanted
from skyband.spark import start
from tests.jobs.test_live_changes import ALL, MORE, Live, answers_in, parts, wait_for_rows  # noqa: F401 - a fixture
from tests.sharding import cases
from tests.spark.frames import read_answers, read_stream, write_files

MORE_SQL = "more: TOPK s, 5 OVER 10 SECONDS EVERY 5 SECONDS"
EACH = cases.Posed("each", cases.Asked(k=2, size=10_000_000, slide=5_000_000), {"by": "s", "partition_by": ["g"]})
# What some row of the next part breaks, each in a way of its own.
BAD = {
    "zero": "TOPK s + 1/(id - id), 2 OVER 10 SECONDS",
    "number": "TOPK to_number(g, '999'), 2 OVER 10 SECONDS",
    "pattern": "TOPK s, 2 WHERE g rlike concat(g, '(') OVER 10 SECONDS",
    "raised": "TOPK s, 2 WHERE make_date(2024, cast(id AS int) + 20000, 1) IS NOT NULL OVER 10 SECONDS",
}


def names_of(running):
    return [query.name for query in running.file.workloads["rows"]]


def first_whole_window(rows, after=0):
    newest = max(row[0] for row in rows) + after
    return next(end for end in range(0, 10**12, 5_000_000) if end - 10_000_000 > newest)


@pytest.mark.long
@pytest.mark.parametrize("bad", [("zero",), tuple(BAD)], ids=len)
def test_culprits_are_found_and_nobody_else_is_harmed(spark, tmp_path, parts, caplog, bad):  # noqa: F811
    live = Live(spark, tmp_path, parts)
    live.feed()
    with live:
        wait_for_rows(live.running, len(parts[0]))
        joining = [f"zero: {BAD['zero']}", MORE_SQL, *(f"{name}: {BAD[name]}" for name in bad[1:])]
        for sql in joining:
            assert "added" in live.ask(kind="add", sql=sql)["done"]
        with caplog.at_level("WARNING", "skyband.control"):
            for _ in parts[1:]:
                live.feed()
                wait_for_rows(live, sum(map(len, parts[: live.written])))
        assert names_of(live.running) == ["all", "more"]
        counts = live.ask(kind="list")["metrics"]["rows"]
        live.running.handles["rows"].flush()
    assert counts["dropped_queries"] == len(bad)
    assert set(counts["dropped"]) == set(bad)
    for name, why in counts["dropped"].items():
        assert f"dropped {name!r} from stream 'rows', which continues without it: {why}" in caplog.messages
    assert "1/(id - id)" in counts["dropped"]["zero"]
    assert "DIVIDE_BY_ZERO" in counts["dropped"]["zero"]
    rows = [row for part in parts for row in part]
    found = answers_in(tmp_path)
    assert found["all", "-"] == cases.wanted(ALL, rows)["all", "-"]
    first = first_whole_window(parts[0])  # it did not begin again when the others were dropped
    assert found["more", "-"] == [row for row in cases.wanted(MORE, rows)["more", "-"] if row[1] >= first]
    kinds = [(change.kind, change.query.name) for change in Journal(tmp_path / ".skyband" / "work").read()]
    assert ("add", "more") in kinds  # a micro-batch with it was done
    assert not {("add", name) for name in bad} & set(kinds)


@pytest.mark.long
def test_what_breaks_its_first_micro_batch_is_refused(spark, tmp_path, parts):  # noqa: F811
    live = Live(spark, tmp_path, parts)
    for _ in parts[:2]:
        live.feed()
    with live:
        wait_for_rows(live.running, sum(map(len, parts[:2])))
        live.feed()
        over = threading.Event()
        watching = threading.Thread(target=lambda: [live.running.await_end(0.1) for _ in iter(over.is_set, True)])
        watching.start()  # as who runs it does
        try:
            # Whether the reply comes before its first micro-batch is a matter of time: it is refused, or dropped.
            reply = live.ask(kind="add", sql="bad: TOPK double(raise_error(concat('no ', g))), 2 OVER 10 SECONDS")
            live.feed()
            wait_for_rows(live, sum(map(len, parts)))
        finally:
            over.set()
            watching.join()
        assert "was added to stream 'rows' and dropped again" in str(reply) or "added 'bad'" in str(reply), reply
        assert names_of(live.running) == ["all"]


@pytest.mark.long
def test_new_groups_join(spark, tmp_path, parts):  # noqa: F811
    """By a column that nobody grouped by, and by an expression: no row that is held is theirs."""
    live = Live(spark, tmp_path, parts)
    live.feed()
    with live:
        wait_for_rows(live.running, len(parts[0]))
        for sql in (
            "each: TOPK s, 2 BY g OVER 10 SECONDS EVERY 5 SECONDS",
            "upper: TOPK s, 1 BY upper(g) OVER 5 SECONDS",
        ):
            assert "added" in live.ask(kind="add", sql=sql)["done"]
        live.running.handles["rows"].flush()  # what is held is answered before there is a row of the new groups
        live.feed()
        wait_for_rows(live, sum(map(len, parts[:2])))
    with live:  # and they are resumed
        for _ in parts[2:]:
            live.feed()
            wait_for_rows(live, sum(map(len, parts[2 : live.written])))
        assert names_of(live.running) == ["all", "each", "upper"]
        live.running.handles["rows"].flush()
    rows = [row for part in parts for row in part]
    found = cases.answered(read_answers(tmp_path / "out"), [ALL, EACH])
    first = first_whole_window(parts[0], after=20_001_000)  # the flush ended all windows that had begun
    for group in "abc":
        mine, wanted = found["each", group], cases.wanted(EACH, rows)["each", group]
        assert [row for row in mine if row[1] >= first] == [row for row in wanted if row[1] >= first]
    assert {row["upper(g)"] for row in read_answers(tmp_path / "out") if row["query"] == "upper"} >= {"A", "B", "C"}


@pytest.mark.long
def test_a_run_comes_up_whatever_was_written_down(spark, tmp_path, parts):  # noqa: F811
    """A crash may leave any query in the journal: one that cannot be started, and one that breaks a micro-batch."""
    live = Live(spark, tmp_path, parts)
    live.feed()
    with live:
        wait_for_rows(live.running, len(parts[0]))
    journal = Journal(tmp_path / ".skyband" / "work")
    journal.append(Change("try", "rows", sb.TopK(name="gone", k=1, size="5 seconds", by="no_such_column")))
    journal.append(Change("add", "rows", sb.TopK(name="bad", k=1, size="5 seconds", by="1/(id-id)")))
    journal.append(Change("try", "rows", sb.TopK(name="more", k=5, size="10 seconds", slide="5 seconds", by="s")))
    live.feed()
    with live:
        wait_for_rows(live, len(parts[1]))
        assert names_of(live.running) == ["all", "more"]
        assert set(live.running.metrics()["rows"]["dropped"]) == {"gone", "bad"}
    with live:
        assert names_of(live.running) == ["all", "more"]


@pytest.mark.long
def test_nobody_is_dropped_for_what_others_break(spark, tmp_path, parts):  # noqa: F811
    """A sink that fails, and then a query of the file: those who joined stay, and the run says what it was."""

    class Full:
        def take(self, _, rows):
            raise OSError("no room for answers")

    live = Live(spark, tmp_path, parts)
    journal = Journal(tmp_path / ".skyband" / "work")
    live.feed()
    journal.append(Change("try", "rows", sb.TopK(name="more", k=5, size="10 seconds", slide="5 seconds", by="s")))
    running = run(live.file, "stream", spark=spark, watchers={"rows": [Wanted(Full(), "answers")]})
    with pytest.raises(sb.PipelineError, match="no room for answers"):
        running.await_end(300)
    assert [change.kind for change in journal.read()] == ["try"]
    text = (tmp_path / "work.yaml").read_text().replace("by: s}", "by: 1/(id-id)}")
    (tmp_path / "work.yaml").write_text(text)
    running = run(sb.read_workload(tmp_path / "work.yaml"), "stream", spark=spark)
    with pytest.raises(sb.PipelineError, match="DIVIDE_BY_ZERO"):
        running.await_end(300)
    assert [change.kind for change in journal.read()] == ["try"]


@pytest.mark.long
def test_one_run_at_a_time(spark, tmp_path, parts):  # noqa: F811
    live = Live(spark, tmp_path, parts)
    live.feed()
    with live:
        wait_for_rows(live.running, len(parts[0]))
        for fresh in (False, True):
            with pytest.raises(sb.InvalidInputError, match=r"is in use by process \d+ on .+ since 20"):
                run(live.file, "stream", spark=spark, fresh=fresh)
        assert live.box.is_heard()
        assert live.ask(kind="list")["metrics"]["rows"]["rows"] == len(parts[0])
        live.feed()
        wait_for_rows(live, sum(map(len, parts[:2])))
    with live:  # one that has ended is in nobody's way
        live.feed()
        wait_for_rows(live.running, len(parts[2]))


def test_one_stream_at_a_time(spark, tmp_path, parts):  # noqa: F811
    def begin():
        return start(
            read_stream(spark, tmp_path / "in"),
            ALL.query(),
            time="ts",
            watermark="0 seconds",
            write=lambda out: out.writeStream.format("noop"),
            checkpoint=str(tmp_path / "state"),
        )

    write_files(tmp_path / "in", parts[:1])
    handle = begin()
    with pytest.raises(sb.InvalidInputError, match=r"is in use by process \d+ on .+ since 20"):
        begin()
    assert handle.is_active
    handle.stop()
    begin().stop()
