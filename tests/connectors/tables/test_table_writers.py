"""Writers of Delta and Iceberg tables: each micro-batch once, wherever it is interrupted; problems at the start."""

from __future__ import annotations

import random
import threading
import time

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import skyband as sb
from tests.connectors.tables.places import KINDS, QUERY, catalog_of, opened, rows_in

OTHER = sb.TopK(name="other", k=2, size="1 minute", by="size")
TIME = pa.timestamp("us", "UTC")


def answers(batch, queries=("big",), **more):
    n = len(queries)
    ends = pa.array([batch * 60_000_000] * n, TIME)
    columns = {"query": list(queries), "window_end": ends, "rank": pa.array([1] * n, pa.int32()), "score": [1.5] * n}
    return pa.table({**columns, **more})


def numbers(kind, folder, query="big"):
    found = rows_in(kind, folder).to_pylist()
    return sorted(int(row["window_end"].timestamp()) // 60 for row in found if row["query"] == query)


def ready(kind, folder, rows=None, **more):
    writer = opened(kind, folder, **more)
    writer.reach()
    writer.prepare((answers(0) if rows is None else rows).slice(0, 0))
    return writer


class Killed(BaseException):
    """Ends a process at this point."""


def interrupt(kind, monkeypatch, place):
    """Let the next commit fail: before it, or after it, when the writer has not yet noticed."""
    from pyiceberg.catalog.sql import SqlCatalog

    from skyband.connectors import delta_writer

    owner, name = (delta_writer, "write_deltalake") if kind == "delta" else (SqlCatalog, "commit_table")
    real = getattr(owner, name)

    def once(*args, **more):
        monkeypatch.setattr(owner, name, real)
        if place == "after":
            real(*args, **more)
        raise Killed

    monkeypatch.setattr(owner, name, once)


@pytest.mark.parametrize("kind", KINDS)
def test_every_batch_is_written_once_wherever_a_process_is_killed(tmp_path, monkeypatch, kind):
    rng, writer = random.Random(7), ready(kind, tmp_path)
    for batch in range(8):
        while rng.random() < 0.6:
            interrupt(kind, monkeypatch, rng.choice(["before", "after"]))
            try:
                writer.take(batch, answers(batch))
            except Killed:
                writer = ready(kind, tmp_path)  # the next process repeats the batch
            else:
                monkeypatch.undo()  # the batch was there already
                break
        writer.take(batch, answers(batch))
    assert numbers(kind, tmp_path) == list(range(8))
    assert [path.name[-8:] for path in ready(kind, tmp_path).files()] == ["00000007"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_batch_adds_only_the_answers_of_new_and_changed_queries(tmp_path, kind):
    ready(kind, tmp_path).take(3, answers(3))
    writer = ready(kind, tmp_path, queries=[QUERY, OTHER])
    writer.take(3, answers(3, ["big", "other"]))
    writer.take(3, answers(3, ["big", "other"]))
    assert (numbers(kind, tmp_path), numbers(kind, tmp_path, "other")) == ([3], [3])
    changed = sb.TopK(name="other", k=9, size="1 minute", by="size")
    ready(kind, tmp_path, queries=[QUERY, changed]).take(3, answers(3, ["big", "other"]))
    assert (numbers(kind, tmp_path), numbers(kind, tmp_path, "other")) == ([3], [3, 3])


EACH = sb.TopK(name="each", k=2, size="1 minute", by="price", partition_by=["g"])


def emitted(rng, batch):
    """Answers of a micro-batch as (query, end, group, final, revision) -> scores; groups and ends repeat."""
    found = {}
    for _ in range(rng.randint(1, 5)):
        query = rng.choice(["big", "each"])
        end, group = rng.randint(max(0, batch - 3), batch), rng.choice(["a", None, "b"])
        mark = rng.choice([(False, 0), (True, 0), (True, batch)])
        found[query, end, group if query == "each" else None, *mark] = [rng.random() for _ in range(rng.randint(1, 3))]
    return found


def as_table(answers):
    rows = [
        (query, end * 60_000_000, final, revision, rank, score, group if query == "each" else rank * "x")
        for (query, end, group, final, revision), scores in answers.items()
        for rank, score in enumerate(scores, 1)
    ]
    query, end, final, revision, rank, score, g = zip(*rows, strict=True)
    int32 = pa.int32()
    columns = {"query": query, "window_end": pa.array(end, TIME), "final": final, "revision": pa.array(revision, int32)}
    return pa.table({**columns, "rank": pa.array(rank, int32), "score": score, "g": pa.array(g, pa.string())})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 12))])
