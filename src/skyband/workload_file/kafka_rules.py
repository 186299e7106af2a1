"""What the keys of Kafka's streams and sinks ask of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skyband.workload_file.paths import has_scheme

__all__ = ["RECORD", "Wrong", "kafka_columns", "kafka_rules", "kafka_sink_rules"]

Wrong = Iterator[tuple[str | tuple[str, ...], str]]  # a key, or a key and one below it, and what is wrong with it

RECORD = ("key", "headers", "topic", "partition", "offset", "timestamp")  # with kafka_ before it, a column
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


def kafka_rules(raw: Mapping[str, Any]) -> Wrong:
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


def kafka_sink_rules(raw: Mapping[str, Any]) -> Wrong:
    """What is set for Kafka's client is one of its options, and has no key of its own."""
    yield from _option_rules(raw)
    for option in _options(raw):
        if not option.startswith("kafka."):
            yield ("options", option), "is no option of Kafka's client; those begin with kafka."


def kafka_columns(raw: Mapping[str, Any], given: list[str]) -> list[str]:
    """The columns that time and id may name, where those of the value are known.

    >>> kafka_columns({"format": "text"}, [])[:2]
    ['value', 'kafka_key']
    """
    own = ["value"] if raw.get("format") == "text" else given
    return [*own, *(f"kafka_{part}" for part in RECORD)] if own else []


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
            if str(column).lower() in {f"kafka_{part}" for part in RECORD}:
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
