"""Value types of many keys, with their validation and their published JSON Schema."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from skyband.durations import parse_duration
from skyband.errors import InvalidQueryError

__all__ = [
    "DURATION",
    "Count",
    "Gap",
    "Scalar",
    "Size",
    "SqlType",
    "Text",
    "checked_duration",
    "refused",
    "size_in_bytes",
]

# Signs, digits, a unit; or ISO 8601. The parser reports details. The pattern has no lookaheads and flags, which not
# every JSON Schema validator supports.
DURATION = r"^\s*([Ii][Nn][Tt][Ee][Rr][Vv][Aa][Ll]\s+)?(([+-]?[0-9]+(\.[0-9]+)?\s*[A-Za-z]+\s*)+|[Pp][0-9A-Za-z.]+\s*)$"
SIZE = r"^\s*[0-9]+(\.[0-9]+)?\s*[KkMmGgTt][Bb]?\s*$"
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KkMmGgTt])[Bb]?")
_TYPES = """
    array bigint binary boolean byte char character date dec decimal double float int integer interval long map
    numeric real short smallint string struct time timestamp timestamp_ltz timestamp_ntz tinyint varchar variant
""".split()  # noqa: SIM905 - a word list reads better as words


def refused(why: str) -> PydanticCustomError:
    """Return a validation error with this message, which is shown unchanged."""
    return PydanticCustomError("skyband", "{why}", {"why": why})


def checked_duration(value: str, info: ValidationInfo) -> str:
    """Return the text if it is a duration and not negative."""
    field = info.field_name or "value"
    try:
        ticks = parse_duration(value, field=field)
    except InvalidQueryError as error:
        why = str(error).removeprefix(f"{field}=")
        never_counted = field in ("watermark", "trigger")
        raise refused(why.partition("; an integer makes")[0] + "." if never_counted else why) from error
    if ticks < 0:
        raise refused(f"must not be negative, got {value!r}.")
    return value


def size_in_bytes(text: str) -> int:
    """Return a size in bytes; units are powers of 1024, as in settings of Spark.

    >>> size_in_bytes("128 MB"), size_in_bytes("1.5g")
    (134217728, 1610612736)
    """
    found = _SIZE.fullmatch(text.strip())
    size = 0 if found is None else int(float(found[1]) * 1024 ** "kmgt".index(found[2].lower()) * 1024)
    if size <= 0:
        raise ValueError(text)
    return size


def _size(value: str) -> str:
    try:
        size_in_bytes(value)
    except ValueError:
        raise refused(f"must be a size such as 128 MB, got {value!r}.") from None
    return value


def _scalar(value: Any) -> bool | int | float | str:
    if not isinstance(value, bool | int | float | str):
        raise refused("must be a single value: text, a number, true or false.")
    return value


def _sql_type(value: str) -> str:
    word = re.split(r"[\s(<]", value.strip(), maxsplit=1)[0].lower()
    if word in _TYPES:
        return value
    near = get_close_matches(word, _TYPES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "types are timestamp, double, bigint, string, boolean, …"
    raise refused(f"{value!r} is not a Spark SQL type; {hint}")


Text = Annotated[str, Field(pattern=r"\S")]
Count = Annotated[int, Field(ge=1)]
SqlType = Annotated[Text, AfterValidator(_sql_type)]
Gap = Annotated[str, AfterValidator(checked_duration), WithJsonSchema({"type": "string", "pattern": DURATION})]
Size = Annotated[str, AfterValidator(_size), WithJsonSchema({"type": "string", "pattern": SIZE})]
Scalar = Annotated[
    bool | int | float | str, PlainValidator(_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
