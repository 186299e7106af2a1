"""What all sources have in common: the keys that every stream has, and how its rows are read."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from pydantic import Field

from skyband.connectors.file_formats import Format
from skyband.connectors.kinds import Kind
from skyband.connectors.section import Wrong, nearest, shown
from skyband.connectors.values import Gap, Scalar, SqlType, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ParsedSource", "Reading", "SourceModel"]

_TIME_WORDS = ("seconds", "milliseconds", "microseconds")
_PATTERN_LETTERS = "GyMLdEFDQqahHKkmsSVzOXx"


class Reading(NamedTuple):
    """How the rows of a stream are to be read."""

    spark: SparkSession
    name: str  # of the stream
    streaming: bool = True  # or what is there now, as a batch
    at_once: bool = False  # a micro-batch takes all there is, whatever the stream says about the size of one
    with_record: bool = False  # with where each row stands, for dead letters
    asked: str | None = None  # all text in which queries may name columns; None: every column is wanted


class SourceModel(Kind):
    """Where rows come from, and which column has their time."""

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
    is_bounded: ClassVar[bool] = False  # whether there is an end to what is there now
    marks_malformed: ClassVar[bool] = False  # whether rows come with what is wrong with each
    needs_time: ClassVar[bool] = False  # whether a row without a time is malformed

    source: str = Field(description="Where rows come from.")
    columns: dict[str, Text] = Field(
        default={},
        description="Further columns, each an SQL expression over those before it; computed before anything else.",
        examples=[{"value": "price * size"}],
    )
    time: Text | None = Field(
        default=None,
        description="The column with the event time. A rate source's is timestamp; that of a Kafka record itself "
        "is kafka_timestamp.",
        examples=["ts"],
    )
    time_format: Text | None = Field(
        default=None,
        description="How to read a time column that is no timestamp: seconds, milliseconds or microseconds since "
        "1970, or a Spark pattern.",
        examples=["seconds", "milliseconds", "microseconds", "yyyy-MM-dd HH:mm:ss"],
    )
    watermark: Gap = Field(
        default="10 seconds",
        description="How far behind the newest row a row may come. What comes later is late: left out and counted.",
        examples=["10 seconds", "0 seconds"],
    )
    id: Text | None = Field(
        default=None,
        description="The column that breaks ties: of equal score and time, the larger id is the better row.",
    )

    def read(self, how: Reading) -> DataFrame:
        """The rows, before columns are computed; where malformed ones are marked, with the mark."""
        raise NotImplementedError

    def settled(self, folder: Path) -> Self:
        """The same with absolute paths, those here being relative to a folder, and with defaults filled in."""
        return self

    def described(self) -> str:
        """The source, as a page on the file says it."""
        raise NotImplementedError

    @property
    def dead_letter_folder(self) -> str | None:
        """The folder for malformed rows, if there is one."""
        return None

    def without_dead_letters(self) -> Self:
        """The same, malformed rows being counted only."""
        kept = {"dead_letters", "dead_letter_topic"} & type(self).model_fields.keys()
        return self.model_copy(update=dict.fromkeys(kept))

    @classmethod
    def given_columns(cls, raw: Mapping[str, Any]) -> Iterable[str]:
        """The columns of the source's rows, where its keys tell all of them."""
        return raw["schema"] if _is_map(raw.get("schema")) else ()

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """The time can be read; and where all columns are known, time and id are among them."""
        yield from _time_rules(raw)
        given = list(cls.given_columns(raw))
        known = [*given, *(raw["columns"] if _is_map(raw.get("columns")) else [])]
        lower = {name.lower() for name in known}
        for key in ("time", "id") if given else ():
            name = raw.get(key)
            if isinstance(name, str) and name.strip() and re.fullmatch(r"\w+", name) and name.lower() not in lower:
                near = nearest(name, known)
                hint = f"did you mean {near!r}?" if near else f"columns: {', '.join(map(str, known))}."
                yield key, f"{shown(name)} is no column of this stream; {hint}"


with warnings.catch_warnings():
    # The key is called `schema` in the file, so the field is, too; what it hides is a method pydantic has given up.
    warnings.filterwarnings("ignore", message='Field name "schema"')

    class ParsedSource(SourceModel):
        """A source whose rows are written in some format, and have columns that a schema may name."""

        format: Format | None = Field(default=None, description="How rows are written.")
        options: dict[str, Scalar] = Field(
            default={},
            repr=False,  # secrets may be among them
            description="Options of Spark's reader, passed on as they are.",
        )
        schema: dict[str, SqlType] | None = Field(  # type: ignore[assignment]  # see above
            None,
            min_length=1,
            description="Columns and their Spark SQL types. Left out, files are looked at; a socket needs it, and so "
            "does Kafka unless its format is text.",
            examples=[{"ts": "timestamp", "price": "double"}],
        )


def _time_rules(raw: Mapping[str, Any]) -> Wrong:
    pattern = raw.get("time_format")
    if not isinstance(pattern, str) or pattern in _TIME_WORDS or not pattern.strip():
        return
    near = nearest(pattern, _TIME_WORDS)
    if near:
        yield "time_format", f"{pattern!r} is no unit of time since 1970; did you mean {near!r}?"
        return
    bare = re.sub(r"'[^']*'", "", pattern)
    strange = [letter for letter in bare if letter.isalpha() and letter not in _PATTERN_LETTERS]
    if strange or "y" not in bare:
        why = (
            f"{strange[0]!r} stands for nothing (text goes in single quotes: 'T')"
            if strange
            else "it has no year (yyyy)"
        )
        yield (
            "time_format",
            f"{pattern!r} is neither {', '.join(_TIME_WORDS)} nor a Spark pattern like 'yyyy-MM-dd HH:mm:ss': {why}.",
        )


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and bool(value)
