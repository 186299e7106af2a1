"""The base class of all sources: the keys that every stream has, and how its rows are read."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from skyband.connectors.file_formats import Format
from skyband.connectors.kinds import Kind
from skyband.connectors.section import Wrong, nearest, shown
from skyband.connectors.values import Gap, Scalar, SqlType, Text
from skyband.sharding.emission import Emission

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["InTasks", "ParsedSource", "Reading", "SourceModel"]

_TIME_WORDS = ("seconds", "milliseconds", "microseconds")
# Whether the values of a topic can be sent to tasks. "narrow": only small ones, and others stop the stream.
InTasks = Literal["narrow", "any"] | None
_PATTERN_LETTERS = "GyMLdEFDQqahHKkmsSVzOXx"


class Reading(NamedTuple):
    """How to read the rows of a stream."""

    spark: SparkSession
    name: str  # of the stream
    streaming: bool = True  # False: the current content, as a batch
    at_once: bool = False  # one micro-batch takes all available input and ignores the stream's batch size
    with_record: bool = False  # also return the location of each row, for dead letters
    query_text: str | None = None  # all text in which queries can name columns; None: read every column
    shape: Any = None  # the columns of files, if they are known: a FileShape
    in_tasks: InTasks = None
    between: Any = None  # of a batch of a topic: the offsets at which it begins and ends, by topic and partition


class SourceModel(Kind):
    """Where rows come from, and which column contains their event time."""

    tag: ClassVar[str] = "source"
    usual: ClassVar[str] = "files"
    kinds: ClassVar[dict[str, Any]] = {}
    noun: ClassVar[str] = "a stream of source {kind}"
    purpose: ClassVar[str] = "where rows come from"
    foreign: ClassVar[str] = "is for source: {owners}; the source of this stream is {kind}."
    other_names: ClassVar[Mapping[str, str]] = {
        "type": "source",
        "timestamp": "time",
        "url": "path",
        "file": "path",
        "folder": "path",
        "key": "id",
        "topics": "topic",
        "subscribe": "topic",
        "brokers": "servers",
        "bootstrap_servers": "servers",
        "bootstrap.servers": "servers",
        "offsets": "starting",
        "starting_offsets": "starting",
        "max_offsets_per_trigger": "rows_per_batch",
        "dead_letter": "dead_letters",
    }
    missing: ClassVar[Mapping[str, str]] = {"time": "name the column with the event time"}
    is_bounded: ClassVar[bool] = False  # whether the current content is finite
    marks_malformed: ClassVar[bool] = False  # whether `read` adds a column with the problem of each row
    needs_time: ClassVar[bool] = False  # whether a row without a time is malformed

    source: str = Field(description="Where rows come from.")
    columns: dict[str, Text] = Field(
        default={},
        description="Computed columns. Each is an SQL expression over the columns before it; computed first.",
        examples=[{"value": "price * size"}],
    )
    time: Text | None = Field(
        default=None,
        description="The column with the event time. A rate source uses timestamp; kafka_timestamp is the time of the "
        "Kafka record.",
        examples=["ts"],
    )
    time_format: Text | None = Field(
        default=None,
        description="How to parse a time column that is not a timestamp: seconds, milliseconds or microseconds since "
        "1970, or a Spark datetime pattern.",
        examples=["seconds", "milliseconds", "microseconds", "yyyy-MM-dd HH:mm:ss"],
    )
    watermark: Gap = Field(
        default="10 seconds",
        description="How far a row may be behind the newest row. Later rows are late: they are dropped and counted.",
        examples=["10 seconds", "0 seconds"],
    )
    emit: Literal["final", "provisional"] = Field(
        default="final",
        description="final: a window is emitted once, when the watermark has reached its end. provisional: open "
        "windows are also emitted, whenever their answer has changed; the column final marks the last ones.",
    )
    provisional_every: Gap | None = Field(
        default=None,
        description="How much event time is between two provisional answers, at least. Default: every micro-batch.",
        examples=["10 seconds"],
    )
    allowed_lateness: Gap | None = Field(
        default=None,
        description="How far a row may be behind the watermark and still be used. Final windows whose answers it "
        "changes are emitted again, with a higher number in the column revision. Default: late rows are not used. Not "
        "for uncertain queries.",
        examples=["5 minutes"],
    )
    id: Text | None = Field(
        default=None,
        description="The column that breaks ties: at equal score and time, the row with the larger id ranks higher.",
    )

    @property
    def emission(self) -> Emission:
        """When answers are emitted."""
        return Emission.parsed(self.emit, self.provisional_every, self.allowed_lateness)

    def read(self, how: Reading) -> DataFrame:
        """Return the rows before computed columns are added. If `marks_malformed`, includes the problem column."""
        raise NotImplementedError

    def settled(self, folder: Path) -> Self:
        """Return a copy with paths resolved against `folder` and with defaults filled in."""
        return self

    def described(self) -> str:
        """Return a short description of the source, for explain output."""
        raise NotImplementedError

    @property
    def dead_letter_folder(self) -> str | None:
        """The folder for malformed rows, if configured."""
        return None

    def without_dead_letters(self) -> Self:
        """Return a copy that only counts malformed rows."""
        kept = {"dead_letters", "dead_letter_topic"} & type(self).model_fields.keys()
        return self.model_copy(update=dict.fromkeys(kept))

    @classmethod
    def given_columns(cls, raw: Mapping[str, Any]) -> Iterable[str]:
        """Return all columns of the rows if the keys determine them, else nothing."""
        return raw["schema"] if _is_map(raw.get("schema")) else ()

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check time_format and emit; if all columns are known, check that time and id name one of them."""
        yield from _time_rules(raw)
        if raw.get("provisional_every") is not None and raw.get("emit", "final") != "provisional":
            yield "provisional_every", "is only for emit: provisional; no window is emitted before its end."
        given = list(cls.given_columns(raw))
        known = [*given, *(raw["columns"] if _is_map(raw.get("columns")) else [])]
        lower = {name.lower() for name in known}
        for key in ("time", "id") if given else ():
            name = raw.get(key)
            if isinstance(name, str) and name.strip() and re.fullmatch(r"\w+", name) and name.lower() not in lower:
                near = nearest(name, known)
                hint = f"did you mean {near!r}?" if near else f"columns: {', '.join(map(str, known))}."
                yield key, f"{shown(name)} is not a column of this stream; {hint}"