def test_later_answers_of_a_window_replace_earlier_ones_wherever_a_process_is_killed(tmp_path, monkeypatch, kind, seed):
    """Also answers with fewer rows, and of a group that is null; `g` is no group of the other query."""
    rng = random.Random(seed)
    queries = [QUERY, EACH]
    writer = ready(kind, tmp_path, rows=as_table(emitted(rng, 0)), queries=queries)
    foreign = ready(kind, tmp_path, queries=[OTHER], stream="t")
    foreign.take(5, answers(5, ["other"]))
    wanted = {}
    for batch in range(10):
        found = emitted(rng, batch)
        for window in {key[:3] for key in found}:
            wanted[window] = found[max((key for key in found if key[:3] == window), key=lambda key: key[3:])]
        while rng.random() < 0.4:
            interrupt(kind, monkeypatch, rng.choice(["before", "after"]))
            try:
                writer.take(batch, as_table(found))
            except Killed:
                writer = ready(kind, tmp_path, rows=as_table(found), queries=queries)
            else:
                monkeypatch.undo()
                break
        writer.take(batch, as_table(found))
        if kind == "delta" and seed % 2:
            DeltaTable(str(tmp_path / "answers")).optimize.compact()
    held = {}
    for row in rows_in(kind, tmp_path).sort_by("rank").to_pylist():
        if row["query"] != "other":
            end, group = int(row["window_end"].timestamp()) // 60, row["g"] if row["query"] == "each" else None
            held.setdefault((row["query"], end, group), []).append(row["score"])
    assert held == wanted
    assert numbers(kind, tmp_path, "other") == [5]


