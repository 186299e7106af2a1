"""The kinds of values that only the keys of Kafka's connectors take: brokers, topics, offsets."""

from __future__ import annotations

import re
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema

from skyband.connectors.values import refused

__all__ = ["Part", "Servers", "Starting", "Topic", "Topics"]

_TOPIC = r"[A-Za-z0-9._-]{1,249}"


def _servers(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise refused("brokers are written as host:port, with commas between them or in a list.")
    found = [server.strip() for text in texts for server in text.split(",") if server.strip()]
    for server in found:
        port = re.fullmatch(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})", server)
        if port is None or not 1 <= int(port[1]) <= 65535:
            raise refused(f"{server!r} is no broker; write host:port, such as 127.0.0.1:9092.")
    if not found:
        raise refused("is empty; name at least one broker as host:port.")
    return found


def _topic(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(_TOPIC, value) or value in (".", ".."):
        raise refused(f"{value!r} is no name of a topic; one has letters, digits, '.', '_' and '-', at most 249.")
    return value


def _topics(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise refused("a topic is expected here, or a list of them.")
    found = [_topic(name) for name in names]
    if len(set(found)) < len(found):
        raise refused(f"{value!r} names a topic twice; its records would be read once all the same.")
    return found


def _starting(value: Any) -> str | dict[str, dict[str, int]]:
    if isinstance(value, dict) and value:
        for topic, offsets in value.items():
            _topic(topic)
            fits = isinstance(offsets, dict) and offsets and all(map(_is_offset, offsets.items()))
            if not fits:
                raise refused(
                    f"{topic!r} needs an offset for each of its partitions, such as {{0: 1200, 1: 1100}}; -2 is the "
                    "earliest and -1 the latest."
                )
        return value
    if not isinstance(value, str):
        raise refused(f"{value!r} is neither earliest, latest, a time nor offsets by topic and partition.")
    if value not in ("earliest", "latest"):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            near = get_close_matches(value.lower(), ["earliest", "latest"], n=1)
            hint = f"did you mean {near[0]!r}?" if near else "a time is written like 2024-01-01T09:30:00+00:00."
            raise refused(f"{value!r} is neither earliest, latest nor a time; {hint}") from None
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
