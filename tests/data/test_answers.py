"""Answers are an Arrow table with more ways out."""

from __future__ import annotations

import copy
import pickle

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skyband as sb

TABLE = pa.table({"query": ["a", "<b>"], "score": [1234567.0, None], "rank": [1, 2]})


def test_it_is_the_table():
    found = sb.Answers(TABLE)
    assert found.to_arrow() is TABLE
    assert found.num_rows == len(found) == 2
    assert found.column_names == ["query", "score", "rank"]
    assert found["rank"].to_pylist() == found.column("rank").to_pylist() == [1, 2]
    assert list(found) == TABLE.to_pylist()
    assert pa.table(found) == TABLE
    with pytest.raises(AttributeError):
        _ = found.no_such_thing


def test_it_compares_by_rows():
    found = sb.Answers(TABLE)
    assert found == sb.Answers(TABLE)
    assert found == TABLE
    assert found != TABLE.slice(1)
    assert found != [1]
    with pytest.raises(TypeError, match="answers cannot be hashed"):
        hash(found)


def test_it_can_be_copied():
    found = sb.Answers(TABLE)
    assert copy.copy(found) == copy.deepcopy(found) == pickle.loads(pickle.dumps(found)) == found


def test_other_libraries():
    found = sb.Answers(TABLE)
    assert isinstance(found.to_pandas(), pd.DataFrame)
    assert found.to_polars().equals(pl.from_arrow(TABLE))
    assert pl.DataFrame(found).equals(pl.from_arrow(TABLE))


def test_duckdb_reads_it():
    duckdb = pytest.importorskip("duckdb")
    found = sb.Answers(TABLE).to_arrow()
    assert duckdb.connect().from_arrow(found).fetchall() == [("a", 1234567.0, 1), ("<b>", None, 2)]


def test_how_it_is_shown():
    assert repr(sb.Answers(TABLE)) == "Answers(2 rows: query, score, rank)"
    assert repr(sb.Answers(TABLE.slice(1))) == "Answers(1 row: query, score, rank)"
    html = sb.Answers(TABLE)._repr_html_()
    assert "<td>&lt;b&gt;</td>" in html
    assert html.count("<tr>") == 3
    assert "more row" not in html
    many = sb.Answers(pa.table({"n": range(21)}))._repr_html_()
    assert many.endswith("<p>1 more row</p>")
    assert many.count("<tr>") == 21
    assert sb.Answers(pa.table({}))._repr_html_() == "<table><thead><tr></tr></thead><tbody></tbody></table>"
