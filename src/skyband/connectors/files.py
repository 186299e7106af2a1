"""File connectors: read rows from CSV, JSON, Parquet and Avro files, write answers to Parquet, JSON lines and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.envelope import Envelope, added_columns, envelope_rules
from skyband.connectors.file_formats import ENDING, Format, format_of, is_tabs
from skyband.connectors.file_systems import is_store
from skyband.connectors.kinds import Schema, given
from skyband.connectors.secrets import SecretsRule
from skyband.connectors.section import Wrong
from skyband.connectors.server import seconds
from skyband.connectors.sink import SinkModel
from skyband.connectors.source import ParsedSource, Reading
from skyband.connectors.values import Count, Gap, Scalar, Text
from skyband.paths import absolute, has_scheme

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skyband.connectors.bucket_writer import BucketWriter
    from skyband.connectors.folder_writer import FolderWriter
    from skyband.sharding.delivery import Opening

__all__ = ["CsvSink", "FileSink", "FilesSource", "JsonlSink", "ParquetSink"]


class FilesSource(ParsedSource):
    """Reads rows from files."""

    missing: ClassVar[Mapping[str, str]] = {**ParsedSource.missing, "path": "set the file, folder or glob to read"}
    conditions: ClassVar[tuple[Schema, ...]] = (
        {"if": {"properties": {"path": {"type": "string", "pattern": rf"\$\{{|{ENDING}"}}}, "else": given("format")},
        {"properties": {"format": {"not": {"enum": ["text", "protobuf"]}}}},
        {
            "if": {"properties": {"unreadable_files": {"const": "dead_letters"}}, "required": ["unreadable_files"]},
            "then": {"allOf": [given("dead_letters"), {"properties": {"reader": {"not": {"const": "spark"}}}}]},
        },
    )
    is_bounded: ClassVar[bool] = True
    marks_malformed: ClassVar[bool] = True
    of_table: ClassVar[str | None] = None  # what messages call the table that determines the files, if one does

    source: Literal["files"] = Field(default="files", description="files in a folder")
    format: Format | None = Field(
        default=None, description="The format of the rows. Default: determined by the extension of the path."
    )
    path: Text = Field(
        description="A file, a folder or a glob. Relative to the folder of the workload file; a path with a scheme "
        "(s3a://, hdfs://, file:/) is passed through unchanged.",
        examples=["trades.csv", "trades/*.parquet", "s3a://bucket/trades"],
    )
    envelope: Envelope | None = Field(
        default=None,
        description="What surrounds the row in a line of JSON. debezium: a change event with before, after, op and "
        "ts_ms; rows have the columns of schema, op (c, r, u or d) and op_time.",
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Options of Spark's reader, passed through unchanged. For csv, header defaults to true, and sep "
        "defaults to a tab if the path ends in .tsv.",
        examples=[{"header": True, "sep": ";"}],
    )
    files_per_batch: Count | None = Field(
        default=None, description="The maximum number of files in a micro-batch. Default: all available files."
    )
    reader: Literal["auto", "spark"] | None = Field(
        default=None,
        description="What reads the files. auto: Spark's tasks read and reduce them with Arrow, where the answers are "
        "the same; otherwise Spark's reader. spark: Spark's reader. Default: auto.",
    )
    shared: bool | None = Field(
        default=None,
        description="Whether all machines of the session have the files and the checkpoint at the same paths, as on a "
        "network file system. Tasks of a cluster then read them. Default: false.",
    )
    dead_letters: Text | None = Field(
        default=None,
        description="A folder for malformed rows and records and the reasons, as JSON lines. Relative to the folder of "
        "the workload file.",
        examples=["malformed"],
    )
    unreadable_files: Literal["stop", "dead_letters"] | None = Field(
        default=None,
        description="What happens at a file that cannot be read, such as a truncated one. stop: the stream stops. "
        "dead_letters: the file, or the row group of a Parquet file, is skipped, counted, and reported in the folder "
        "dead_letters. Default: stop.",
    )
    time: Text = Field(description="The column with the event time.", examples=["ts"])

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check that the format is known and is a file format."""
        if isinstance(raw.get("path"), str) and "format" not in raw and not format_of(raw["path"]):
            yield (
                "format",
                f"is missing and cannot be determined from the path {raw['path']!r}; write csv, json, parquet or avro.",
            )
        if has_scheme(raw.get("dead_letters")):
            yield "dead_letters", f"{raw['dead_letters']!r} is not a local folder; use a path without a scheme."
        if raw.get("unreadable_files") == "dead_letters":
            if raw.get("dead_letters") is None:
                yield (
                    "unreadable_files",
                    "dead_letters requires the folder dead_letters:, in which the skipped files are listed.",
                )
            if raw.get("reader") == "spark" and _format_in(raw) != "avro":
                yield (
                    "unreadable_files",
                    "dead_letters cannot be combined with reader: spark, because Spark's reader stops at such a file.",
                )
        if raw.get("reader") == "spark" and _format_in(raw) == "avro":
            yield "reader", "'spark' cannot be combined with Avro files, which Spark's own readers do not support."
        if raw.get("format") in ("text", "protobuf"):
            yield "format", f"{raw['format']!r} is for source: kafka; files are parquet, csv, json or avro."
        yield from _envelope_rules(raw)
        yield from super().rules(raw)

    @classmethod
    def given_columns(cls, raw: Mapping[str, Any]) -> Iterable[str]:
        """Return the declared columns, and those that an envelope adds.

        >>> list(FilesSource.given_columns({"schema": {"k": "int"}, "envelope": "debezium"}))
        ['k', 'op', 'op_time']
        """
        own = list(super().given_columns(raw))
        return [*own, *added_columns(raw)] if own else []

    def read(self, how: Reading) -> DataFrame:
        """Return the rows of the files and the problem of each."""
        from skyband.connectors.file_rows import rows_of_files

        return rows_of_files(self, how)

    def settled(self, folder: Path) -> Self:
        """Return a copy with an absolute path, and with the format and options that follow from its extension."""
        kind = self.format or format_of(self.path)
        known = {option.lower() for option in self.options}
        usual: dict[str, bool | str] = {"header": True} if kind == "csv" and "header" not in known else {}
        if kind == "csv" and is_tabs(self.path) and known.isdisjoint(("sep", "delimiter")):
            usual["sep"] = "\t"
        update = {
            "path": absolute(self.path, folder),
            "format": kind,
            "options": {**usual, **self.options},
            "dead_letters": None if self.dead_letters is None else absolute(self.dead_letters, folder),
        }
        return self.model_copy(update=update)

    def described(self) -> str:
        """Return the format and the path."""
        return f"{self.format} files, {self.path}"

    @property
    def dead_letter_folder(self) -> str | None:
        """The folder for malformed rows, if configured."""
        return self.dead_letters

    @property
    def by_tasks_only(self) -> str | None:
        """Why Spark's reader cannot read the files, if it cannot."""
        return None if self.format != "avro" else "Spark itself has no reader of Avro files."

    @property
    def skips_unreadable(self) -> bool:
        """Whether files that cannot be read are skipped and reported; else the stream stops."""
        return self.unreadable_files == "dead_letters"


