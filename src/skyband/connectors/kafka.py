"""Kafka connectors: read rows from the records of topics, write answers as messages to a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.alert_conditions import wrong_conditions
from skyband.connectors.envelope import Envelope, added_columns, envelope_rules
from skyband.connectors.file_formats import Format
from skyband.connectors.kafka_values import Part, Servers, Starting, Topic, Topics
from skyband.connectors.kinds import Schema, absent, given
from skyband.connectors.record_format import ENCODED, encoding_rules, record_format
from skyband.connectors.secrets import SecretsRule
from skyband.connectors.section import Wrong
from skyband.connectors.sink import SinkModel
from skyband.connectors.source import ParsedSource, Reading
from skyband.connectors.values import Count, Gap, Scalar, Text
from skyband.errors import PipelineError, UnsupportedError
from skyband.paths import absolute, has_scheme
from skyband.sharding.emission import marks_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from skyband.connectors.kafka_transactions import TransactionalTopic
    from skyband.sharding.delivery import Opening

__all__ = ["RECORD_PARTS", "KafkaSink", "KafkaSource", "TopicWriter", "client_options", "messages"]

# The column of a part is named kafka_<part>.
RECORD_PARTS = ("key", "headers", "topic", "partition", "offset", "timestamp")
_SECRETS = SecretsRule("write ${NAME} and set NAME in the environment.", allows_default=True)
_SERVED = {  # options of Spark that workload files set with a key
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
_OF_TRANSACTIONS = (
    "kafka.transactional.id",
    "kafka.enable.idempotence",
    "kafka.key.serializer",
    "kafka.value.serializer",
)


class KafkaSource(ParsedSource):
    """Reads rows from the values of Kafka records."""

    missing: ClassVar[Mapping[str, str]] = {
        "servers": "set the address of a broker, as host:port",
        "format": "set the format of record values: json, csv, text, avro or protobuf",
        "time": "name the column with the event time; kafka_timestamp is the time of the record",
    }
    conditions: ClassVar[tuple[Schema, ...]] = (
        {"properties": {"format": {"not": {"const": "parquet"}}}},
        {"if": {"properties": {"format": {"const": "text"}}}, "then": absent(["schema"])},
        {"if": {"properties": {"format": {"enum": ["json", "csv"]}}}, "then": given("schema")},
        {
            "if": {"properties": {"format": {"enum": list(ENCODED)}}},
            "then": {"allOf": [absent(["envelope"]), {"anyOf": [given("registry"), given("schema_file")]}]},
            "else": absent(["registry", "registry_wait", "subject", "schema_file", "message"]),
        },
        {"if": given("registry"), "else": absent(["registry_wait", "subject"])},
        {"if": given("subject"), "then": absent(["schema", "schema_file"])},
        {"if": given("message"), "then": {"properties": {"format": {"const": "protobuf"}}}},
        {"if": given("topic"), "then": absent(["topic_pattern"]), "else": given("topic_pattern")},
    )
    secrets_rule: ClassVar[SecretsRule | None] = _SECRETS
    is_bounded: ClassVar[bool] = True
    marks_malformed: ClassVar[bool] = True
    needs_time: ClassVar[bool] = True
    needs_kafka: ClassVar[bool] = True

    source: Literal["kafka"] = Field(default="kafka", description="the records of Kafka topics")
    format: Format = Field(
        description="The format of record values: json (an object), csv (a line), text (one column named value), avro "
        "or protobuf (with a registry or a schema_file)."
    )
    registry: Text | None = Field(
        default=None,
        repr=False,  # may contain a password from the environment
        description="The address of a schema registry with the API of Confluent's. Each value of format avro or "
        "protobuf then begins with byte 0 and the number of its schema. A password must come from the environment.",
        examples=["http://127.0.0.1:8081", "https://${REGISTRY_USER}:${REGISTRY_PASSWORD}@registry.example.org"],
    )
    registry_wait: Gap | None = Field(
        default=None,
        description="How long to retry while the registry is unavailable, before the stream stops. Default: 60 "
        "seconds.",
        examples=["5 minutes"],
    )
    subject: Text | None = Field(
        default=None,
        description="The subject of the registry whose newest schema sets the columns. Default: <topic>-value. Not "
        "used with schema or schema_file.",
        examples=["trades-value"],
    )
    schema_file: Text | None = Field(
        default=None,
        description="A schema that sets the columns: .avsc for format avro, .proto for protobuf. Without registry, all "
        "values have this schema. Relative to the folder of the workload file.",
        examples=["trade.avsc", "trade.proto"],
    )
    message: Text | None = Field(
        default=None,
        description="The message type of a Protobuf schema that sets the columns. Default: the first one.",
        examples=["Trade"],
    )
    envelope: Envelope | None = Field(
        default=None,
        description="What surrounds the row in a value. debezium: a change event with before, after, op and ts_ms. "
        "Rows have the columns of schema, op (c, r, u or d) and op_time. Tombstones are ignored.",
    )
    tombstones: Literal["delete", "ignore"] | None = Field(
        default=None,
        description="What a record without a value means. delete: a row with op d and no other column, whose key is "
        "kafka_key; other rows have op u. ignore: nothing. Default: it is malformed; with an envelope, ignore.",
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Options of Spark's reader, passed through unchanged. Options that begin with kafka. configure the "
        "Kafka client. Secrets must come from the environment.",
        examples=[{"kafka.security.protocol": "SSL"}],
    )
    servers: Servers = Field(
        description="The bootstrap brokers, each as host:port; comma-separated text or a list.",
        examples=["127.0.0.1:9092", ["one:9092", "two:9092"]],
    )
    topic: Topics | None = Field(
        default=None, description="The topic to read, or a list of topics.", examples=["trades", ["a", "b"]]
    )
    topic_pattern: Text | None = Field(
        default=None,
        description="A Java regular expression for topic names, instead of topic. Topics created later are read too.",
        examples=["trades-.*"],
    )
    starting: Starting | None = Field(
        default=None,
        description="Where a run without state starts: earliest, latest, a time (records at or after it), or an offset "
        "for each partition of each topic. Default: earliest.",
        examples=["latest", "2024-01-01T09:30:00+00:00", {"trades": {"0": 1200, "1": 1100}}],
    )
    rows_per_batch: Count | None = Field(
        default=None,
        description="The maximum number of records in a micro-batch. Default: all available records.",
        examples=[1000000],
    )
    record: list[Part] | None = Field(
        default=None,
        min_length=1,
        description="The parts of the record to add as columns, named kafka_<part>. Parts that time or id name are "
        "added automatically.",
        examples=[["key", "offset"]],
    )
    largest_value: Count | None = Field(
        default=None,
        le=2**30,
        description="The maximum size of a record's value in bytes; larger values are malformed. Default: 1048576.",
    )
    dead_letters: Text | None = Field(
        default=None,
        description="A folder for malformed rows and records and the reasons, as JSON lines. Relative to the folder of "
        "the workload file.",
        examples=["malformed"],
    )
    dead_letter_topic: Topic | None = Field(
        default=None,
        description="A topic on the same servers for malformed records: original key and value; reason and location in "
        "headers.",
        examples=["trades-malformed"],
    )
    time: Text = Field(description="The column with the event time.", examples=["ts", "kafka_timestamp"])

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check topics, formats, dead letters and options."""
        if "topic" not in raw and "topic_pattern" not in raw:
            yield "topic", "is missing; set the topic to read, or topic_pattern."
        if "topic" in raw and "topic_pattern" in raw:
            yield "topic_pattern", "cannot be combined with topic; remove one of them."
        if "topic_pattern" in raw and isinstance(raw.get("starting"), dict):
            yield (
                "starting",
                "offsets require topic, not topic_pattern; set topic, or write earliest, latest or a time.",
            )
        yield from _value_rules(raw)
        yield from encoding_rules(raw)
        yield from envelope_rules(raw)
        yield from _dead_letter_rules(raw)
        yield from _option_rules(raw)
        yield from super().rules(raw)

    @classmethod
    def given_columns(cls, raw: Mapping[str, Any]) -> Iterable[str]:
        """Return the columns of the value, if known, and the parts of the record.

        >>> list(KafkaSource.given_columns({"format": "text"}))[:2]
        ['value', 'kafka_key']
        """
        own = ["value"] if raw.get("format") == "text" else list(super().given_columns(raw))
        return [*own, *added_columns(raw), *(f"kafka_{part}" for part in RECORD_PARTS)] if own else []

    def read(self, how: Reading) -> DataFrame:
        """Return the rows in the values of the records and the problem of each."""
        from skyband.connectors.kafka_records import read_records, rows_of

        form = record_format(how.name, self) if self.format in ENCODED else None
        records = read_records(how.spark, self, streaming=how.streaming, at_once=how.at_once, between=how.between)
        return rows_of(records, self, how.name, form, with_record=how.with_record, in_tasks=how.in_tasks)

    def settled(self, folder: Path) -> Self:
        """Return a copy with an absolute folder for dead letters, and an absolute schema file."""
        paths = {"dead_letters": self.dead_letters, "schema_file": self.schema_file}
        update = {key: None if path is None else absolute(path, folder) for key, path in paths.items()}
        return self.model_copy(update=update)

    def described(self) -> str:
        """Return the format, the topics and the servers."""
        named = self.topic or []
        topics = f"topic{'s' if len(named) > 1 else ''} {', '.join(named)}"
        read = topics if self.topic_pattern is None else f"topics matching {self.topic_pattern}"
        return f"{self.format} in {read} on {', '.join(self.servers)}"

    @property
    def dead_letter_folder(self) -> str | None:
        """The folder for malformed records, if configured."""
        return self.dead_letters


