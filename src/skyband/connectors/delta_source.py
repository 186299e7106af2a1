"""Delta tables as sources: the rows of the data files that its commits add, each once, in the order of the commits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.files import FilesSource
from skyband.connectors.kinds import Schema, absent
from skyband.connectors.section import Wrong
from skyband.connectors.source import ParsedSource
from skyband.connectors.values import Text
from skyband.paths import absolute, has_scheme

__all__ = ["OF_FILES", "ORDER_OF_CHANGES", "DeltaSource"]

ORDER_OF_CHANGES = "op_number"  # the column with the order of changes
OF_FILES = ("format", "options", "schema", "reader", "unreadable_files", "envelope")  # a table determines them


class DeltaSource(FilesSource):
    """Reads the rows of a Delta table: those of a version, then those that later commits append.

    >>> DeltaSource(path="lake/trades", time="ts").source
    'delta'
    """

    missing: ClassVar[Mapping[str, str]] = {**ParsedSource.missing, "path": "set the folder of the table"}
    conditions: ClassVar[tuple[Schema, ...]] = (absent(OF_FILES),)
    of_table: ClassVar[str | None] = "Delta table"

    source: Literal["delta"] = Field(default="delta", description="the rows of a Delta table")  # type: ignore[assignment]
    path: Text = Field(
        description="The folder of the table. Relative to the folder of the workload file.", examples=["lake/trades"]
    )
    version: int | None = Field(
        default=None,
        ge=0,
        description="The version of the table whose rows are read first. Later ones follow. Default: the newest.",
        examples=[0],
    )
    changed_rows: Literal["stop", "skip", "feed"] | None = Field(
        default=None,
        description="What happens at a commit that deletes, updates or overwrites rows. stop: the stream stops. skip: "
        "the commit is skipped, with the rows that it adds. feed: all rows are changes, with the columns op (d: the "
        "row was deleted or replaced; u: it is new), op_number (their order, the default of id), _change_type, "
        "_commit_version and _commit_timestamp; the table needs delta.enableChangeDataFeed. Default: stop.",
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Reject keys that the table determines, and paths with a scheme."""
        for key in OF_FILES:
            if raw.get(key) is not None:
                yield key, "is for source: files; a Delta table determines its files and columns."
        for key in ("path", "dead_letters"):
            if has_scheme(raw.get(key)):
                yield key, f"{raw[key]!r} is not a local folder; use a path without a scheme."
        if raw.get("changed_rows") == "feed" and raw.get("id") not in (None, ORDER_OF_CHANGES):
            why = f"cannot be combined with changed_rows: feed, whose {ORDER_OF_CHANGES} decides which change of a key"
            yield "id", f"{raw['id']!r} {why} is the newest. Omit id."
        yield from super(FilesSource, cls).rules(raw)

    def settled(self, folder: Path) -> Self:
        """Return a copy with absolute paths."""
        dead = None if self.dead_letters is None else absolute(self.dead_letters, folder)
        update = {"path": absolute(self.path, folder), "format": "parquet", "dead_letters": dead}
        if self.has_changes:
            update["id"] = ORDER_OF_CHANGES
        return self.model_copy(update=update)

    @property
    def has_changes(self) -> bool:
        """Whether rows are changes: inserted, updated and deleted ones."""
        return self.changed_rows == "feed"

    def described(self) -> str:
        """Return the folder of the table."""
        return f"Delta table {self.path}"

    @property
    def by_tasks_only(self) -> str | None:
        """Why Spark's reader cannot read the table."""
        return "Spark itself has no reader of Delta tables."