def _format_in(raw: Mapping[str, Any]) -> Any:
    """Return the format that the keys of a stream denote."""
    return raw["format"] if "format" in raw else format_of(str(raw.get("path", "")))


def _envelope_rules(raw: Mapping[str, Any]) -> Wrong:
    yield from envelope_rules({**raw, "format": _format_in(raw)})
    for option in raw["options"] if raw.get("envelope") and isinstance(raw.get("options"), dict) else ():
        yield ("options", option), "is not supported with envelope; an event is one line of JSON."


class FileSink(SinkModel):
    """A folder of files, one for each micro-batch that has answers."""

    foreign_keys: ClassVar[Mapping[str, str]] = {"path": "is for file sinks; this sink has type {kind}."}

    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule("write ${NAME} and set NAME in the environment.")

    path: Text = Field(
        description="The folder to write files to, or an address in an object store (s3://, gs://). Relative to the "
        "folder of the workload file.",
        examples=["answers", "s3://bucket/answers"],
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="For an object store: arguments of Arrow's file system, pyarrow.fs.S3FileSystem or GcsFileSystem. "
        "Secrets must come from the environment.",
        examples=[{"region": "eu-central-1"}],
    )
    retry: Gap | None = Field(
        default=None,
        description="For an object store: how long to retry while it is unavailable, before the stream stops. Default: "
        "60 seconds.",
        examples=["5 minutes"],
    )

    writers: Literal["driver", "tasks"] | None = Field(
        default=None,
        description="What writes files. driver: all answers of a micro-batch pass through the driver process, which "
        "writes one file. tasks: tasks of Spark write large answers, as a folder with several files for each "
        "micro-batch; all machines must share the folder. Default: driver.",
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check that the folder is local or in an object store, and that other keys fit."""
        path = raw.get("path")
        if has_scheme(path) and not is_store(path):
            fix = "To write to other storage, use a sink of Spark: skyband.spark.start(…, write=…)."
            yield "path", f"{path!r} is not a local folder, nor in an object store (s3://, gs://). {fix}"
        scheme, _, place = str(path).partition("://")
        if is_store(path) and not place.strip("/"):
            yield "path", f"{path!r} names no bucket; write {scheme}://bucket/folder."
        if not is_store(path) and isinstance(path, str) and "${" not in path:
            for key in ("options", "retry"):
                if raw.get(key):
                    yield key, "is for a path in an object store (s3://, gs://); a local folder has none."
        if raw.get("writers") == "tasks" and has_scheme(path):
            yield "writers", f"tasks requires a folder that all machines share, got path {path!r}."

    def open(self, opening: Opening) -> FolderWriter | BucketWriter:
        """Return a writer of files, or of objects."""
        return self._opened(opening)

    def _opened(self, opening: Opening, *, quote_formulas: bool = False) -> FolderWriter | BucketWriter:
        if is_store(self.path):
            from skyband.connectors.bucket_writer import BucketWriter

            retry = seconds(self.retry or "60 seconds")
            how: dict[str, Any] = {"options": self.options, "retry": retry, "quote_formulas": quote_formulas}
            return BucketWriter(self.path, opening.stream, self.type, **how)
        from skyband.connectors.answer_sums import SUMS, AnswerSums
        from skyband.connectors.folder_writer import FolderWriter

        sums = None if opening.checkpoint is None else AnswerSums(Path(opening.checkpoint) / SUMS)
        more: dict[str, Any] = {"quote_formulas": quote_formulas, "by_tasks": self.writers == "tasks", "sums": sums}
        return FolderWriter(self.path, opening.stream, self.type, **more)

    def settled(self, folder: Path) -> Self:
        """Return a copy with an absolute folder."""
        return self.model_copy(update={"path": absolute(self.path, folder)})

    @property
    def place(self) -> str:
        """The folder."""
        return self.path

    @property
    def target(self) -> str:
        """The folder."""
        return f" in {self.path}"


class ParquetSink(FileSink):
    """Writes Parquet files.

    >>> ParquetSink(path="answers").type
    'parquet'
    """

    missing: ClassVar[Mapping[str, str]] = {"path": "set the folder to write parquet files to"}

    type: Literal["parquet"] = Field(default="parquet", description="files in a folder")


class JsonlSink(FileSink):
    """Writes JSON lines files, one line per row."""

    missing: ClassVar[Mapping[str, str]] = {"path": "set the folder to write jsonl files to"}

    type: Literal["jsonl"] = Field(default="jsonl", description="files in a folder")


class CsvSink(FileSink):
    """Writes CSV files."""

    missing: ClassVar[Mapping[str, str]] = {"path": "set the folder to write csv files to"}

    type: Literal["csv"] = Field(default="csv", description="files in a folder")
    formulas: Literal["keep", "quote"] | None = Field(
        default=None,
        description="How to write text that a spreadsheet would run as a formula, because it begins with =, +, -, @, "
        "a tab or a carriage return. keep: unchanged. quote: with an apostrophe before it. Default: keep.",
    )

    def open(self, opening: Opening) -> FolderWriter | BucketWriter:
        """Return a writer of files, or of objects."""
        return self._opened(opening, quote_formulas=self.formulas == "quote")