@pytest.mark.parametrize("kind", KINDS)
def test_later_answers_in_files_of_tasks_replace_earlier_ones(tmp_path, kind):
    first, second = ({("each", 3, "a", final, 0): [1.0] * size} for final, size in ((False, 3), (True, 2)))
    writer = ready(kind, tmp_path, rows=as_table(first), queries=[EACH], writers="tasks")
    for batch, found in enumerate([first, second]):
        writer.take_files(batch, [writer.task_writer()(as_table(found))], None)
    assert [(row["rank"], row["final"]) for row in rows_in(kind, tmp_path).sort_by("rank").to_pylist()] == [
        (1, True),
        (2, True),
    ]
    assert len(list(tmp_path.rglob("*.parquet"))) >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_removed_and_batches_begin_again(tmp_path, kind):
    foreign = ready(kind, tmp_path, queries=[OTHER], stream="t")
    foreign.take(5, answers(5, ["other"]))
    writer = ready(kind, tmp_path)
    assert not writer.holds_rows()  # the other stream's rows are not its own
    for batch in range(3):
        writer.take(batch, answers(batch))
    assert writer.holds_rows()
    writer.clear()
    assert not writer.holds_rows()
    writer = ready(kind, tmp_path)
    assert not writer.files()
    writer.take(0, answers(0))
    assert (numbers(kind, tmp_path), numbers(kind, tmp_path, "other")) == ([0], [5])


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_column_is_added_and_an_absent_one_is_null(tmp_path, kind):
    writer = ready(kind, tmp_path)
    writer.take(0, answers(0))
    writer.take(1, answers(1, symbol=["a"]))
    writer.take(2, answers(2))
    found = sorted((row["window_end"], row["symbol"]) for row in rows_in(kind, tmp_path).to_pylist() if row["symbol"])
    assert len(found) == 1
    assert numbers(kind, tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_that_does_not_fit_is_reported_before_anything_is_written(tmp_path, kind):
    ready(kind, tmp_path).take(0, answers(0))
    writer = opened(kind, tmp_path)
    writer.reach()
    with pytest.raises(sb.InvalidInputError, match=r"column 'score' has type double, but answers have .*string"):
        writer.prepare(answers(1).set_column(3, "score", pa.array(["x"])))
    assert numbers(kind, tmp_path) == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_disappears_is_not_created_again(tmp_path, kind):
    import shutil

    writer = ready(kind, tmp_path)
    writer.take(0, answers(0))
    if kind == "delta":
        shutil.rmtree(tmp_path / "answers")
    else:
        catalog_of(tmp_path).drop_table("db.answers")
    with pytest.raises(sb.InvalidInputError, match="does not exist any more"):
        writer.take(1, answers(1))


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_copy_of_the_state_is_rejected(tmp_path, kind):
    ready(kind, tmp_path).take(7, answers(7))
    with pytest.raises(sb.InvalidInputError, match="contains micro-batch 7 of this stream, but micro-batch 6"):
        ready(kind, tmp_path).take(6, answers(6))
    assert numbers(kind, tmp_path) == [7]


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_without_rights_is_reported(tmp_path, kind):
    (tmp_path / "answers").write_text("a file, not a folder")
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(sb.InvalidInputError, match=r"table '.*' cannot be used: .*Nothing was written"):
        ready(kind, tmp_path)


def test_two_streams_write_to_one_table_at_the_same_time(tmp_path):
    writers = {stream: ready("delta", tmp_path, stream=stream) for stream in "ab"}

    def write(stream):
        for batch in range(5):
            writers[stream].take(batch, answers(batch))

    threads = [threading.Thread(target=write, args=stream) for stream in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers("delta", tmp_path) == sorted([*range(5)] * 2)


def iceberg(folder):
    return catalog_of(folder).load_table("db.answers")


def sizes(folder, kind="delta"):
    from deltalake import DeltaTable

    if kind == "iceberg":
        return sorted(task.file.file_size_in_bytes for task in iceberg(folder).scan().plan_files())

    found = pa.table(DeltaTable(str(folder / "answers")).get_add_actions(flatten=True))
    return sorted(found["size_bytes"].to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_small_files_are_merged_beside_the_stream(tmp_path, kind):
    writer = ready(kind, tmp_path, compact="1 millisecond")
    for batch in range(6):
        writer.take(batch, answers(batch))
    writer.close()
    writer.take(6, answers(6))
    writer.close()
    assert len(sizes(tmp_path, kind)) == 1
    ready(kind, tmp_path).take(6, answers(6))  # still known as written
    assert numbers(kind, tmp_path) == list(range(7))


def test_compactions_of_iceberg_replace_files_and_change_no_rows(tmp_path):
    """Large files, and files with deleted rows, stay; commits of the stream at the same time win or are repeated."""
    from skyband.connectors.delta_compaction import Compaction
    from skyband.connectors.iceberg_compaction import IcebergCompactor

    writer = ready("iceberg", tmp_path)
    for batch in range(6):
        writer.take(batch, answers(batch))

    def operations():
        return [one.summary.operation.value for one in iceberg(tmp_path).snapshots()]

    before = sizes(tmp_path, "iceberg")
    IcebergCompactor(lambda: iceberg(tmp_path), Compaction(0.0, max(before)), "t").compact()
    assert sizes(tmp_path, "iceberg") == before  # none is small
    IcebergCompactor(lambda: iceberg(tmp_path), Compaction(0.0, 2 * max(before)), "t").compact()
    assert len(sizes(tmp_path, "iceberg")) == 3
    assert operations() == ["append"] * 6 + ["replace"] * 3
    held = iceberg(tmp_path)
    writer.take(6, answers(6))  # after the compaction has read the table
    IcebergCompactor(lambda: held, Compaction(0.0), "t").compact()
    assert len(sizes(tmp_path, "iceberg")) == 2
    assert numbers("iceberg", tmp_path) == list(range(7))
    writer.take(7, answers(7))
    ready("iceberg", tmp_path).take(7, answers(7))
    assert numbers("iceberg", tmp_path) == list(range(8))


def test_a_compaction_of_iceberg_gives_up_if_its_files_are_gone(tmp_path, caplog):
    from skyband.connectors.delta_compaction import Compaction
    from skyband.connectors.iceberg_compaction import IcebergCompactor

    writer = ready("iceberg", tmp_path)
    for batch in range(3):
        writer.take(batch, answers(batch))
    held = iceberg(tmp_path)
    iceberg(tmp_path).delete("query = 'big'")
    IcebergCompactor(lambda: held, Compaction(0.0), "t").compact()
    assert not sizes(tmp_path, "iceberg")
    assert numbers("iceberg", tmp_path) == []
    IcebergCompactor(lambda: 1 / 0, Compaction(0.0), "the table").compact()
    assert "the table: small files were not merged: division by zero" in caplog.text


def test_files_are_merged_at_an_age_and_to_a_size_also_by_short_runs(tmp_path, monkeypatch):
    from deltalake import DeltaTable

    from skyband.connectors import delta_compaction

    now = time.time()
    for batch in range(4):  # each run ends after one micro-batch
        ready("delta", tmp_path, compact="1 hour").take(batch, answers(batch))
    assert len(sizes(tmp_path)) == 4
    monkeypatch.setattr(delta_compaction, "time", lambda: now + 4000)
    for batch, files in ((4, 2), (5, 1)):
        # Two files of this size are merged, not three; the size of a merged file decides whether it is small.
        whole = sum(sizes(tmp_path)) * (0.7 if batch == 4 else 20)
        writer = ready("delta", tmp_path, compact="1 hour", compact_size=f"{max(1, round(whole / 1024))} KB")
        writer.take(batch, answers(batch))
        writer.close()
        assert len(sizes(tmp_path)) <= files + 1
    assert len(sizes(tmp_path)) == 1
    assert len(list((tmp_path / "answers").glob("*.parquet"))) > 5
    writer = ready("delta", tmp_path, compact="1 hour", vacuum="0 seconds")
    writer.take(6, answers(6))
    writer.close()
    assert len(list((tmp_path / "answers").glob("*.parquet"))) == len(sizes(tmp_path)) == 1
    assert numbers("delta", tmp_path) == list(range(7))
    history = [one["operation"] for one in DeltaTable(str(tmp_path / "answers")).history()]
    assert "OPTIMIZE" in history


def test_a_compaction_that_fails_or_takes_long_does_not_delay_answers(tmp_path, monkeypatch, caplog):
    from skyband.connectors.delta_compaction import Compactor

    begun, release, real = threading.Event(), threading.Event(), Compactor.compact

    def slow(self):
        begun.set()
        assert release.wait(60)
        monkeypatch.setattr(self, "_load", lambda: 1 / 0)
        real(self)

    monkeypatch.setattr(Compactor, "compact", slow)
    writer = ready("delta", tmp_path, compact="0 seconds")
    for batch in range(5):
        writer.take(batch, answers(batch))
    assert begun.wait(60)
    assert numbers("delta", tmp_path) == list(range(5))  # while it runs
    release.set()
    writer.close()
    assert "small files were not merged: division by zero" in caplog.text


def test_keys_of_compaction():
    for keys, says in (
        ({"compact_size": "1 GB"}, "compact_size: requires compact"),
        ({"vacuum": "7 days"}, "vacuum: requires compact"),
        ({"compact": "1 hour", "compact_size": "big"}, "must be a size such as 128 MB, got 'big'"),
        ({"compact": "1 hour", "compact_size": "0 MB"}, "must be a size such as 128 MB, got '0 MB'"),
    ):
        with pytest.raises(sb.InvalidInputError, match=says):
            sb.sinks.Delta(path="answers", **keys)
    with pytest.raises(sb.InvalidInputError, match="compact_size: requires compact"):
        sb.sinks.Iceberg(table="a.b", catalog="https://c", compact_size="1 GB")


def part(writer, batch, queries=("big",), **more):
    return writer.task_writer()(answers(batch, queries, **more))


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_tasks_are_added_once_wherever_a_process_is_killed(tmp_path, monkeypatch, kind):
    from deltalake import DeltaTable
    from pyiceberg.catalog.sql import SqlCatalog

    owner, name = (DeltaTable, "create_write_transaction") if kind == "delta" else (SqlCatalog, "commit_table")
    real, writer = getattr(owner, name), ready(kind, tmp_path)
    for batch, place in enumerate(["before", "after", "never"] * 2):

        def commit(*args, at=place, **more):
            if at == "after":
                real(*args, **more)
            raise Killed

        if place != "never":
            monkeypatch.setattr(owner, name, commit)
            with pytest.raises(Killed):
                writer.take_files(batch, [part(writer, batch), part(writer, batch)], answers(batch))
            monkeypatch.setattr(owner, name, real)
            writer = ready(kind, tmp_path)
        writer.take_files(batch, [part(writer, batch), part(writer, batch)], answers(batch))
    assert numbers(kind, tmp_path) == sorted([*range(6)] * 3)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_tasks_with_new_columns_and_of_new_queries(tmp_path, kind):
    writer = ready(kind, tmp_path)
    writer.take_files(0, [part(writer, 0)], None)
    writer.take_files(1, [part(writer, 1, symbol=["a"])], None)
    writer = ready(kind, tmp_path, queries=[QUERY, OTHER])
    writer.take_files(1, [part(writer, 1, ["big", "other"])], answers(1, ["other"]))
    assert (numbers(kind, tmp_path), numbers(kind, tmp_path, "other")) == ([0, 1], [1, 1])
    with pytest.raises(sb.InvalidInputError, match="column 'symbol' has type"):
        writer.take_files(2, [part(writer, 2, symbol=[2.5])], None)
    assert numbers(kind, tmp_path) == [0, 1]
