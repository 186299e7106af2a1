"""Parquet files in place of data frames: the same answers as over the frame, and errors that name the file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.data.parquet import numbered_texts
from skyband.errors import InvalidInputError
from skyband.local.parquet_file import ParquetFile

ALL = sb.TopK(name="all", k=3, size="20 seconds", slide="5 seconds", by="price * size")
EACH = sb.TopK(name="each", k=2, size="30 seconds", slide="10 seconds", by="price", partition_by=["symbol"])
FEW = sb.TopK(name="few", k=2, size=20, by="price", where="venue <> 'N'")
BUSY = sb.AggregateTopK(k=2, size="30 seconds", slide="10 seconds", key="symbol", value="size")
HEAVY = sb.IncompleteTopK(
    k=2, size="30 seconds", every="10 seconds", object="size % 5", stream="venue", value="price", bounds=(0, 9)
)


def trades(seed, rows=400):
    """Rows with nulls in every column; few symbols and venues, and notes of their own."""
    rng = np.random.default_rng(seed)

    def column(values, kind=None):
        return pa.array(values, kind, mask=rng.random(rows) < 0.05)

    return pa.table(
        {
            "ts": column(rng.integers(0, 100_000_000, rows), pa.int64()).cast(pa.timestamp("us")),
            "symbol": column([f"S{number}" for number in rng.integers(0, 5, rows)]),
            "venue": column(np.array(["D", "N", "Q"])[rng.integers(0, 3, rows)].tolist()),
            "note": column([f"note {number}" for number in range(rows)]),
            "price": column(rng.integers(0, 9, rows).astype(float)),
            "size": column(rng.integers(1, 9, rows), pa.int32()),
            "id": pa.array(range(rows), pa.uint32()),
        }
    )


@pytest.mark.parametrize(
    "queries", [[ALL, EACH], [FEW], [BUSY], [HEAVY]], ids=["topk", "count", "aggregate", "incomplete"]
)
@pytest.mark.parametrize("id_", ["id", None])
@pytest.mark.parametrize("groups", [1, 5])
def test_a_file_has_the_answers_of_its_frame(tmp_path, queries, id_, groups):
    """With an id, texts are read as dictionaries; each row group has its own."""
    table = trades(groups)
    path = tmp_path / "trades.parquet"
    pq.write_table(table, path, row_group_size=400 // groups)
    time = None if queries == [FEW] else "ts"
    found = sb.replay(queries, path, time=time, id=id_)
    assert len(found)
    assert found.to_arrow().equals(sb.replay(queries, table, time=time, id=id_).to_arrow())
    assert sb.replay(queries, str(path), time=time, id=id_).to_arrow().equals(found.to_arrow())


def test_only_texts_of_few_values_are_numbered(tmp_path):
    path = tmp_path / "trades.parquet"
    pq.write_table(trades(1), path)
    names = ["symbol", "venue", "note", "price", "missing"]
    assert numbered_texts(pq.read_metadata(path), names) == ["symbol", "venue"]
    kinds = ParquetFile(path).read({"symbol", "note", "size"}, {"symbol", "note"}).schema
    assert kinds.names == ["symbol", "note", "size"]
    assert pa.types.is_dictionary(kinds.field("symbol").type)
    assert kinds.field("note").type == pa.string()


def test_other_columns_are_read_only_where_answers_are(tmp_path, monkeypatch):
    """With one core nothing is read ahead. Rows are given out of order, and a time is missing."""
    table = trades(7).set_column(4, "price", pa.array([float(row // 40 == 3) or None for row in range(400)]))
    path = tmp_path / "trades.parquet"
    pq.write_table(table, path, row_group_size=40)
    read, original = [], ParquetFile.read

    def recorded(file, columns=None, texts=(), group=None):
        read.append((group, sorted(columns)))
        return original(file, columns, texts, group)

    monkeypatch.setattr(ParquetFile, "read", recorded)
    for cores, times in ((1, {3}), (4, set(range(10)))):
        monkeypatch.setattr(pa, "cpu_count", lambda cores=cores: cores)
        read.clear()
        found = sb.replay(ALL, path, time="ts", id="id")
        assert len(found)
        assert found.to_arrow().equals(sb.replay(ALL, table, time="ts", id="id").to_arrow())
        assert sorted(names for group, names in read if group is None) == [["price"], ["size"], ["ts"]]
        assert {3} <= {group for group, _ in read if group is not None} <= times
        assert {name for group, names in read if group == 3 for name in names} == {"id", "note", "symbol", "venue"}


def test_a_column_that_cannot_be_read_stops_the_call(tmp_path):
    path = tmp_path / "trades.parquet"
    pq.write_table(trades(1), path, compression="none")
    chunk = pq.read_metadata(path).row_group(0).column(3)
    data = bytearray(path.read_bytes())
    data[chunk.dictionary_page_offset : chunk.dictionary_page_offset + 40] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match="cannot be read as Parquet"):
        sb.replay(ALL, path, time="ts", id="id")


def test_what_is_no_parquet_file_is_named(tmp_path):
    (tmp_path / "no.parquet").write_text("ts,price\n")
    for path, why in (("no.parquet", "cannot be read as Parquet"), ("none.parquet", "cannot be read as Parquet"),
                      ("rows.csv", "must be of a Parquet file")):  # fmt: skip
        with pytest.raises(InvalidInputError, match=why) as raised:
            sb.replay(ALL, tmp_path / path, time="ts")
        assert path in str(raised.value)
    with pytest.raises(InvalidInputError, match="scores= is for arrays"):
        sb.replay(ALL, "trades.parquet", [1.0], time="ts")
