"""A Delta table with a change feed, changed at random: appends, updates, deletes, merges, overwrites, compactions."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

FEED = {"delta.enableChangeDataFeed": "true"}
STREAM = """
streams:
  players: {source: delta, path: lake, time: _commit_timestamp, watermark: 0 seconds, version: 0, changed_rows: feed%s}
queries:
  - {name: all, type: aggregate, k: 1000, size: all, slide: 1 hour, key: id, value: points, aggregate: latest,
     delete: "op = 'd'"}
"""


def rows_of(draw, count):
    ids = draw.sample(range(60), count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "g": pa.array([draw.choice("abc") for _ in ids]),
            "points": pa.array([float(draw.randrange(1000)) for _ in ids]),
        }
    )


def created(folder, draw, partitions=None):
    write_deltalake(folder / "lake", rows_of(draw, 30), configuration=FEED, partition_by=partitions)


def changed(folder, draw):
    """Make a random commit; some change no row."""
    held = DeltaTable(folder / "lake")
    what = draw.choice(["merge", "merge", "update", "delete", "all of a group", "rename", "overwrite", "compact"])
    if what == "merge":
        rows = rows_of(draw, draw.randrange(1, 20))
        merge = held.merge(rows, "s.id = t.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    elif what == "update":
        held.update({"points": "points + 1"}, predicate=f"id % {draw.randrange(2, 6)} = 0")
    elif what == "delete":
        held.delete(f"id % {draw.randrange(2, 9)} = 1")
    elif what == "all of a group":
        held.delete(f"g = '{draw.choice('abc')}'")
    elif what == "rename":  # the key itself changes
        held.update({"id": "id + 1000"}, predicate=f"id = {draw.randrange(60)}")
    elif what == "overwrite":
        write_deltalake(folder / "lake", rows_of(draw, 25), mode="overwrite")
    else:
        held.optimize.compact()


def standings(folder):
    """The rows that the table has now."""
    found = DeltaTable(folder / "lake").to_pyarrow_table().to_pylist()
    return {row["id"]: row["points"] for row in found}
