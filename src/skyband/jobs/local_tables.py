"""Tables by name in runs without Spark: those of the Iceberg catalogs that pyiceberg is configured for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from skyband.connectors.iceberg_source import IcebergSource
from skyband.connectors.section import nearest
from skyband.connectors.table_source import TableSource
from skyband.errors import MissingDependencyError, UnsupportedError
from skyband.workload_file import WorkloadFile

__all__ = ["with_local_tables"]


def with_local_tables(file: WorkloadFile) -> WorkloadFile:
    """Return the file with Iceberg tables in place of tables by name."""
    found = {
        name: _found(name, stream).settled(file.path.parent)
        if name in file.workloads and isinstance(stream, TableSource)
        else stream
        for name, stream in file.streams.items()
    }
    return file if found == file.streams else replace(file, streams=found)


def _found(name: str, stream: TableSource) -> IcebergSource:
    """Return an Iceberg table. The first part of its name is that of a configured catalog."""
    try:
        from pyiceberg.utils.config import Config  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingDependencyError(
            f"stream {name!r}: without Spark, tables by name need pyiceberg ({error}). Install it with: pip install "
            "'skyband[iceberg]'"
        ) from None
    catalog, _, table = stream.table.partition(".")
    config = Config()
    settings = config.get_catalog_config(catalog) if "." in table else None
    if settings is None:
        known = config.get_known_catalogs()
        near = nearest(catalog, known)
        hint = f"did you mean {near!r}?" if near else f"configured: {', '.join(sorted(known)) or 'none'}."
        raise UnsupportedError(
            f"stream {name!r}: without Spark, table {stream.table!r} must be catalog.schema.table of an Iceberg "
            f"catalog that pyiceberg is configured for; {hint} Set PYICEBERG_CATALOG__{catalog.upper()}__URI, or "
            "write source: iceberg with catalog:. Run the file without --local."
        )
    if stream.options:
        raise UnsupportedError(
            f"stream {name!r}: options of Spark's reader are not supported without Spark. Run the file without --local."
        )
    given: dict[str, Any] = {str(key): value for key, value in settings.items() if isinstance(value, str | int | float)}
    shared = {key: getattr(stream, key) for key in type(stream).model_fields.keys() - {"source", "table", "options"}}
    return IcebergSource(
        **shared,
        table=table,
        catalog=str(given.pop("uri", catalog)),
        catalog_name=catalog,
        options=given,
        schema=None,
    )
