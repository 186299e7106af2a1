"""Value types of the keys of queries and of the engine, with their JSON Schema."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema

from skyband.connectors.values import DURATION, checked_duration, refused

__all__ = [
    "Bounds",
    "CalendarExtent",
    "Extent",
    "Labels",
    "LateRows",
    "Memory",
    "Names",
    "Occurrences",
    "Origin",
    "Share",
    "Size",
    "Weights",
]


_CALENDAR = re.compile(r"\s*(\d+\s*(day|week|month|quarter|year)s?|P\d+[DWMY])\s*", re.IGNORECASE)


def _calendar_extent(value: Any, info: ValidationInfo) -> str | int:
    """Accept calendar lengths too: the query checks whether its zone allows them."""
    if isinstance(value, str) and _CALENDAR.fullmatch(value):
        return value
    return _extent(value, info)


def _size(value: Any, info: ValidationInfo) -> str | int:
    return "all" if value == "all" else _calendar_extent(value, info)


def _extent(value: Any, info: ValidationInfo) -> str | int:
    if isinstance(value, str):
        return checked_duration(value, info)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refused(f"must be a duration such as '10 minutes' or a whole number of rows, got {value!r}.")
    if value < 1:
        raise refused(f"must be at least 1, got {value}.")
    return value


def _origin(value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise refused(f"must be a date or time such as '2024-01-01' or a whole number, got {value!r}.")
    return value


def _names(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise refused(f"must be a column or a list of columns, got {value!r}.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise refused(f"must not contain a column twice, got {twice[0]!r} twice in {value!r}.")
    return names


def _labels(value: Any) -> list[str | int]:
    if not isinstance(value, list) or not value or not all(_is_label(label) for label in value):
        raise refused(f"must be a list of names or whole numbers, got {value!r}.")
    return value


def _weights(value: Any) -> dict[str | int, float]:
    if not isinstance(value, dict) or not all(_is_number(weight) for weight in value.values()):
        raise refused(f"must be a mapping of streams to numbers, got {value!r}.")
    return {label: float(weight) for label, weight in value.items()}


def _bounds(value: Any) -> tuple[float, float] | dict[str | int, tuple[float, float]]:
    if isinstance(value, dict) and value:
        return {stream: _bounds_pair(pair) for stream, pair in value.items()}
    return _bounds_pair(value)


def _bounds_pair(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
        raise refused(f"must be two numbers, the smallest and the largest value, such as [0, 1], got {value!r}.")
    return float(value[0]), float(value[1])


def _occurrences(value: Any) -> int | str:
    if value == "once":
        return "once"
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refused(f"must be a whole number of at least 1, or once, got {value!r}.")
    return value


def _share(value: Any) -> float:
    if not _is_number(value) or not 0 < value <= 1:
        raise refused(f"must be a number in (0, 1], got {value!r}.")
    return float(value)


def _late(value: Any) -> str | dict[str, float]:
    if isinstance(value, str) and value in ("count", "refuse"):
        return value
    if not isinstance(value, dict) or not value or not value.keys() <= {"warn", "fail"}:
        limits = "limits such as {warn: 0.1%, fail: 5%}"
        raise refused(f"must be count, refuse or {limits}, got {value!r}.")  # words: allow
    return {name: _percentage(share) for name, share in value.items()}


def _percentage(value: Any) -> float:
    """Parse a share of rows: a number between 0 and 1, or text such as 0.1%."""
    share = value
    if isinstance(value, str) and (found := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value, re.ASCII)):
        share = float(found[1]) / 100
    if not _is_number(share) or not 0 <= share <= 1:
        raise refused(f"must be a percentage such as 0.1% or a number between 0 and 1, got {value!r}.")
    return float(share)


def _is_label(value: Any) -> bool:
    return (isinstance(value, str) and bool(value.strip())) or (isinstance(value, int) and not isinstance(value, bool))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
Memory = Annotated[str, Field(pattern=r"^[0-9]+[kKmMgGtT][bB]?$", examples=["4g", "512m"])]
Origin = Annotated[
    str | int,
    PlainValidator(_origin),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"\S"}]}),
]
Extent = Annotated[
    str | int,
    PlainValidator(_extent),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": DURATION}]}),
]
_LENGTHS: list[dict[str, Any]] = [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": DURATION}]
CalendarExtent = Annotated[str | int, PlainValidator(_calendar_extent), WithJsonSchema({"anyOf": _LENGTHS})]
Size = Annotated[
    str | int, PlainValidator(_size), WithJsonSchema({"anyOf": [*_LENGTHS, {"type": "string", "enum": ["all"]}]})
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
_PAIR = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
Bounds = Annotated[
    tuple[float, float] | dict[str | int, tuple[float, float]],
    PlainValidator(_bounds),
    WithJsonSchema({"anyOf": [_PAIR, {"type": "object", "additionalProperties": _PAIR, "minProperties": 1}]}),
]
Occurrences = Annotated[
    int | str,
    PlainValidator(_occurrences),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "once"}]}),
]
Share = Annotated[
    float, PlainValidator(_share), WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
]
