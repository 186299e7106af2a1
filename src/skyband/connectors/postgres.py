"""PostgreSQL sink: writes answers to a table. The writer, which needs psycopg, is imported when the sink is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from skyband.connectors.secrets import SecretsRule
from skyband.connectors.section import Wrong
from skyband.connectors.server import ServerSink
from skyband.connectors.values import Scalar, Text

if TYPE_CHECKING:
    from skyband.connectors.postgres_writer import PostgresWriter
    from skyband.sharding.delivery import Opening

__all__ = ["LONGEST_NAME", "PostgresSink"]

LONGEST_NAME = 63  # bytes; PostgreSQL silently truncates longer names


class PostgresSink(ServerSink):
    """Writes answers to a table. Creates the table if it does not exist.

    >>> PostgresSink(table="sales.answers", history="newest").retry is None
    True
    """

    missing: ClassVar[Mapping[str, str]] = {"table": "name the table to write answers to"}
    schemes: ClassVar[tuple[str, ...]] = ("postgresql://", "postgres://")
    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule(
        "set PGPASSWORD in the environment, or write ${NAME} and set NAME there."
    )

    type: Literal["postgres"] = Field(default="postgres", description="a PostgreSQL table")
    url: Text | None = Field(
        default=None,
        repr=False,
        description="The address of the server. A password in it must come from the environment. Missing parts default "
        "to libpq's environment variables (PGHOST, PGUSER, PGPASSWORD, …).",
        examples=["postgresql://me@db.example/sales"],
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Connection parameters of libpq, such as sslmode and sslrootcert. Secrets must come from the "
        "environment.",
        examples=[{"sslmode": "verify-full", "sslrootcert": "ca.pem"}],
    )
    table: Text = Field(
        description="The table, or schema.table if it is not in the search path; {stream} is replaced with the "
        "stream's name. Created if it does not exist.",
        examples=["answers", "sales.{stream}"],
    )
    history: Literal["all", "newest"] | None = Field(
        default=None, description="Retain all answers, or only those of each query's newest window. Default: all."
    )

    writers: Literal["driver", "tasks"] | None = Field(
        default=None,
        description="What writes answers. driver: all answers of a micro-batch pass through the driver process. tasks: "
        "tasks of Spark copy large answers into an unlogged table, and the driver process merges it in one "
        "transaction; all machines must reach the server. Default: driver.",
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check the name of the table, and that a history of changes is retained."""
        yield from super().rules(raw)
        table = raw.get("table")
        if isinstance(table, str) and table.strip():
            parts = table.split(".")
            long = next((part for part in parts if len(part.encode()) > LONGEST_NAME), None)
            if len(parts) > 2 or not all(part.strip() for part in parts):
                yield "table", f"{table!r} is not a table name; write a table, such as answers, or schema.table."
            elif long is not None:
                size = len(long.encode())
                yield (
                    "table",
                    f"{long!r} has {size} bytes; names in PostgreSQL have at most {LONGEST_NAME}. Shorten it.",
                )
            elif "\0" in table:
                yield "table", f"{table!r} contains a NUL character, which PostgreSQL does not allow in names."
        if raw.get("output") == "changes" and raw.get("history") == "newest":
            yield (
                "history",
                "'newest' retains one answer per query and cannot be combined with output: changes; write all.",
            )

    def open(self, opening: Opening) -> PostgresWriter:
        """Return a writer to the table."""
        from skyband.connectors.postgres_writer import PostgresWriter
        from skyband.connectors.row_identity import groups_of

        return PostgresWriter(
            self.table.replace("{stream}", opening.stream),
            groups_of(opening.queries(self.queries)),
            url=self.url,
            options=self.options,
            newest=self.history == "newest",
            retry=self.patience,
            by_tasks=self.writers == "tasks",
            key=f"{opening.stream}/{self.output}/{self.table}",
        )

    @property
    def place(self) -> str:
        """The table."""
        return self.table

    @property
    def target(self) -> str:
        """The table and the server."""
        return f" to table {self.table}{self.address}"
