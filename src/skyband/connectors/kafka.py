"""Kafka: rows from the records of topics, answers as messages of a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.file_formats import Format
from skyband.connectors.kafka_values import Part, Servers, Starting, Topic, Topics
from skyband.connectors.kinds import Schema, absent, given
from skyband.connectors.secrets import SecretsRule
from skyband.connectors.section import Wrong
from skyband.connectors.sink import SinkModel
from skyband.connectors.source import ParsedSource, Reading
from skyband.connectors.values import Count, Scalar, Text
from skyband.errors import PipelineError
from skyband.paths import absolute, has_scheme

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from skyband.spark.delivery import Opening

__all__ = ["RECORD_PARTS", "KafkaSink", "KafkaSource", "TopicWriter", "client_options", "messages"]

RECORD_PARTS = ("key", "headers", "topic", "partition", "offset", "timestamp")  # with kafka_ before it, a column
_SECRETS = SecretsRule("write ${NAME}, and set NAME in the environment.", allows_default=True)
_SERVED = {  # options of Spark's that are keys here
    "kafka.bootstrap.servers": "servers",
    "subscribe": "topic",
    "subscribepattern": "topic_pattern",
    "assign": "topic",
    "startingoffsets": "starting",
    "startingtimestamp": "starting",
    "startingoffsetsbytimestamp": "starting",
    "maxoffsetspertrigger": "rows_per_batch",
    "includeheaders": "record",
    "topic": "topic",
}


class KafkaSource(ParsedSource):
    """Rows in the values of records."""

    missing: ClassVar[Mapping[str, str]] = {
        "servers": "say where a broker is, as host:port",
        "format": "say what a record's value holds: json, csv or text",
        "time": "name the column with the event time; kafka_timestamp is that of the record itself",
    }
    conditions: ClassVar[tuple[Schema, ...]] = (
        {"properties": {"format": {"not": {"const": "parquet"}}}},
        {"if": {"properties": {"format": {"const": "text"}}}, "then": absent(["schema"]), "else": given("schema")},
        {"if": given("topic"), "then": absent(["topic_pattern"]), "else": given("topic_pattern")},
    )
    secrets_rule: ClassVar[SecretsRule | None] = _SECRETS
    is_bounded: ClassVar[bool] = True
    marks_malformed: ClassVar[bool] = True
    needs_time: ClassVar[bool] = True
    needs_kafka: ClassVar[bool] = True

    source: Literal["kafka"] = Field(default="kafka", description="the records of Kafka topics")
    format: Format = Field(
        description="What a record's value holds: json (an object), csv (a line) or text (one column named value)."
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Options of Spark's reader, passed on as they are; those that begin with kafka. go to Kafka's "
        "client. A secret among them must come from the environment.",
        examples=[{"kafka.security.protocol": "SSL"}],
    )
    servers: Servers = Field(
        description="The brokers to ask first, each as host:port; text with commas or a list.",
        examples=["127.0.0.1:9092", ["one:9092", "two:9092"]],
    )
    topic: Topics | None = Field(
        default=None, description="The topic to read, or a list of them.", examples=["trades", ["a", "b"]]
    )
    topic_pattern: Text | None = Field(
        default=None,
        description="A regular expression of Java's, instead of topic; topics that appear later are read too.",
        examples=["trades-.*"],
    )
    starting: Starting | None = Field(
        default=None,
        description="Where a run without state begins: earliest, latest, a time (records at or after it), or an offset "
        "for each partition of each topic. Default earliest.",
        examples=["latest", "2024-01-01T09:30:00+00:00", {"trades": {"0": 1200, "1": 1100}}],
    )
    rows_per_batch: Count | None = Field(
        default=None,
        description="How many records a micro-batch takes at most. Default: all there are.",
        examples=[1000000],
    )
    record: list[Part] | None = Field(
        default=None,
        min_length=1,
        description="What of the record becomes a column beside those of its value; each is named kafka_ and the word. "
        "One that time or id names need not be listed.",
        examples=[["key", "offset"]],
    )
    largest_value: Count | None = Field(
        default=None,
        le=2**30,
        description="How many bytes a record's value may have; a larger one is malformed. Default 1048576.",
    )
    dead_letters: Text | None = Field(
        default=None,
        description="A folder for malformed rows and records, with the reason, as lines of JSON. Relative to the "
        "folder of the workload file.",
        examples=["malformed"],
    )
    dead_letter_topic: Topic | None = Field(
        default=None,
        description="A topic of the same servers for malformed records: key and value as they were, the reason and the "
        "place in headers.",
        examples=["trades-malformed"],
    )
    time: Text = Field(description="The column with the event time.", examples=["ts", "kafka_timestamp"])

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Which topics a stream reads, and what their records hold."""
        if "topic" not in raw and "topic_pattern" not in raw:
            yield "topic", "is missing; name the topic to read, or give a topic_pattern."
        if "topic" in raw and "topic_pattern" in raw:
            yield "topic_pattern", "cannot stand beside topic; say it one way."
        if "topic_pattern" in raw and isinstance(raw.get("starting"), dict):
            yield "starting", "names offsets, which need topics by name; write topic, or earliest, latest or a time."
        yield from _value_rules(raw)
        yield from _dead_letter_rules(raw)
        yield from _option_rules(raw)
        yield from super().rules(raw)

    @classmethod
    def given_columns(cls, raw: Mapping[str, Any]) -> Iterable[str]:
        """Where those of the value are known, the parts of the record besides.

        >>> list(KafkaSource.given_columns({"format": "text"}))[:2]
        ['value', 'kafka_key']
        """
        own = ["value"] if raw.get("format") == "text" else list(super().given_columns(raw))
        return [*own, *(f"kafka_{part}" for part in RECORD_PARTS)] if own else []

    def read(self, how: Reading) -> DataFrame:
        """The rows in the records' values, with what is wrong with each."""
        from skyband.connectors.kafka_records import read_records, rows_of

        records = read_records(how.spark, self, streaming=how.streaming, at_once=how.at_once)
        return rows_of(records, self, with_record=how.with_record)

    def settled(self, folder: Path) -> Self:
        """With the folder of dead letters made absolute."""
        there = None if self.dead_letters is None else absolute(self.dead_letters, folder)
        return self.model_copy(update={"dead_letters": there})

    def described(self) -> str:
        """Which topics."""
        named = self.topic or []
        topics = f"topic{'s' if len(named) > 1 else ''} {', '.join(named)}"
        read = topics if self.topic_pattern is None else f"topics like {self.topic_pattern}"
        return f"{self.format} in {read} of {', '.join(self.servers)}"

    @property
    def dead_letter_folder(self) -> str | None:
        """As it says."""
        return self.dead_letters


