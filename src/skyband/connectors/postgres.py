"""PostgreSQL: answers in a table. The writer, which needs psycopg, is loaded when the sink is opened."""

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
    from skyband.spark.delivery import Opening

__all__ = ["LONGEST_NAME", "PostgresSink"]

LONGEST_NAME = 63  # bytes of a name in PostgreSQL; it cuts off the rest, and says nothing


class PostgresSink(ServerSink):
    """Writes answers to a table, which it makes if it is not there.

    >>> PostgresSink(table="sales.answers", history="newest").retry is None
    True
    """

    missing: ClassVar[Mapping[str, str]] = {"table": "name the table that answers go to"}
    schemes: ClassVar[tuple[str, ...]] = ("postgresql://", "postgres://")
    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule(
        "set PGPASSWORD in the environment, or write ${NAME}, and set NAME there."
    )

    type: Literal["postgres"] = Field(default="postgres", description="a table of PostgreSQL")
    url: Text | None = Field(
        default=None,
        repr=False,
        description="Where the server is. A password in it must come from the environment. What is left out is what "
        "libpq's variables say (PGHOST, PGUSER, PGPASSWORD, …).",
        examples=["postgresql://me@db.example/sales"],
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Connection parameters of libpq, such as sslmode and sslrootcert. A secret among them must come "
        "from the environment.",
        examples=[{"sslmode": "verify-full", "sslrootcert": "ca.pem"}],
    )
    table: Text = Field(
        description="The table, with its schema before a dot if it is not in the search path; {stream} stands for the "
        "stream's name. It is made if it is not there.",
        examples=["answers", "sales.{stream}"],
    )
    history: Literal["all", "newest"] | None = Field(
        default=None, description="Keep all answers, or only those of each query's newest window. Default all."
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """The table has a name that PostgreSQL can have, and changes are not thrown away."""
        yield from super().rules(raw)
        table = raw.get("table")
        if isinstance(table, str) and table.strip():
            parts = table.split(".")
            long = next((part for part in parts if len(part.encode()) > LONGEST_NAME), None)
            if len(parts) > 2 or not all(part.strip() for part in parts):
                yield "table", f"{table!r} is neither a table nor a schema and a table; write answers or sales.answers."
            elif long is not None:
                most = f"and a name in PostgreSQL at most {LONGEST_NAME}; shorten it."
                yield "table", f"{long!r} has {len(long.encode())} bytes, {most}"
            elif "\0" in table:
                yield "table", f"{table!r} has a NUL in it, which no name in PostgreSQL can."
        if raw.get("output") == "changes" and raw.get("history") == "newest":
            yield "history", "'newest' keeps one answer of each query, and changes are a history; write all."

    def open(self, opening: Opening) -> PostgresWriter:
        """A writer to the table."""
        from skyband.connectors.postgres_writer import PostgresWriter
        from skyband.connectors.row_identity import groups_of

        return PostgresWriter(
            self.table.replace("{stream}", opening.stream),
            groups_of(opening.asked(self.queries)),
            url=self.url,
            options=self.options,
            newest=self.history == "newest",
            retry=self.patience,
        )

    @property
    def place(self) -> str:
        """The table."""
        return self.table

    @property
    def target(self) -> str:
        """The table, and where the server is."""
        return f" to table {self.table}{self.address}"
