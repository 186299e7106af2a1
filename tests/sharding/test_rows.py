"""The order of rows that share a time: by id, and rows without one first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.sharding.rows import group_rows, ids_in, stream_order


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (["b", None, "a", "z", "y"], [1, 2, 0, 4, 3]),
        ([2.5, None, -1.0, 9.0, 8.0], [1, 2, 0, 4, 3]),
        ([2, None, 1, 9, 8], [1, 2, 0, 4, 3]),
        ([2, 0, 1, 9, 8], [1, 2, 0, 4, 3]),
    ],
)
def test_rows_of_one_time_are_ordered_by_id(ids, wanted):
    table = pa.table({"id": ids})
    order, begins = stream_order(np.array([5, 5, 5, 6, 6]), group_rows(table, []), ids_in(table, "id"))
    assert order.tolist() == wanted
    assert begins.tolist() == [0, 5]
