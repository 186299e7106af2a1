"""Iceberg tables as sources: the rows of the data files that snapshots append, each once, snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.delta_source import OF_FILES
from skyband.connectors.files import FilesSource
from skyband.connectors.iceberg import (
    CatalogAddress,
    CatalogName,
    CatalogOptions,
    absolute_catalog,
    catalog_rules,
)
from skyband.connectors.kinds import Schema, absent
from skyband.connectors.secrets import SecretsRule, shown_address
from skyband.connectors.section import Wrong
from skyband.connectors.source import ParsedSource
from skyband.connectors.values import Text
from skyband.paths import absolute, has_scheme

__all__ = ["IcebergSource"]


_OF_FILES = tuple(key for key in OF_FILES if key != "options")  # which has another meaning here


class IcebergSource(FilesSource):
    """Reads the rows of an Iceberg table: those of a snapshot, then those that later snapshots append.

    >>> IcebergSource(table="sales.trades", catalog="sqlite:////work/catalog.db", time="ts").described()
    'Iceberg table sales.trades of sqlite:////work/catalog.db'
    """

    missing: ClassVar[Mapping[str, str]] = {
        **ParsedSource.missing,
        "table": "name the table to read",
        "catalog": "set the address of the catalog",
    }
    conditions: ClassVar[tuple[Schema, ...]] = (absent(_OF_FILES),)
    of_table: ClassVar[str | None] = "Iceberg table"
    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule("write ${NAME} and set NAME in the environment.")
    path: ClassVar[str] = ""  # type: ignore[misc]  # the catalog determines where the table is

    source: Literal["iceberg"] = Field(default="iceberg", description="the rows of an Iceberg table")  # type: ignore[assignment]
    table: Text = Field(description="The table, with its namespace.", examples=["sales.trades"])
    catalog: CatalogAddress
    catalog_name: CatalogName = None
    warehouse: Text | None = Field(
        default=None,
        description="The name of the warehouse, if a REST catalog needs one. A folder is relative to the folder of the "
        "workload file.",
        examples=["warehouse", "s3://bucket/warehouse"],
    )
    options: CatalogOptions = Field(default={})
    snapshot: int | None = Field(
        default=None,
        ge=1,
        description="The snapshot of the table whose rows are read first. Later ones follow. Default: the current one.",
        examples=[3051729675574597004],
    )
    changed_rows: Literal["stop", "skip", "feed"] | None = Field(
        default=None,
        description="What happens at a snapshot that deletes, updates or overwrites rows. stop: the stream stops. "
        "skip: the snapshot is skipped, with the rows that it adds. feed is for Delta tables. Default: stop.",
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Reject keys that the table determines, and names and addresses that cannot be used."""
        for key in _OF_FILES:
            if raw.get(key) is not None:
                yield key, "is for source: files; an Iceberg table determines its files and columns."
        if raw.get("changed_rows") == "feed":
            yield "changed_rows", "feed is for source: delta; an Iceberg table has no feed of its changes."
        if has_scheme(raw.get("dead_letters")):
            yield "dead_letters", f"{raw['dead_letters']!r} is not a local folder; use a path without a scheme."
        yield from catalog_rules(raw, "trades")
        yield from super(FilesSource, cls).rules(raw)

    def settled(self, folder: Path) -> Self:
        """Return a copy with absolute paths."""
        update = {
            "catalog": absolute_catalog(self.catalog, folder),
            "warehouse": None if self.warehouse is None else _settled_warehouse(self.catalog, self.warehouse, folder),
            "format": "parquet",
            "dead_letters": None if self.dead_letters is None else absolute(self.dead_letters, folder),
        }
        return self.model_copy(update=update)

    def described(self) -> str:
        """Return the table and the catalog."""
        return f"Iceberg table {self.table} of {shown_address(self.catalog)}"

    @property
    def properties(self) -> dict[str, str]:
        """The properties of pyiceberg's catalog."""
        found = {**self.options, **({"uri": self.catalog} if has_scheme(self.catalog) else {})}
        if self.warehouse is not None:
            found["warehouse"] = self.warehouse
        return {name: str(value) for name, value in found.items()}

    @property
    def by_tasks_only(self) -> str | None:
        """Why Spark's reader cannot read the table."""
        return "Spark itself has no reader of Iceberg tables."


def _settled_warehouse(catalog: str, warehouse: str, folder: Path) -> str:
    """Return the warehouse; of a catalog in a database, a folder. The warehouse of a REST catalog can be a name."""
    if has_scheme(warehouse) or catalog.startswith(("http://", "https://")):
        return warehouse
    return f"file://{absolute(warehouse, folder)}"
