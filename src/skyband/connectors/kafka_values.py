"""Value types of the Kafka connectors: brokers, topics, offsets."""

from __future__ import annotations

import re
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema

from skyband.connectors.values import refused

__all__ = ["SOURCE_OPTIONS", "Part", "Servers", "Starting", "Topic", "Topics"]

# Options of Spark's source. Other options that do not begin with kafka. go to the parser of values.
SOURCE_OPTIONS = {
    "failondataloss",
    "groupidprefix",
    "minpartitions",
    "maxrecordsperpartition",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "startingoffsetsbytimestampstrategy",
}
_TOPIC = r"[A-Za-z0-9._-]{1,249}"


def _servers(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise refused("must be brokers as host:port, comma-separated or in a list.")
    found = [server.strip() for text in texts for server in text.split(",") if server.strip()]
    for server in found:
        port = re.fullmatch(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})", server)
        if port is None or not 1 <= int(port[1]) <= 65535:
            raise refused(f"{server!r} is not a broker address; write host:port, such as 127.0.0.1:9092.")
    if not found:
        raise refused("is empty; set at least one broker as host:port.")
    return found


def _topic(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(_TOPIC, value) or value in (".", ".."):
        raise refused(f"{value!r} is not a topic name; use at most 249 letters, digits, '.', '_' and '-'.")
    return value


def _topics(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise refused("must be a topic or a list of topics.")
    found = [_topic(name) for name in names]
    if len(set(found)) < len(found):
        raise refused(f"{value!r} contains a topic twice; list each topic once.")
    return found


def _starting(value: Any) -> str | dict[str, dict[str, int]]:
    if isinstance(value, dict) and value:
        for topic, offsets in value.items():
            _topic(topic)
            fits = isinstance(offsets, dict) and offsets and all(map(_is_offset, offsets.items()))
            if not fits:
                raise refused(
                    f"{topic!r} needs an offset for each of its partitions, such as {{0: 1200, 1: 1100}}; -2 means "
                    "earliest and -1 latest."
                )
        return value
    if not isinstance(value, str):
        raise refused(f"must be earliest, latest, a time, or offsets by topic and partition, got {value!r}.")
    if value not in ("earliest", "latest"):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            near = get_close_matches(value.lower(), ["earliest", "latest"], n=1)
            hint = f"did you mean {near[0]!r}?" if near else "write a time like 2024-01-01T09:30:00+00:00."
            raise refused(f"must be earliest, latest or a time, got {value!r}; {hint}") from None
    return value


def _is_offset(entry: tuple[str, Any]) -> bool:
    partition, offset = entry
    return partition.isdecimal() and isinstance(offset, int) and not isinstance(offset, bool) and offset >= -2


Servers = Annotated[
    list[str],
    PlainValidator(_servers),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"\S"},
                {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "minItems": 1},
            ]
        }
    ),
]
_A_TOPIC = {"type": "string", "pattern": f"^{_TOPIC}$"}
Topic = Annotated[str, PlainValidator(_topic), WithJsonSchema(_A_TOPIC)]
Part = Literal["key", "headers", "topic", "partition", "offset", "timestamp"]
Topics = Annotated[
    list[str],
    PlainValidator(_topics),
    WithJsonSchema(
        {
            "anyOf": [
                _A_TOPIC,
                {
                    "type": "array",
                    "items": _A_TOPIC,
                    "minItems": 1,
                    "uniqueItems": True,
                },
            ]
        }
    ),
]
Starting = Annotated[
    str | dict[str, dict[str, int]],
    PlainValidator(_starting),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^(earliest|latest|[0-9]{4}-[0-9-]+.*)$"},
                {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": {"type": "integer", "minimum": -2},
                    },
                },
            ]
        }
    ),
]