class KafkaSink(SinkModel):
    """Sends a message for each answer to a topic.

    >>> KafkaSink(servers="127.0.0.1:9092", topic="answers").servers
    ['127.0.0.1:9092']
    """

    missing: ClassVar[Mapping[str, str]] = {
        "servers": "say where a broker is, as host:port",
        "topic": "say where answers go",
    }
    secrets_rule: ClassVar[SecretsRule | None] = _SECRETS
    needs_kafka: ClassVar[bool] = True

    type: Literal["kafka"] = Field(default="kafka", description="a message for each answer, in a topic")
    servers: Servers = Field(
        description="The brokers to ask first, each as host:port; text with commas or a list.",
        examples=["127.0.0.1:9092"],
    )
    topic: Topic = Field(description="The topic to write to.", examples=["answers"])
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Options of Kafka's client, which begin with kafka. and are passed on. A secret among them must "
        "come from the environment.",
        examples=[{"kafka.security.protocol": "SSL", "kafka.compression.type": "zstd"}],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """What is set for Kafka's client is one of its options, and has no key of its own."""
        yield from _option_rules(raw)
        for option in _options(raw):
            if not option.startswith("kafka."):
                yield ("options", option), "is no option of Kafka's client; those begin with kafka."

    def open(self, opening: Opening) -> TopicWriter:
        """A writer to the topic."""
        return TopicWriter(self, opening)

    @property
    def target(self) -> str:
        """The topic."""
        return f" to topic {self.topic}"


