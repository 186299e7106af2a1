"""Queries that join a stream with their past are answered as if they had been there from the start."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import run_local
from skyband.jobs.folder_log import FolderLog
from skyband.jobs.journal import Journal
from skyband.jobs.local_changes import LocalChanges
from skyband.jobs.local_state import LocalCheckpoint
from skyband.jobs.mailbox import mailbox_of
from tests.waiting import wait_for

S = 1_000_000
STREAM = "streams: {{rows: {{path: in, format: parquet, time: at, {id_} watermark: {delay} seconds}}}}\n"
SINKS = "sinks: [{type: parquet, path: out}]\n"
BASE = (
    "{name: base, k: 2, size: 20 seconds, slide: 5 seconds, by: x}",
    "{name: base, k: 3, size: 7 seconds, by: x, partition_by: [g]}",
    "{name: base, k: 1, size: 12 seconds, slide: 4 seconds, by: n, where: x > 2}",
)
NEW = (
    "k: 4, size: 40 seconds, slide: 5 seconds, by: x",
    "k: 3, size: all, slide: 6 seconds, by: x",
    "k: 1, size: 30 seconds, slide: 10 seconds, by: x, order: asc",
    "k: 5, size: 25 seconds, slide: 7 seconds, by: x, partition_by: [g], full_only: true",
    "k: 2, size: 30 seconds, slide: 3 seconds, by: n, then_by: [x asc, g], where: x > 1",
    "k: 2, size: 40 seconds, slide: 4 seconds, by: x, distinct: g",
    "k: 3, size: 20 seconds, slide: 5 seconds, by: x, half_life: 5 seconds, ties: rank",
    "k: 2, gap: 4 seconds, by: x, partition_by: [g]",
    "k: 3, size: 40 seconds, slide: 8 seconds, cumulative: true, by: x",
    "k: 2, size: all, slide: 5 seconds, origin: '1970-01-01T00:16:45Z', by: x, partition_by: [g], distinct: n",
)


def some_batches(draw):
    """Batches of rows: disordered, with late and equal rows, and rows that cannot be ranked."""
    now, batches = 1000 * S, []
    for _ in range(draw.randint(4, 9)):
        batch = []
        for _ in range(draw.choice([1, 10, 40])):
            now += draw.choice([0, 0, S // 2, S, 3 * S if draw.random() < 0.2 else 0])
            at = max(0, now - draw.choice([0, 0, 0, 2 * S, 9 * S]))
            batch.append((at, draw.choice([1.0, 2.0, 3.0, 4.0, 5.0, None]), draw.randrange(4), draw.choice("ab")))
            if draw.random() < 0.2:
                batch.append(batch[-1])
        batches.append(batch)
    return batches


def write(folder, batch, number):
    at, x, n, g = zip(*batch, strict=True)
    columns = {"at": pa.array(at, pa.timestamp("us", "UTC")), "x": pa.array(x, pa.float64()), "n": n, "g": g}
    columns["id"] = [number * 1000 + place for place in range(len(batch))]
    (folder / "in").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "in" / f"{number:03}.parquet")


def read(folder, queries, draw_id="id: id,", delay=2, more=SINKS):
    folder.mkdir(exist_ok=True)
    stream = STREAM.format(id_=draw_id, delay=delay)
    (folder / "work.yaml").write_text(stream + "queries:\n" + "".join(f"  - {one}\n" for one in queries) + more)
    return sb.read_workload(folder / "work.yaml")


def caught_up(file):
    running = run_local(file, "catch-up")
    assert running.await_end(300)


def finished(file):
    running = run_local(file, "stream")
    running.finish()
    assert running.await_end(300)


def state_of(file):
    return LocalCheckpoint(file.checkpoint_of("rows")).read()


def answers(folder, name="new"):
    found = []
    for path in sorted((folder / "out").rglob("*.parquet")):
        rows = pq.read_table(path)
        for bound in ("window_start", "window_end"):
            rows = rows.set_column(rows.schema.get_field_index(bound), bound, rows[bound].cast("int64"))
        found += [row for row in rows.to_pylist() if row["query"] == name]
    kept = ("window_start", "window_end", "rank", "score", "at", "x", "n", "g", "id")
    return sorted((tuple(row.get(key) for key in kept) for row in found), key=repr)


def case(draw, folder):
    """Settings of a stream that are equal in both runs, and the text of the new query."""
    base, fields = draw.choice(BASE), draw.choice(NEW)
    settings = {"draw_id": draw.choice(["", "id: id,"]), "delay": draw.choice([0, 2])}
    return base, fields, settings


def expected_answers(folder, base, fields, settings, batches, joins):
    """The answers of the query if it is there from the start, and the position of the stream where it joins."""
    file, clock = read(folder, [base, f"{{name: new, {fields}}}"], **settings), None
    for number, batch in enumerate(batches):
        write(folder, batch, number)
        caught_up(file)
        if number + 1 == joins:
            clock = state_of(file)["watermark"]
    finished(file)
    return answers(folder), clock


def within(found, clock, since, fields=""):
    """The answers that the query reports; windows of a landmark are reported however long ago they start."""
    return [row for row in found if ("size: all" in fields or row[0] >= clock - since) and row[1] > clock]


@pytest.mark.parametrize("seed", range(30))
def test_a_query_that_is_new_at_a_restart(tmp_path, seed):
    draw = random.Random(seed)
    batches = some_batches(draw)
    base, fields, settings = case(draw, tmp_path)
    fields = NEW[seed % len(NEW)]
    joins, since = draw.randint(1, len(batches) - 1), draw.choice([5, 15, 50, 500])
    want, clock = expected_answers(tmp_path / "a", base, fields, settings, batches, joins)
    file = read(tmp_path / "b", [base], **settings)
    for number, batch in enumerate(batches):
        write(tmp_path / "b", batch, number)
        if number == joins:
            file = read(tmp_path / "b", [base, f"{{name: new, {fields}, since: {since} seconds}}"], **settings)
        caught_up(file)
    finished(file)
    assert answers(tmp_path / "b") == within(want, clock, since * S, fields)
    assert answers(tmp_path / "b", "base") == answers(tmp_path / "a", "base")


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("at", [0, 3, *(pytest.param(at, marks=pytest.mark.long) for at in (1, 2, 4, 5))])
def test_a_crash_at_any_operation(tmp_path, at, monkeypatch):
    draw = random.Random(1)
    batches = some_batches(draw)
    base, fields, settings = BASE[0], NEW[0], {"delay": 2}
    joins = 2
    want, clock = expected_answers(tmp_path / "a", base, fields, settings, batches, joins)
    file = read(tmp_path / "b", [base], **settings)
    for number in range(joins):
        write(tmp_path / "b", batches[number], number)
        caught_up(file)
    file = read(tmp_path / "b", [base, f"{{name: new, {fields}, since: 1 hour}}"], **settings)
    write(tmp_path / "b", batches[joins], joins)
    with monkeypatch.context() as patched:
        counted = [0]
        for kind, name in ((LocalCheckpoint, "commit"), (FolderLog, "append")):
            whole = getattr(kind, name)

            def wrapped(self, *arguments, whole=whole):
                counted[0] += 1
                if counted[0] == at // 2 + 1 and at % 2 == 0:
                    raise Crash
                found = whole(self, *arguments)
                if counted[0] == at // 2 + 1:
                    raise Crash
                return found

            patched.setattr(kind, name, wrapped)
        running = run_local(file, "catch-up")
        with pytest.raises(sb.PipelineError, match="Crash"):
            running.await_end(300)
    for number, batch in enumerate(batches[joins:], joins):
        write(tmp_path / "b", batch, number)
        caught_up(file)
    finished(file)
    assert answers(tmp_path / "b") == within(want, clock, 3600 * S)


@pytest.mark.parametrize("since", [None, 3600 * S])
def test_a_query_that_is_added_while_the_stream_runs(tmp_path, since):
    """And dropped: the next run has the queries of the journal."""
    draw = random.Random(5)
    batches = some_batches(draw)[:4]
    want, clock = expected_answers(tmp_path / "a", BASE[0], NEW[0], {"delay": 2}, batches, 2)
    file = read(tmp_path / "b", [BASE[0]], delay=2)
    write(tmp_path / "b", batches[0], 0)
    running = run_local(file, "stream")
    changes = LocalChanges(running)
    for number, batch in enumerate(batches):
        if number:
            write(tmp_path / "b", batch, number)
        wait_for(lambda number=number: running.metrics()["rows"]["batches"] == number + 1)
        if number == 1:
            wait_for(lambda: state_of(file)["batch"] == 1)
            query = sb.sql("new: TOPK x, 4 OVER 40 SECONDS EVERY 5 SECONDS")
            assert "valid from" in changes.add(query, None, since)
            with pytest.raises(sb.InvalidQueryError, match="already runs"):
                changes.add(query, None)
            with pytest.raises(sb.SkybandError, match="nothing"):
                changes.add(sb.sql("other: TOPK nothing, 4 OVER 40 SECONDS"), "rows")
            assert list(changes.queries()["rows"]) == [str(one) for one in running.file.workloads["rows"]]
    running.stop()
    finished(file)  # with the query of the journal
    newest = max(row[0] for batch in batches[:2] for row in batch)
    assert answers(tmp_path / "b") == within(want, clock, since if since else clock - newest - 1)
    running = run_local(file, "stream")
    assert "dropped 'new'" in LocalChanges(running).drop("new")
    with pytest.raises(sb.InvalidQueryError, match="last query"):
        LocalChanges(running).drop("base")
    running.stop()
    assert [change.kind for change in Journal(mailbox_of(file).folder.parent).read()] == ["add", "drop"]
    running = run_local(file, "catch-up")
    assert running.await_end(300)
    assert [query.name for query in running.file.workloads["rows"]] == ["base"]


def test_a_change_between_its_two_durable_steps(tmp_path, monkeypatch):
    """The state is stored and the journal is not: undone by a full disk, unknown to the next run after a kill."""
    draw = random.Random(7)
    batches = some_batches(draw)[:4]
    want, _ = expected_answers(tmp_path / "a", BASE[1], NEW[0], {"delay": 2}, batches, 2)
    assert want
    file = read(tmp_path / "b", [BASE[1]], delay=2)
    query = sb.sql("new: TOPK x, 4 OVER 40 SECONDS EVERY 5 SECONDS")
    for number, batch in enumerate(batches):
        write(tmp_path / "b", batch, number)
        running = run_local(file, "stream")
        wait_for(lambda number=number: (state_of(file) or {"batch": -1})["batch"] == number)
        for error, raised in ((OSError("full"), sb.InvalidInputError), (Crash(), Crash)):
            with monkeypatch.context() as patched:
                patched.setattr(Journal, "append", lambda *_, error=error: (_ for _ in ()).throw(error))
                with pytest.raises(raised):
                    LocalChanges(running).add(query, None, 3600 * S)
            assert len(running.file.workloads["rows"]) == (2 if raised is Crash else 1)
        running.stop()
    finished(file)
    assert answers(tmp_path / "b", "base") == answers(tmp_path / "a", "base")


def test_what_cannot_be_read_again_is_refused(tmp_path):
    file = read(tmp_path, [BASE[0]])
    for number in range(2):
        write(tmp_path, [(1000 * S + number * S, 1.0, 1, "a")], number)
        caught_up(file)
    path = tmp_path / "in" / "000.parquet"
    content = path.read_bytes()
    joined = read(tmp_path, [BASE[0], f"{{name: new, {NEW[0]}, since: 1 day}}"])
    path.unlink()
    running = run_local(joined, "stream")
    with pytest.raises(sb.InvalidInputError, match="no longer exists"):
        running.await_end(300)
    path.write_bytes(content + b" ")
    running = run_local(joined, "stream")
    with pytest.raises(sb.InvalidInputError, match="has changed since"):
        running.await_end(300)
    path.write_bytes(content)
    other = read(tmp_path, [BASE[0], f"{{name: new, {NEW[0]}, since: 1 day}}"], delay=1)
    running = run_local(other, "stream")
    with pytest.raises(sb.InvalidInputError, match="is not that of the stream"):
        running.await_end(300)
    caught_up(joined)
    assert state_of(joined)["batch"] == 1


def test_corrected_answers_have_no_past(tmp_path):
    write(tmp_path, [(1000 * S, 1.0, 1, "a")], 0)
    settings = {"draw_id": "id: id, allowed_lateness: 5 seconds,"}
    caught_up(read(tmp_path, [BASE[0]], **settings))
    joined = read(tmp_path, [BASE[0], f"{{name: new, {NEW[0]}, since: 1 day}}"], **settings)
    with pytest.raises(sb.UnsupportedError, match="early or corrected answers"):
        run_local(joined, "catch-up")


AGGREGATES = (
    "type: aggregate, k: 2, size: 20 seconds, slide: 5 seconds, key: g, value: x",
    "type: aggregate, k: 3, size: 40 seconds, slide: 10 seconds, key: g, value: x, aggregate: max",
    "type: aggregate, k: 1, size: 12 seconds, key: cast(n AS STRING), aggregate: count, partition_by: [g]",
    "type: aggregate, k: 2, size: all, slide: 7 seconds, key: g, value: x",
    "type: aggregate, k: 2, size: 30 seconds, slide: 6 seconds, cumulative: true, key: cast(n AS STRING), value: x",
    "type: aggregate, k: 2, size: 40 seconds, slide: 4 seconds, key: g, value: x, half_life: 3 seconds",
    "type: aggregate, k: 2, size: 24 seconds, slide: 8 seconds, key: g, value: x, aggregate: median, having: score > 1",
    "type: aggregate, k: 2, size: 18 seconds, slide: 6 seconds, key: g, value: x, aggregate: latest, full_only: true",
    "type: aggregate, k: 2, gap: 4 seconds, key: cast(n AS STRING), value: x, partition_by: [g]",
)
OF_OBJECTS = "stream: rows, object: n, stream_by: g, streams: [a, b], value: x, bounds: [0, 9], occurrences: 99"
OBJECTS = (
    f"type: incomplete, k: 2, size: 20 seconds, every: 5 seconds, {OF_OBJECTS}",
    f"type: incomplete, k: 3, size: 30 seconds, every: 10 seconds, {OF_OBJECTS}, intervals: true",
    f"type: incomplete, k: 1, size: 12 seconds, every: 4 seconds, {OF_OBJECTS}, method: sorted-lists",
)


def of_family(folder, name):
    """All answers of a query as sorted tuples: bounds as numbers, then the other columns that are not null."""
    found = []
    for path in sorted((folder / "out").rglob("*.parquet")):
        table = pq.read_table(path)
        bounds = [bound for bound in ("window_start", "window_end", "time") if bound in table.column_names]
        columns = [table[bound].cast("int64").to_pylist() for bound in bounds]
        for row, *moments in zip(table.drop_columns(bounds).to_pylist(), *columns, strict=True):
            if row.pop("query") == name:
                found.append((*moments, *((key, value) for key, value in row.items() if value is not None)))
    return sorted(found, key=repr)


def reported(found, clock, since, fields, size):
    """The answers that a query with a past reports; those of objects have only the end of their window."""
    if "type: incomplete" in fields:
        return [row for row in found if row[0] - size >= clock - since and row[0] > clock]
    return within(found, clock, since, fields)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 24))])
@pytest.mark.parametrize("kinds", [AGGREGATES, OBJECTS], ids=["aggregate", "incomplete"])
def test_totals_and_objects_bring_their_past(tmp_path, kinds, seed):
    """The shards are replaced; what the other query has reported, and its own past, is not changed by that."""
    draw = random.Random(repr(("families", seed)))
    batches = some_batches(draw)
    base, fields = draw.choice(kinds), kinds[seed % len(kinds)]
    size = int(fields.partition("size: ")[2].split()[0]) * S if "size: all" not in fields and "size: " in fields else 0
    # Rows are not late: with more window bounds, fewer rows behind the watermark are in an open pane.
    settings = {"draw_id": draw.choice(["", "id: id,"]), "delay": 12}
    joins, since = draw.randint(1, len(batches) - 1), draw.choice([5, 15, 50, 500])
    first = f"{{name: base, {base}}}"
    file, clock = read(tmp_path / "a", [first, f"{{name: new, {fields}}}"], **settings), None
    for number, batch in enumerate(batches):
        write(tmp_path / "a", batch, number)
        caught_up(file)
    finished(file)
    want = of_family(tmp_path / "a", "new")
    file = read(tmp_path / "b", [first], **settings)
    for number, batch in enumerate(batches):
        write(tmp_path / "b", batch, number)
        if number == joins:
            clock = state_of(file)["watermark"]
            file = read(tmp_path / "b", [first, f"{{name: new, {fields}, since: {since} seconds}}"], **settings)
        caught_up(file)
    segments = file.checkpoint_of("rows")
    needed = {name for unit in state_of(file)["units"] for name in unit["segments"].values()}
    assert {path.name for path in (Path(segments) / "local" / "segments").iterdir()} == needed
    finished(file)
    assert of_family(tmp_path / "b", "new") == reported(want, clock, since * S, fields, size)
    assert of_family(tmp_path / "b", "base") == of_family(tmp_path / "a", "base")


@pytest.mark.long
@pytest.mark.parametrize(
    ("base", "fields", "text"),
    [
        (BASE[0], "k: 2, size: all, slide: 6 seconds, by: x", "TOPK x, 2 OVER ALL EVERY 6 SECONDS"),
        (f"{{name: base, {AGGREGATES[0]}}}", AGGREGATES[3], "TOPK sum(x), 2 BY KEY g OVER ALL EVERY 7 SECONDS"),
        (f"{{name: base, {AGGREGATES[0]}}}", AGGREGATES[1], "TOPK max(x), 3 BY KEY g OVER 40 SECONDS EVERY 10 SECONDS"),
    ],
)
def test_a_running_stream_takes_a_landmark_and_totals_with_their_past(tmp_path, base, fields, text):
    batches = some_batches(random.Random(5))[:4]
    file = read(tmp_path / "a", [base, f"{{name: new, {fields}}}"], delay=12)
    for number, batch in enumerate(batches):
        write(tmp_path / "a", batch, number)
        caught_up(file)
    finished(file)
    file = read(tmp_path / "b", [base], delay=12)
    write(tmp_path / "b", batches[0], 0)
    running = run_local(file, "stream")
    changes, query, clock = LocalChanges(running), sb.sql(f"new: {text}"), None
    for number, batch in enumerate(batches):
        if number:
            write(tmp_path / "b", batch, number)
        wait_for(lambda number=number: running.metrics()["rows"]["batches"] == number + 1)
        if number == 1:
            wait_for(lambda: state_of(file)["batch"] == 1)
            if query.size is None:
                with pytest.raises(sb.InvalidQueryError, match="Add it with --since"):
                    changes.add(query, None)
            assert "valid from" in changes.add(query, None, 3600 * S)
            clock = state_of(file)["watermark"]
    running.finish()
    assert running.await_end(300)
    assert of_family(tmp_path / "b", "new") == [row for row in of_family(tmp_path / "a", "new") if row[1] > clock]
    assert of_family(tmp_path / "b", "base") == of_family(tmp_path / "a", "base")


def test_a_landmark_of_other_keys_needs_its_past(tmp_path):
    first = "{name: base, type: aggregate, k: 1, size: 9 seconds, key: g, aggregate: count}"
    second = "{name: new, type: aggregate, k: 1, size: all, slide: 5 seconds, key: cast(n AS STRING), value: x"
    write(tmp_path, [(1000 * S, 1.0, 1, "a")], 0)
    caught_up(read(tmp_path, [first]))
    with pytest.raises(sb.InvalidInputError, match="has everything since 1970"):
        run_local(read(tmp_path, [first, f"{second}}}"]), "catch-up")
    write(tmp_path, [(1020 * S, 2.0, 1, "a")], 1)
    file = read(tmp_path, [first, f"{second}, since: 1 second}}"])
    caught_up(file)
    finished(file)
    assert max(row[-1] for row in of_family(tmp_path, "new")) == ("score", 3.0)


def test_changes_of_a_query_that_brings_its_past_begin_with_its_first_answer(tmp_path):
    """And those of the other query continue."""
    first, sink = f"{{name: base, {AGGREGATES[0]}}}", "sinks: [{type: parquet, path: out, output: changes}]\n"
    rows = [[(at * S, float(at % 3), at % 4, "ab"[at % 2])] for at in range(1000, 1040, 4)]
    changes = {}
    for folder, joins in (("alone", None), ("joined", 5)):
        file = read(tmp_path / folder, [first], more=sink)
        for number, batch in enumerate(rows):
            write(tmp_path / folder, batch, number)
            if number == joins:
                second = f"{{name: new, {AGGREGATES[0].replace('value: x', 'value: n')}, since: 1 hour}}"
                file = read(tmp_path / folder, [first, second], more=sink)
            caught_up(file)
        finished(file)
        changes[folder] = of_family(tmp_path / folder, "base")
    assert changes["joined"] == changes["alone"]
    new = of_family(tmp_path / "joined", "new")
    begun = min(row[1] for row in new)
    assert {row for row in new if row[1] == begun} == {
        row for row in new if row[1] == begun and ("change", "entered") in row
    }


CHANCES = (
    "type: uncertain, k: 2, size: 20 seconds, every: 5 seconds, by: x, probability: '0.5'",
    "type: uncertain, k: 3, size: 20 seconds, every: 10 seconds, by: x, probability: '0.5'",
    "type: uncertain, k: 1, size: 35 seconds, every: 5 seconds, by: x, probability: '1d / (n + 1)', where: x > 1",
    "type: uncertain, k: 2, size: 20 seconds, every: 10 seconds, by: x, probability: '0.25', semantics: u-kranks",
)


@pytest.mark.parametrize("seed", range(8))
def test_uncertain_queries_bring_their_past(tmp_path, seed):
    """From the joining on, all queries are answered at the moments of a plan that was always for all of them."""
    draw = random.Random(repr(("uncertain", seed)))
    batches = some_batches(draw)
    base, fields = draw.choice(CHANCES), CHANCES[seed % len(CHANCES)]
    size = int(fields.partition("size: ")[2].split()[0]) * S
    settings = {"draw_id": "id: id,", "delay": draw.choice([2, 12])}
    joins, since = draw.randint(1, len(batches) - 1), draw.choice([5, 15, 50, 500])
    first = f"{{name: base, {base}}}"
    file, clock = read(tmp_path / "a", [first, f"{{name: new, {fields}}}"], **settings), None
    for number, batch in enumerate(batches):
        write(tmp_path / "a", batch, number)
        caught_up(file)
    finished(file)
    file = read(tmp_path / "b", [first], **settings)
    for number, batch in enumerate(batches):
        write(tmp_path / "b", batch, number)
        if number == joins:
            clock = state_of(file)["watermark"]
            file = read(tmp_path / "b", [first, f"{{name: new, {fields}, since: {since} seconds}}"], **settings)
        caught_up(file)
    finished(file)
    want = of_family(tmp_path / "a", "new")
    assert of_family(tmp_path / "b", "new") == [
        row for row in want if row[0] - size >= clock - since * S and row[0] > clock
    ]
    later = [row for row in of_family(tmp_path / "a", "base") if row[0] > clock]
    assert [row for row in of_family(tmp_path / "b", "base") if row[0] > clock] == later


@pytest.mark.parametrize(
    ("base", "fields", "error"),
    [
        ("type: uncertain, by: x, probability: '0.5', size: 8, every: 4", "", sb.UnsupportedError),
        ("type: aggregate, key: g, value: x, size: 8, slide: 4", "", sb.SnapshotError),
        ("type: aggregate, key: g, value: x, size: 8, slide: 4", ", partition_by: [g]", sb.SnapshotError),
        (f"type: incomplete, {OF_OBJECTS}, size: 8, every: 4", "", sb.SnapshotError),
    ],
)
def test_count_windows_have_no_past(tmp_path, base, fields, error):
    write(tmp_path, [(1000 * S + place * S, 1.0, 1, "a") for place in range(9)], 0)
    first = f"{{name: base, k: 2, {base}}}"
    caught_up(read(tmp_path, [first]))
    joined = read(tmp_path, [first, f"{{name: new, k: 1, {base}{fields}, since: 1 day}}"])
    before = state_of(joined)
    with pytest.raises(error, match="query 'new'"):
        run_local(joined, "catch-up")
    assert repr(state_of(joined)) == repr(before)
    caught_up(read(tmp_path, [first]))


def test_a_past_is_that_of_new_queries_only(tmp_path):
    """Also if a query that joins has other keys, which are in new shards."""
    base = "{name: base, type: aggregate, k: 2, size: 40 seconds, slide: 5 seconds, key: g, value: x, since: 1 second}"
    new = "{name: new, type: aggregate, k: 2, size: 10 seconds, key: cast(n AS STRING), value: x}"
    batches = [[(at * S, float(at % 3), at % 4, "ab"[at % 2]) for at in range(1000 + n, 1040, 4)] for n in (0,)]
    batches += [[(at * S, float(at % 3), at % 4, "ab"[at % 2])] for at in range(1040, 1090, 5)]
    for folder, joins in (("alone", None), ("joined", 3)):
        queries = [base]
        for number, batch in enumerate(batches):
            queries += [new] if number == joins else []
            write(tmp_path / folder, batch, number)
            caught_up(file := read(tmp_path / folder, queries))
        finished(file)
    found = of_family(tmp_path / "joined", "base")
    assert found == of_family(tmp_path / "alone", "base")
    assert len({row[1] for row in found}) > 20
    starts = {row[0] for row in of_family(tmp_path / "joined", "new")}
    assert min(starts) == 1050 * S
