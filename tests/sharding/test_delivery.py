"""Answers on their way to sinks: sorted by window end and by query, whatever shard answered first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.sharding.delivery import Wanted, parts_of

WORKLOAD = sb.Workload([sb.TopK(name=name, k=3, size="1 minute", by="x") for name in ("b", "a", "c")])


class Kept:
    """An outlet that keeps what it takes."""

    def take(self, batch: int, rows: pa.Table) -> None:
        raise AssertionError("parts are only listed")


def sorted_rows(queries, ends):
    rows = pa.table(
        {
            "query": pa.chunked_array([queries[:1], queries[1:]], pa.string()),
            "window_end": pa.array(ends, pa.timestamp("us", "UTC")),
            "row": np.arange(len(queries)),
        }
    )
    ((_, found),) = parts_of(rows, [Wanted(Kept(), "answers")], WORKLOAD, "answers")
    return found.to_pylist(), rows.to_pylist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ordered", [False, True])
def test_rows_are_sorted_and_stable(seed, ordered):
    random = np.random.default_rng(seed)
    pairs = [(int(end), int(place)) for end, place in random.integers(0, 3, (40, 2))]
    pairs = sorted(pairs) if ordered else pairs
    names = [query.name for query in WORKLOAD]
    found, rows = sorted_rows([names[place] for _, place in pairs], [end for end, _ in pairs])
    assert found == sorted(rows, key=lambda row: (row["window_end"], names.index(row["query"])))
    assert [row["row"] for row in found] == sorted(range(40), key=lambda row: pairs[row])


def test_no_rows():
    assert sorted_rows([], [])[0] == []