class KafkaSink(SinkModel):
    """Writes each answer as a message to a topic.

    >>> KafkaSink(servers="127.0.0.1:9092", topic="answers").servers
    ['127.0.0.1:9092']
    """

    missing: ClassVar[Mapping[str, str]] = {
        "servers": "set the address of a broker, as host:port",
        "topic": "set the topic to write answers to",
    }
    secrets_rule: ClassVar[SecretsRule | None] = _SECRETS
    needs_kafka: ClassVar[bool] = True

    type: Literal["kafka"] = Field(default="kafka", description="one message per answer, in a topic")
    servers: Servers = Field(
        description="The bootstrap brokers, each as host:port; comma-separated text or a list.",
        examples=["127.0.0.1:9092"],
    )
    topic: Topic = Field(description="The topic to write to.", examples=["answers"])
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Options of the Kafka client, which begin with kafka. and are passed through. Secrets must come "
        "from the environment.",
        examples=[{"kafka.security.protocol": "SSL", "kafka.compression.type": "zstd"}],
    )

    delivery: Literal["at_least_once", "exactly_once"] | None = Field(
        default=None,
        description="at_least_once: a repeated micro-batch sends its messages again. exactly_once: messages are sent "
        "in transactions, which consumers with isolation.level read_committed see once; slower for many answers. "
        "Default: at_least_once.",
    )
    when: list[Text] | None = Field(
        default=None,
        min_length=1,
        description="Send alerts instead of answers, as a sink of type alerts does; with output: changes.",
        examples=[["enters top 3"]],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check conditions, and that options belong to the Kafka client and do not repeat a key."""
        yield from _option_rules(raw)
        yield from wrong_conditions(raw)
        if "when" in raw and raw.get("output") != "changes":
            yield "when", "needs output: changes, because alerts are made from changes."
        for option in _options(raw):
            if not option.startswith("kafka."):
                yield ("options", option), "is not an option of the Kafka client; those begin with kafka."
            if raw.get("delivery") == "exactly_once" and option in _OF_TRANSACTIONS:
                yield ("options", option), "is set by delivery: exactly_once; remove the option."
        yield from _delivery_rules(raw)

    @property
    def reads_old_scores(self) -> bool:
        """Whether it sends alerts."""
        return self.when is not None

    def open(self, opening: Opening) -> TopicWriter | TransactionalTopic:
        """Return a writer to the topic."""
        writer = TopicWriter(self, opening)
        if self.delivery != "exactly_once":
            return writer
        from skyband.connectors.kafka_transactions import TransactionalTopic

        options = client_options(self.servers, self.options)
        return TransactionalTopic(
            writer.spark,
            {name.removeprefix("kafka."): value for name, value in options.items()},
            self.topic,
            opening.stream,
            self.output,
            writer.messages,
            opening.queries(self.queries),
        )

    @property
    def target(self) -> str:
        """The topic."""
        return f" to topic {self.topic}"


class TopicWriter:
    """Sends each answer as one message. A repeated micro-batch sends the same messages again.

    The workload can change while the stream runs, so the writer reads the queries for each micro-batch.
    """

    def __init__(self, sink: KafkaSink, opening: Opening) -> None:
        if opening.spark is None:
            raise UnsupportedError("a sink of type kafka is not supported without Spark, which sends the messages.")
        self.spark = opening.spark
        self._options: dict[str, Any] = {**client_options(sink.servers, sink.options), "topic": sink.topic}
        self._workload = opening.workload
        self._when = sink.when

    def messages(self, rows: pa.Table) -> list[tuple[str, str]]:
        """Return the keys and values of the messages for some answers."""
        groups = {query.name: query.groups for query in self._workload()}
        return list(messages(rows, groups) if self._when is None else _alerts(rows, self._when, groups))

    def take(self, batch: int, rows: pa.Table) -> None:
        """Send the answers of a micro-batch in one task, so that the messages of a key stay in window order."""
        if not rows.num_rows:
            return
        import pyarrow as pa

        from skyband.connectors.kafka_records import reject_missing_connector
        from skyband.spark.spark_errors import first_line

        sent = self.messages(rows)
        if not sent:
            return
        keys, values = zip(*sent, strict=True)
        table = pa.table({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})
        frame = self.spark.createDataFrame(table).coalesce(1)
        try:
            with reject_missing_connector():
                frame.write.format("kafka").options(**self._options).save()
        except Exception as error:
            raise PipelineError(
                f"answers cannot be sent to topic {self._options['topic']!r} ({first_line(error)}). The stream "
                "stopped; no answers are lost. Make the topic writable and run it again."
            ) from None


def _alerts(rows: pa.Table, when: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield the key and value of each alert."""
    from skyband.connectors.alert_rows import alerts_of

    for alert in alerts_of(rows, when, groups):
        yield alert["key"], _json(alert)


def messages(rows: pa.Table, groups: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield the key and value of each message, both JSON. The rows of an answer must be adjacent.

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
    marks = marks_in(rows.column_names)

    def answer_of(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["query"], *(row[name] for name in (*named[row["query"]], *bounds)))

    for _, answer in groupby(json_rows(rows), key=answer_of):
        mine = list(answer)
        query = mine[0]["query"]
        key = {name: mine[0][name] for name in ("query", *named[query])}
        common = {**key, **{name: mine[0][name] for name in (*bounds, *marks)}}
        if marks:  # a topic that is compacted then retains the last answer of each window
            key[bounds[-1]] = mine[0][bounds[-1]]
        each = [{name: value for name, value in row.items() if name not in common} for row in mine]
        yield _json(key), _json({**common, "rows": each})


def client_options(servers: list[str] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the Kafka client.

    >>> client_options(["a:1", "b:2"], {"kafka.security.protocol": "SSL", "sep": ";"})
    {'kafka.bootstrap.servers': 'a:1,b:2', 'kafka.security.protocol': 'SSL'}
    """
    own = {name: value for name, value in options.items() if name.startswith("kafka.")}
    return {"kafka.bootstrap.servers": ",".join(servers or []), **own}


def _value_rules(raw: Mapping[str, Any]) -> Wrong:
    kind = raw.get("format")
    if kind == "parquet":
        yield (
            "format",
            "'parquet' is a file format, but a record's value is one row; write json, csv, text, avro or protobuf.",
        )
    if kind in ("json", "csv") and "schema" not in raw:
        yield (
            "schema",
            "is missing; it is required because record values have no types. Write 'column: type' for each column.",
        )
    if kind == "text" and "schema" in raw:
        yield (
            "schema",
            "cannot be combined with format: text, which has one column named value; compute others with columns.",
        )
    if isinstance(raw.get("schema"), dict):
        for column in raw["schema"]:
            if str(column).lower() in {f"kafka_{part}" for part in RECORD_PARTS}:
                yield ("schema", column), f"{column!r} is reserved for a part of the record; rename the column."


def _dead_letter_rules(raw: Mapping[str, Any]) -> Wrong:
    folder, topic, read = raw.get("dead_letters"), raw.get("dead_letter_topic"), raw.get("topic")
    if has_scheme(folder):
        yield "dead_letters", f"{folder!r} is not a local folder; use a path without a scheme, or dead_letter_topic."
    if topic is not None and topic in (read if isinstance(read, list) else [read]):
        yield "dead_letter_topic", f"{topic!r} is read by this stream, which would read its own dead letters."


def _option_rules(raw: Mapping[str, Any]) -> Wrong:
    for option in _options(raw):
        if option.lower() in _SERVED:
            yield ("options", option), f"is set with the key {_SERVED[option.lower()]} instead."


def _delivery_rules(raw: Mapping[str, Any]) -> Wrong:
    """Check that options of the producer do not break what `delivery` promises."""
    in_transactions = raw.get("delivery") == "exactly_once"
    for option in _options(raw):
        value = str(raw["options"][option]).strip().lower()
        place, got = ("options", option), f"got {raw['options'][option]!r}"
        if option == "kafka.acks" and in_transactions and value not in ("all", "-1"):
            yield place, f"must be all with delivery: exactly_once, {got}: brokers could lose messages that were sent."
        elif option == "kafka.acks" and value == "0":
            yield place, f"must be 1 or all, {got}: messages that no broker confirms can be lost."
        elif option == "kafka.retries" and in_transactions and value == "0":
            yield place, f"must be at least 1 with delivery: exactly_once, {got}; remove the option."
        elif option == "kafka.max.in.flight.requests.per.connection" and in_transactions and not value.isdecimal():
            yield place, f"must be 1 to 5 with delivery: exactly_once, {got}; remove the option."
        elif option == "kafka.max.in.flight.requests.per.connection" and in_transactions and not 1 <= int(value) <= 5:
            yield place, f"must be 1 to 5 with delivery: exactly_once, {got}: messages could change their order."


def _options(raw: Mapping[str, Any]) -> list[str]:
    return list(raw["options"]) if isinstance(raw.get("options"), dict) else []


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
