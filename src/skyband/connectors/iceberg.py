"""Iceberg sink: appends answers to an Iceberg table. The writer needs pyiceberg; it is imported when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.secrets import SecretsRule, shown_address
from skyband.connectors.section import Wrong
from skyband.connectors.server import seconds
from skyband.connectors.sink import SinkModel
from skyband.connectors.values import Gap, Scalar, Size, Text, size_in_bytes
from skyband.paths import absolute, has_scheme

if TYPE_CHECKING:
    from skyband.connectors.iceberg_writer import IcebergWriter
    from skyband.sharding.delivery import Opening

__all__ = ["CatalogAddress", "CatalogName", "CatalogOptions", "IcebergSink", "absolute_catalog", "catalog_rules"]

_SQLITE = "sqlite:///"


CatalogAddress = Annotated[
    Text,
    Field(
        repr=False,
        description="The address of the catalog: sqlite:///FILE or postgresql://… for a database, http://… or "
        "https://… for a REST catalog. A password in it must come from the environment.",
        examples=["sqlite:///catalog.db", "https://catalog.example"],
    ),
]
CatalogName = Annotated[
    Text | None,
    Field(
        description="The name of the catalog, which is part of a table's name in a database. Default: default.",
        examples=["default"],
    ),
]
CatalogOptions = Annotated[
    dict[str, Scalar],
    Field(
        repr=False,
        description="Properties of pyiceberg's catalog and file system. Secrets must come from the environment.",
        examples=[{"s3.region": "eu-central-1"}],
    ),
]


class IcebergSink(SinkModel):
    """Appends answers to an Iceberg table, one commit per micro-batch. Creates the table if it does not exist.

    >>> sink = IcebergSink(table="sales.answers", catalog="sqlite:///catalog.db", warehouse="warehouse")
    >>> sink.settled(Path("/work")).catalog
    'sqlite:////work/catalog.db'
    """

    missing: ClassVar[Mapping[str, str]] = {
        "table": "name the table to write answers to",
        "catalog": "set the address of the catalog",
    }
    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule("write ${NAME} and set NAME in the environment.")

    type: Literal["iceberg"] = Field(default="iceberg", description="an Iceberg table")
    table: Text = Field(
        description="The table, with its namespace; {stream} is replaced with the stream's name. Created if it does "
        "not exist.",
        examples=["sales.answers", "sales.{stream}"],
    )
    catalog: CatalogAddress
    catalog_name: CatalogName = None
    warehouse: Text | None = Field(
        default=None,
        description="The folder or address in which a catalog in a database creates tables. Relative to the folder of "
        "the workload file. A REST catalog may ignore it.",
        examples=["warehouse", "s3://bucket/warehouse"],
    )
    options: CatalogOptions = Field(default={})
    retry: Gap | None = Field(
        default=None,
        description="How long to retry a commit while the catalog or storage is unavailable, before the stream stops. "
        "Default: 60 seconds.",
        examples=["5 minutes"],
    )

    compact: Gap | None = Field(
        default=None,
        description="The age at which small files are merged, beside the stream. Replaced files stay until their "
        "snapshots expire. Default: never.",
        examples=["10 minutes"],
    )
    compact_size: Size | None = Field(
        default=None,
        description="The size of the merged files; smaller files are small. With `compact`. Default: the table "
        "property write.target-file-size-bytes, or 128 MB.",
        examples=["256 MB"],
    )

    writers: Literal["driver", "tasks"] | None = Field(
        default=None,
        description="What writes files. driver: all answers of a micro-batch pass through the driver process. tasks: "
        "tasks of Spark write large answers, and the driver process commits them; the table must be in a folder that "
        "all machines share. Default: driver.",
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check that the table has a namespace, and that a catalog in a database has a warehouse."""
        yield from catalog_rules(raw, "answers")
        if raw.get("compact_size") is not None and raw.get("compact") is None:
            yield "compact_size", "requires compact, the age at which small files are merged."
        catalog = str(raw.get("catalog") or "")
        if has_scheme(catalog) and not catalog.startswith(("http://", "https://")) and raw.get("warehouse") is None:
            yield "warehouse", "is missing; a catalog in a database needs a folder for its tables."
        if raw.get("writers") == "tasks" and (raw.get("warehouse") is None or has_scheme(raw["warehouse"])):
            yield "writers", "tasks requires a warehouse without a scheme, in a folder that all machines share."

    def open(self, opening: Opening) -> IcebergWriter:
        """Return a writer to the table."""
        from skyband.connectors.delta_compaction import Compaction
        from skyband.connectors.iceberg_writer import IcebergWriter

        return IcebergWriter(
            self.table.replace("{stream}", opening.stream),
            f"{opening.stream}.{self.output}",
            opening.queries(self.queries),
            properties=self.properties,
            catalog=self.catalog_name or "default",
            retry=seconds(self.retry or "60 seconds"),
            by_tasks=self.writers == "tasks",
            compaction=None
            if self.compact is None
            else Compaction(
                seconds(self.compact), None if self.compact_size is None else size_in_bytes(self.compact_size)
            ),
        )

    def settled(self, folder: Path) -> Self:
        """Return a copy with absolute paths of a catalog in a file and of the warehouse."""
        warehouse = None if self.warehouse is None else absolute(self.warehouse, folder)
        return self.model_copy(update={"catalog": absolute_catalog(self.catalog, folder), "warehouse": warehouse})

    @property
    def properties(self) -> dict[str, str]:
        """The properties of pyiceberg's catalog."""
        found = {**self.options, "uri": self.catalog}
        if self.warehouse is not None:
            found["warehouse"] = self.warehouse if has_scheme(self.warehouse) else f"file://{self.warehouse}"
        return {name: str(value) for name, value in found.items()}

    @property
    def place(self) -> str:
        """The table."""
        return self.table

    @property
    def target(self) -> str:
        """The table and the catalog."""
        return f" to table {self.table} of {shown_address(self.catalog)}"


def catalog_rules(raw: Mapping[str, Any], example: str) -> Wrong:
    """Check that a table has a namespace, and that a catalog is an address."""
    table, catalog = raw.get("table"), raw.get("catalog")
    if isinstance(table, str) and table.strip() and not all(part.strip() for part in [*table.split("."), table][:2]):
        yield "table", f"{table!r} is not a table name; write namespace.table, such as sales.{example}."
    elif isinstance(table, str) and table.strip() and "." not in table:
        yield "table", f"{table!r} has no namespace; write namespace.table, such as sales.{table}."
    if isinstance(catalog, str) and catalog.strip() and not has_scheme(catalog):
        shown = shown_address(catalog)
        yield "catalog", f"{shown!r} is not an address of a catalog; write sqlite:///FILE or https://host."


def absolute_catalog(catalog: str, folder: Path) -> str:
    """Return the address of a catalog; a file is resolved against `folder`.

    >>> absolute_catalog("sqlite:///catalog.db", Path("/work"))
    'sqlite:////work/catalog.db'
    """
    return f"{_SQLITE}{absolute(catalog.removeprefix(_SQLITE), folder)}" if catalog.startswith(_SQLITE) else catalog
