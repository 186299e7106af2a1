"""Conversion of values to JSON that JavaScript can read without loss of precision."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

__all__ = ["Group", "group_key", "group_of", "moment_text", "packed", "plain"]

Group = list[Any]  # the values of a query's group columns, plain
LARGEST = 2**53  # above this, doubles cannot represent every integer
LONGEST = 16_384  # characters of a text sent to the browser

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain(value: Any) -> Any:
    """Return a value of a row as a JSON value that a browser reads without loss.

    >>> plain(2**60), plain(float("inf")), plain([1, float("nan")]), plain(b"ab")
    ('1152921504606846976', 'Infinity', [1, 'NaN'], 'YWI=')
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if len(value) <= LONGEST else value[:LONGEST] + "…"
    if isinstance(value, int):
        return value if -LARGEST <= value <= LARGEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _NAMED.get(value, "NaN")
    return _spelled(value)


def packed(value: Any) -> bytes:
    """Return JSON values as UTF-8 bytes.

    >>> packed({"id": plain("</script>")})
    b'{"id":"</script>"}'
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def moment_text(moment: int, axis: str) -> str | int:
    """Return a moment as a JSON value: ISO text in UTC for microseconds since 1970, a count position unchanged.

    >>> moment_text(1_704_101_400_000_000, "time"), moment_text(500, "count")
    ('2024-01-01T09:30:00+00:00', 500)
    """
    if axis != "time":
        return int(plain(moment)) if abs(moment) <= LARGEST else str(moment)
    try:
        return (_EPOCH + timedelta(microseconds=moment)).isoformat()
    except OverflowError:
        return str(moment)


def group_of(values: Sequence[Any]) -> Group:
    """Return a group as JSON values, with integral floats as integers, because JavaScript has one number type."""
    return [_whole(plain(value)) for value in values]


def group_key(values: Sequence[Any]) -> str:
    """Return the lookup key of a group. It does not depend on how the numbers are written.

    >>> group_key([1.0, "a"]) == group_key([1, "a"]), group_key([None])
    (True, '[null]')
    """
    return json.dumps(group_of(values), ensure_ascii=False, separators=(",", ":"))


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST else value


def _spelled(value: Any) -> Any:
    """Return nested values, and values without a JSON type, as JSON values."""
    for kind, spell in _SPELLED.items():
        if isinstance(value, kind):
            return spell(value)
    return plain(str(value))


_NAMED = {math.inf: "Infinity", -math.inf: "-Infinity"}
_SPELLED: dict[type, Callable[[Any], Any]] = {
    datetime: lambda value: value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat(),
    date: date.isoformat,
    time: time.isoformat,
    timedelta: timedelta.total_seconds,
    bytes: lambda value: base64.b64encode(value[:LONGEST]).decode(),
    Decimal: str,
    dict: lambda value: {str(key): plain(inner) for key, inner in value.items()},
    list: lambda value: [plain(inner) for inner in value],
    tuple: lambda value: [plain(inner) for inner in value],
}
