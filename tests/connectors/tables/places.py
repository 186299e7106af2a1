"""Delta and Iceberg tables in a folder: their sinks, what readers see in them, and where commits can be interrupted."""

from __future__ import annotations

import skyband as sb
from skyband.sharding.delivery import Opening

KINDS = ("delta", "iceberg")
QUERY = sb.TopK(name="big", k=2, size="1 minute", by="price")


def sink(kind, folder, **more):
    if kind == "delta":
        return sb.sinks.Delta(path=str(folder / "answers"), **more)
    catalog = {"catalog": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}
    return sb.sinks.Iceberg(table="db.answers", **catalog, **more)


def opened(kind, folder, queries=(QUERY,), stream="s", **more):
    """A writer, as a new process opens it."""
    return sink(kind, folder, **more).open(Opening(None, stream, lambda: sb.Workload(list(queries))))


def rows_in(kind, folder):
    """All rows, as another program reads them."""
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(folder / "answers")).to_pyarrow_table()
    return catalog_of(folder).load_table("db.answers").scan().to_arrow()


def catalog_of(folder):
    from pyiceberg.catalog import load_catalog

    return load_catalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def yaml_of(kind):
    """The sink in a workload file."""
    if kind == "delta":
        return "{type: delta, path: answers}"
    return "{type: iceberg, table: db.answers, catalog: 'sqlite:///catalog.db', warehouse: .}"
