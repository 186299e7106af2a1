"""Columns with more text than one array holds: answers are those of the same rows in one chunk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.data import arrow

WINDOW = {"size": "40 seconds", "slide": "20 seconds"}
QUERIES = {
    "plain": sb.TopK(name="q", k=2, by="s", **WINDOW),
    "grouped": sb.TopK(name="q", k=2, by="s", partition_by=["text"], **WINDOW),
    "ordered": sb.TopK(name="q", k=3, by=["text desc", "s asc"], **WINDOW),
    "distinct": sb.TopK(name="q", k=3, by="s", distinct="text", **WINDOW),
    "computed": sb.TopK(name="q", k=3, by="length(text) + s", where="text like '%a%'", **WINDOW),
    "keys": sb.AggregateTopK(name="q", k=2, key="text", aggregate="max", value="s", row=True, **WINDOW),
    "uncertain": sb.UncertainTopK(
        name="q", k=2, by="s", semantics="pk-topk", probability="0.5", where="text like '%a%'", size="40 seconds"
    ),
}


def in_chunks(text, rows=60):
    """A table whose text is in several chunks, and the same table in one chunk."""
    random = np.random.default_rng(7)
    parts = [random.integers(0, len(text), size) for size in (7, 1, rows - 8)]
    chunks = pa.chunked_array([text.take(pa.array(part)) for part in parts])
    columns = {
        "ts": pa.array(np.arange(rows) * 1_000_000).cast(pa.timestamp("us", "UTC")),
        "s": random.integers(0, 9, rows).astype(float),
        "id": np.arange(rows),
    }
    return pa.table({**columns, "text": chunks}), pa.table({**columns, "text": pa.concat_arrays(chunks.chunks)})


@pytest.fixture
def small_arrays(monkeypatch):
    """As if an array held 40 bytes of text."""
    combine = arrow._combined

    def limited(column):
        if column.type in (pa.string(), pa.binary()) and column.nbytes > 40:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return combine(column)

    monkeypatch.setattr(arrow, "_combined", limited)


@pytest.mark.parametrize("name", QUERIES)
def test_replay_of_a_column_in_several_arrays(name, small_arrays):
    chunks, whole = in_chunks(pa.array(["a", "bab", "ccc", None, "aa"]))
    extra = {} if name == "uncertain" else {"id": "id"}
    expected = sb.replay(QUERIES[name], whole, time="ts", **extra)
    found = sb.replay(QUERIES[name], chunks, time="ts", **extra)
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist() != []


def test_one_array_has_wide_offsets_only_if_it_must(small_arrays):
    short, long = pa.chunked_array([["a"], ["b"]]), pa.chunked_array([["a" * 50], [None, "b"]])
    assert arrow.one(short).type == pa.string()
    assert arrow.one(long).equals(pa.array(["a" * 50, None, "b"], pa.large_string()))
    assert arrow.with_wide_offsets(pa.struct([("a", pa.binary()), ("b", pa.int8())])) == pa.struct(
        [("a", pa.large_binary()), ("b", pa.int8())]
    )


def test_rows_are_taken_from_their_chunks():
    random = np.random.default_rng(3)
    chunks = pa.chunked_array(
        [pa.array(range(low, high), pa.int64()) for low, high in ((0, 5), (5, 5), (5, 6), (6, 20))]
    )
    table = pa.table({"n": chunks, "text": chunks.cast(pa.string())})
    for size in (0, 1, 7, 40):
        rows = random.integers(0, 20, size)
        assert arrow.taken(table, rows).to_pylist() == [{"n": row, "text": str(row)} for row in rows]


def test_a_push_with_more_text_than_an_array_holds_is_rejected(small_arrays):
    monitor = sb.Monitor(sb.TopK(name="q", k=2, size=10, partition_by=["g"]))
    monitor.push(None, [1.0, 2.0], groups=["a", "b"])
    groups = pa.chunked_array([["a" * 50], ["b"]])
    with pytest.raises(sb.InvalidInputError, match="Push fewer rows at a time, or always pass the column as large_str"):
        monitor.push(None, [1.0, 2.0], groups=groups)
    monitor.push(None, [3.0, 4.0], groups=["a" * 50, "b"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", "ordered", "distinct"])
def test_gigabytes_of_text(name):
    """230 values of 10 MB, on the same memory."""
    values = [pa.array([letter * 10_000_000]) for letter in "ab"]
    rows = 230
    table = pa.table(
        {
            "ts": pa.array(np.arange(rows) * 1_000_000).cast(pa.timestamp("us", "UTC")),
            "s": np.arange(rows) * 7.0 % 231,
            "id": np.arange(rows),
            "text": pa.chunked_array([values[row % 2] for row in range(rows)]),
        }
    )
    short = table.set_column(3, "text", pa.array(["ab"[row % 2] for row in range(rows)]))
    found, expected = (sb.replay(QUERIES[name], each, time="ts", id="id") for each in (table, short))
    assert found["id"].to_pylist() == expected["id"].to_pylist() != []
    assert found["text"].type == pa.string()
    assert [len(text.as_py()) for text in found["text"][:5]] == [10_000_000] * 5