class TopicWriter:
    """Sends each answer as one message. A micro-batch that is run again sends the same messages again.

    What is asked may change while it runs, so the queries are asked for each time.
    """

    def __init__(self, sink: KafkaSink, opening: Opening) -> None:
        self._spark = opening.spark
        self._options: dict[str, Any] = {**client_options(sink.servers, sink.options), "topic": sink.topic}
        self._asked = opening.workload

    def take(self, batch: int, rows: pa.Table) -> None:
        """Send the answers of a micro-batch, in one task: messages of a key stay in the order of their windows."""
        if not rows.num_rows:
            return
        import pyarrow as pa

        from skyband.connectors.kafka_records import refuse_missing_connector
        from skyband.spark.spark_errors import first_line

        keys, values = zip(*messages(rows, {query.name: query.groups for query in self._asked()}), strict=True)
        table = pa.table({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})
        frame = self._spark.createDataFrame(table).coalesce(1)
        try:
            with refuse_missing_connector():
                frame.write.format("kafka").options(**self._options).save()
        except Exception as error:
            raise PipelineError(
                f"answers cannot be sent to topic {self._options['topic']!r} ({first_line(error)}); the stream stops, "
                "and nothing is lost: once the topic takes messages, run it again."
            ) from None


def messages(rows: pa.Table, groups: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Key and value of each message, both JSON; the rows of an answer are next to each other.

    >>> import pyarrow as pa
    >>> rows = pa.table({"query": ["best", "best"], "window_start": [0, 0], "window_end": [10, 10], "rank": [1, 2],
    ...                  "score": [7.5, 5.0]})
    >>> for key, value in messages(rows, {"best": ()}):
    ...     print(key, value)
    {"query": "best"} {"query": "best", "window_start": 0, "window_end": 10, "rows": [{"rank": 1, "score": 7.5}, ...]}
    """
    from skyband.data.json_lines import json_rows

    spelled = {name.lower(): name for name in rows.column_names}
    named = {query: [spelled.get(group.lower(), group) for group in of] for query, of in groups.items()}
    bounds = [name for name in ("window_start", "window_end", "time") if name in rows.column_names][:2]

    def answer_of(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["query"], *(row[name] for name in (*named[row["query"]], *bounds)))

    for _, answer in groupby(json_rows(rows), key=answer_of):
        mine = list(answer)
        query = mine[0]["query"]
        key = {name: mine[0][name] for name in ("query", *named[query])}
        told = {**key, **{name: mine[0][name] for name in bounds}}
        each = [{name: value for name, value in row.items() if name not in told} for row in mine]
        yield _json(key), _json({**told, "rows": each})


def client_options(servers: list[str] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """What Kafka's client is told.

    >>> client_options(["a:1", "b:2"], {"kafka.security.protocol": "SSL", "sep": ";"})
    {'kafka.bootstrap.servers': 'a:1,b:2', 'kafka.security.protocol': 'SSL'}
    """
    own = {name: value for name, value in options.items() if name.startswith("kafka.")}
    return {"kafka.bootstrap.servers": ",".join(servers or []), **own}


def _value_rules(raw: Mapping[str, Any]) -> Wrong:
    kind = raw.get("format")
    if kind == "parquet":
        yield "format", "'parquet' is a file, and a record's value is a row; write json, csv or text."
    if kind in ("json", "csv") and "schema" not in raw:
        yield "schema", "is missing; values have no types of their own; write 'column: type' for each."
    if kind == "text" and "schema" in raw:
        yield "schema", "does not go with format: text, which is one column named value; compute others under columns."
    if isinstance(raw.get("schema"), dict):
        for column in raw["schema"]:
            if str(column).lower() in {f"kafka_{part}" for part in RECORD_PARTS}:
                yield ("schema", column), f"the name {column!r} is that of a part of the record; rename the column."


def _dead_letter_rules(raw: Mapping[str, Any]) -> Wrong:
    folder, topic, read = raw.get("dead_letters"), raw.get("dead_letter_topic"), raw.get("topic")
    if has_scheme(folder):
        yield "dead_letters", f"{folder!r} is no folder of this machine; give one, or a dead_letter_topic."
    if topic is not None and topic in (read if isinstance(read, list) else [read]):
        yield "dead_letter_topic", f"{topic!r} is read by this stream, which would be given its dead letters again."


def _option_rules(raw: Mapping[str, Any]) -> Wrong:
    for option in _options(raw):
        if option.lower() in _SERVED:
            yield ("options", option), f"has a key of its own here: {_SERVED[option.lower()]}."


def _options(raw: Mapping[str, Any]) -> list[str]:
    return list(raw["options"]) if isinstance(raw.get("options"), dict) else []


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
