"""The kinds of values that keys take, each checked by itself and described for the published schema."""

from __future__ import annotations

import re
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from skyband.durations import parse_duration
from skyband.errors import InvalidQueryError

__all__ = [
    "Bounds",
    "Count",
    "Extent",
    "Gap",
    "Labels",
    "LateRows",
    "Memory",
    "Names",
    "Origin",
    "Part",
    "Scalar",
    "Servers",
    "Share",
    "SqlType",
    "Starting",
    "Text",
    "Topic",
    "Topics",
    "Weights",
    "refused",
]

_TOPIC = r"[A-Za-z0-9._-]{1,249}"
# Signs, digits, a unit: what is wrong inside is said by the parser. Lookaheads and flags are not for every validator.
_DURATION = r"^\s*([Ii][Nn][Tt][Ee][Rr][Vv][Aa][Ll]\s+)?([+-]?[0-9]+(\.[0-9]+)?\s*[A-Za-z]+\s*)+$"
_TYPES = """
    array bigint binary boolean byte char character date dec decimal double float int integer interval long map
    numeric real short smallint string struct time timestamp timestamp_ltz timestamp_ntz tinyint varchar variant
""".split()  # noqa: SIM905 - a word list reads better as words


def refused(why: str) -> PydanticCustomError:
    """The error of a check made here; its words reach the user as they are."""
    return PydanticCustomError("skyband", "{why}", {"why": why})


def _duration(value: str, info: ValidationInfo) -> str:
    field = info.field_name or "value"
    try:
        ticks = parse_duration(value, field=field)
    except InvalidQueryError as error:
        why = str(error).removeprefix(f"{field}=")
        never_counted = field in ("watermark", "trigger")
        raise refused(why.partition("; an integer makes")[0] + "." if never_counted else why) from error
    if ticks < 0:
        raise refused(f"{value!r} must not be negative; time does not wait for the future.")
    return value


def _extent(value: Any, info: ValidationInfo) -> str | int:
    if isinstance(value, str):
        return _duration(value, info)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refused(f"{value!r} is neither a duration such as '10 minutes' nor a whole number of rows.")
    if value < 1:
        raise refused(f"{value} must be at least 1; a count window holds at least one row.")
    return value


def _origin(value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise refused(f"{value!r} is neither a date or time such as '2024-01-01' nor a whole number.")
    return value


def _scalar(value: Any) -> bool | int | float | str:
    if not isinstance(value, bool | int | float | str):
        raise refused("a single value is expected here: text, a number, true or false.")
    return value


def _names(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise refused(f"{value!r} is neither a column nor a list of columns.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise refused(f"{value!r} names {twice[0]!r} twice; each column groups the stream once.")
    return names


def _labels(value: Any) -> list[str | int]:
    if not isinstance(value, list) or not value or not all(_is_label(label) for label in value):
        raise refused(f"{value!r} is no list of names or whole numbers.")
    return value


def _weights(value: Any) -> dict[str | int, float]:
    if not isinstance(value, dict) or not all(_is_number(weight) for weight in value.values()):
        raise refused(f"{value!r} is no mapping of streams to numbers.")
    return {label: float(weight) for label, weight in value.items()}


def _bounds(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
        raise refused(f"{value!r} is no pair of numbers, the smallest and the largest value: [0, 1].")
    return float(value[0]), float(value[1])


def _share(value: Any) -> float:
    if not _is_number(value) or not 0 < value <= 1:
        raise refused(f"{value!r} is no number in (0, 1].")
    return float(value)


def _late(value: Any) -> str | dict[str, float]:
    if isinstance(value, str) and value in ("count", "refuse"):
        return value
    if not isinstance(value, dict) or not value or not value.keys() <= {"warn", "fail"}:
        raise refused(f"{value!r} is not count, refuse or limits such as {{warn: 0.1%, fail: 5%}}.")
    return {name: _percentage(share) for name, share in value.items()}


def _percentage(value: Any) -> float:
    """A share of rows, from a number in 0..1 or text such as 0.1%."""
    share = value
    if isinstance(value, str) and (found := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value, re.ASCII)):
        share = float(found[1]) / 100
    if not _is_number(share) or not 0 <= share <= 1:
        raise refused(f"{value!r} is not a share of rows; write a percentage such as 0.1%, or a number in 0..1.")
    return float(share)


def _is_label(value: Any) -> bool:
    return (isinstance(value, str) and bool(value.strip())) or (isinstance(value, int) and not isinstance(value, bool))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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


def _sql_type(value: str) -> str:
    word = re.split(r"[\s(<]", value.strip(), maxsplit=1)[0].lower()
    if word in _TYPES:
        return value
    near = get_close_matches(word, _TYPES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "types are timestamp, double, bigint, string, boolean, …"
    raise refused(f"{value!r} is no type of Spark SQL; {hint}")


Text = Annotated[str, Field(pattern=r"\S")]
_SHARE = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$"},
    ]
}
LateRows = Annotated[
    str | dict[str, float],
    PlainValidator(_late),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["count", "refuse"]},
                {
                    "type": "object",
                    "properties": {"warn": _SHARE, "fail": _SHARE},
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ]
        }
    ),
]
Count = Annotated[int, Field(ge=1)]
Memory = Annotated[str, Field(pattern=r"^[0-9]+[kKmMgGtT][bB]?$", examples=["4g", "512m"])]
SqlType = Annotated[Text, AfterValidator(_sql_type)]
Gap = Annotated[str, AfterValidator(_duration), WithJsonSchema({"type": "string", "pattern": _DURATION})]
Origin = Annotated[
    str | int,
    PlainValidator(_origin),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"\S"}]}),
]
Extent = Annotated[
    str | int,
    PlainValidator(_extent),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _DURATION}]}),
]
Scalar = Annotated[
    bool | int | float | str, PlainValidator(_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
Names = Annotated[
    list[str],
    PlainValidator(_names),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"\S"},
                {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "uniqueItems": True},
            ]
        }
    ),
]
_NUMBER = {"type": "number"}
Labels = Annotated[
    list[str | int],
    PlainValidator(_labels),
    WithJsonSchema({"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1}),
]
Weights = Annotated[
    dict[str | int, float],
    PlainValidator(_weights),
    WithJsonSchema({"type": "object", "additionalProperties": _NUMBER}),
]
Bounds = Annotated[
    tuple[float, float],
    PlainValidator(_bounds),
    WithJsonSchema({"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}),
]
Share = Annotated[
    float, PlainValidator(_share), WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
]
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
_IN_A_LIST = {
    "$ref": "#/$defs/Variable"
}  # what may stand for a value; that of a key itself is added to the schema later
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
