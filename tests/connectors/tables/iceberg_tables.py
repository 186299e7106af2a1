"""Iceberg tables of the tests, written by pyiceberg: appends, compactions, deletes and expired snapshots."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from pyiceberg.table.snapshots import Operation

from tests.connectors.tables.places import catalog_of
from tests.spark.frames import table

NAME = "db.trades"
STREAM = "streams: {rows: {source: iceberg, table: db.trades, catalog: 'sqlite:///catalog.db', time: ts, id: id, "
STREAM += "watermark: 0 seconds%s}}\n"


def created(folder, schema=None, **more):
    catalog = catalog_of(folder)
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table(NAME, table([]).schema if schema is None else schema, **more)


def opened(folder):
    return catalog_of(folder).load_table(NAME)


def append(folder, rows, files=1):
    """Append rows in one snapshot with several files."""
    held, size = opened(folder), -(-len(rows) // files)
    with held.transaction() as changes, changes.update_snapshot().fast_append() as appended:
        names = {"write_uuid": uuid4(), "counter": count()}  # in the order of the rows
        for low in range(0, len(rows), size or 1):
            for file in _written(changes, table(rows[low : low + size]), **names):
                appended.append_data_file(file)


def compact(folder):
    """Replace all files by one with the same rows, as a compaction of Spark does."""
    held = opened(folder)
    with held.transaction() as changes, changes.update_snapshot().overwrite() as replaced:
        for task in held.scan().plan_files():
            replaced.delete_data_file(task.file)
        for file in _written(changes, held.scan().to_arrow()):
            replaced.append_data_file(file)
    # pyiceberg cannot write the operation, which is a word in the metadata of the table
    held = opened(folder)
    path = Path(urlsplit(held.metadata_location).path)
    metadata = json.loads(path.read_text())
    newest = next(one for one in metadata["snapshots"] if one["snapshot-id"] == metadata["current-snapshot-id"])
    newest["summary"]["operation"] = Operation.REPLACE.value
    path.write_text(json.dumps(metadata))


def expire(folder, kept=1):
    """Expire all snapshots but the newest ones."""
    held = opened(folder)
    old = sorted(held.snapshots(), key=lambda one: one.sequence_number)[:-kept]
    held.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()


def _written(changes, rows, **names):
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    return _dataframe_to_data_files(changes.table_metadata, rows, changes._table.io, **names)
