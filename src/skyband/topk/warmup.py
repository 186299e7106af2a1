"""Compile the kernels of a pipeline, or load them from disk, before the first batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.topk.plan import TopKPlan
from skyband.topk.query import TopK
from skyband.topk.reducer import reduce_rows
from skyband.topk.shard import TopKShard

__all__ = ["warm_up"]


def warm_up(algorithm: str = "panes") -> None:
    """Run a few rows through a reducer and a shard, with and without groups, so that all their kernels are on disk."""
    n = 64
    table = pa.table(
        {
            "ts": pa.array(np.arange(n) * 1_000_000).cast(pa.timestamp("us", "UTC")),
            "id": np.arange(n),
            "g": np.arange(n) % 3,
            "all": np.linspace(0.0, 1.0, n),
            "each": np.linspace(1.0, 0.0, n),
        }
    )
    queries = (
        TopK(name="all", k=2, size="10 seconds", slide="5 seconds", by="a", full_only=True),
        TopK(name="each", k=2, size="10 seconds", slide="5 seconds", by="b", partition_by=["g"], order="asc"),
    )
    for may_be_late in (True, False):
        plan = TopKPlan(
            queries=queries,
            algorithm=algorithm,
            shards=1,
            time="ts",
            id="id",
            scores=("all", "each"),
            groups=((), ("g",)),
            columns=("g", "id", "ts"),
            returned=("id", "ts"),
            may_be_late=may_be_late,
        )
        shard = TopKShard(plan, 0)
        # Several steps, as in a stream: kernels that drop expired rows run only if rows of earlier steps are stored.
        for begin in range(0, n, n // 4):
            watermark = begin * 1_000_000 or None
            for envelope in reduce_rows(plan, table.slice(begin, n // 4).to_batches()):
                shard.step([envelope.rows], [envelope.note], watermark, end=begin + n // 4 == n)