with warnings.catch_warnings():
    # The field has the name of the key, `schema`. It shadows a deprecated method of pydantic.
    warnings.filterwarnings("ignore", message='Field name "schema"')

    class ParsedSource(SourceModel):
        """A source that parses rows from a format, with columns that a schema can declare."""

        format: Format | None = Field(default=None, description="The format of the rows.")
        options: dict[str, Scalar] = Field(
            default={},
            repr=False,  # secrets may be among them
            description="Options of Spark's reader, passed through unchanged.",
        )
        schema: dict[str, SqlType] | None = Field(  # type: ignore[assignment]  # see above
            None,
            min_length=1,
            description="Columns and their Spark SQL types. Default for files: inferred. Required for socket, and for "
            "kafka unless the format is text.",
            examples=[{"ts": "timestamp", "price": "double"}],
        )


def _time_rules(raw: Mapping[str, Any]) -> Wrong:
    pattern = raw.get("time_format")
    if not isinstance(pattern, str) or pattern in _TIME_WORDS or not pattern.strip():
        return
    near = nearest(pattern, _TIME_WORDS)
    if near:
        yield "time_format", f"{pattern!r} is not a unit of time since 1970; did you mean {near!r}?"
        return
    bare = re.sub(r"'[^']*'", "", pattern)
    strange = [letter for letter in bare if letter.isalpha() and letter not in _PATTERN_LETTERS]
    if strange or "y" not in bare:
        why = (
            f"{strange[0]!r} is not a pattern letter (put literal text in single quotes: 'T')"
            if strange
            else "it has no year (yyyy)"
        )
        rule = f"must be {', '.join(_TIME_WORDS)} or a Spark datetime pattern like 'yyyy-MM-dd HH:mm:ss'"
        yield "time_format", f"{rule}, got {pattern!r}: {why}."


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and bool(value)
