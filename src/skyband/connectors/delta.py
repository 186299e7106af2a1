"""Delta sink: appends answers to a Delta table. The writer, which needs deltalake, is imported when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.secrets import SecretsRule
from skyband.connectors.section import Wrong
from skyband.connectors.server import seconds
from skyband.connectors.sink import SinkModel
from skyband.connectors.values import Gap, Scalar, Size, Text, size_in_bytes
from skyband.paths import absolute, has_scheme

if TYPE_CHECKING:
    from skyband.connectors.delta_writer import DeltaWriter
    from skyband.sharding.delivery import Opening

__all__ = ["DeltaSink"]


class DeltaSink(SinkModel):
    """Appends answers to a Delta table, one commit per micro-batch. Creates the table if it does not exist.

    >>> DeltaSink(path="answers", compact="10 minutes").type
    'delta'
    """

    missing: ClassVar[Mapping[str, str]] = {"path": "set the folder or address of the table"}
    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule("write ${NAME} and set NAME in the environment.")

    type: Literal["delta"] = Field(default="delta", description="a Delta table")
    path: Text = Field(
        description="The folder or address of the table; {stream} is replaced with the stream's name. Relative to the "
        "folder of the workload file. Created if it does not exist.",
        examples=["answers", "s3://bucket/{stream}"],
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Storage options of deltalake. Secrets must come from the environment.",
        examples=[{"aws_region": "eu-central-1"}],
    )
    retry: Gap | None = Field(
        default=None,
        description="How long to retry a commit while the storage is unavailable, before the stream stops. Default: 60 "
        "seconds.",
        examples=["5 minutes"],
    )
    compact: Gap | None = Field(
        default=None,
        description="The age at which small files are merged, beside the stream. Replaced files stay until the table "
        "is vacuumed, or for `vacuum`. Default: never.",
        examples=["10 minutes"],
    )
    compact_size: Size | None = Field(
        default=None,
        description="The size of the merged files; smaller files are small. With `compact`. Default: 100 MB, or the "
        "table property delta.targetFileSize.",
        examples=["256 MB"],
    )
    vacuum: Gap | None = Field(
        default=None,
        description="How long files stay that a commit has replaced, for readers of older versions; then compaction "
        "deletes them. With `compact`. Default: forever.",
        examples=["7 days"],
    )

    writers: Literal["driver", "tasks"] | None = Field(
        default=None,
        description="What writes files. driver: all answers of a micro-batch pass through the driver process. tasks: "
        "tasks of Spark write large answers, and the driver process commits them; the table must be in a folder that "
        "all machines share. Default: driver.",
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check that tasks and the driver process write to one folder, and that compaction has its keys."""
        for key in ("compact_size", "vacuum"):
            if raw.get(key) is not None and raw.get("compact") is None:
                yield key, "requires compact, the age at which small files are merged."
        if raw.get("writers") == "tasks" and has_scheme(raw.get("path")):
            yield "writers", f"tasks requires a folder that all machines share, got path {raw['path']!r}."

    def open(self, opening: Opening) -> DeltaWriter:
        """Return a writer to the table."""
        from skyband.connectors.delta_compaction import Compaction
        from skyband.connectors.delta_writer import DeltaWriter

        return DeltaWriter(
            self.path.replace("{stream}", opening.stream),
            f"{opening.stream}/{self.output}",
            opening.queries(self.queries),
            options=self.options,
            retry=seconds(self.retry or "60 seconds"),
            by_tasks=self.writers == "tasks",
            compaction=None
            if self.compact is None
            else Compaction(
                seconds(self.compact),
                None if self.compact_size is None else size_in_bytes(self.compact_size),
                None if self.vacuum is None else seconds(self.vacuum),
            ),
        )

    def settled(self, folder: Path) -> Self:
        """Return a copy with an absolute folder."""
        return self.model_copy(update={"path": absolute(self.path, folder)})

    @property
    def place(self) -> str:
        """The table."""
        return self.path

    @property
    def target(self) -> str:
        """The table."""
        return f" to table {self.path}"
