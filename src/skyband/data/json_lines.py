"""Tables as JSON lines. Values that JSON lacks are written in the form that most parsers accept."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.wide_timestamps import values_of, with_far_times_as_text

__all__ = ["as_json", "flat", "json_lines", "json_rows", "without_formulas"]

_FORMULA = re.compile(r"^[=+\-@\t\r]")  # the first character of a cell that a spreadsheet evaluates


def json_lines(table: pa.Table) -> Iterator[str]:
    r"""Yield a JSON line for each row: times in ISO 8601, infinities and NaN as text, bytes in base64.

    >>> list(json_lines(pa.table({"rank": [1, None], "score": [float("inf"), 2.5]})))
    ['{"rank": 1, "score": "Infinity"}\n', '{"rank": null, "score": 2.5}\n']
    """
    for row in json_rows(table):
        yield json.dumps(row, ensure_ascii=False) + "\n"


def json_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield a dictionary of JSON values for each row.

    >>> list(json_rows(pa.table({"score": [float("nan")]})))
    [{'score': 'NaN'}]
    """
    for batch in table.to_batches(max_chunksize=1 << 14):
        try:
            rows = batch.to_pylist()
        except (ArithmeticError, ValueError):  # values that Python cannot represent
            columns = zip(*(values_of(column) for column in batch.columns), strict=True)
            rows = [dict(zip(batch.schema.names, row, strict=True)) for row in columns]
        for row in rows:
            yield {name: _plain(value) for name, value in row.items()}


def as_json(value: Any) -> str:
    """Return a single value as JSON, in the format of `json_lines`.

    >>> as_json(["A", None, float("inf")])
    '["A", null, "Infinity"]'
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def flat(table: pa.Table) -> pa.Table:
    """Return the table with nested columns as JSON and far times as text, for formats that support neither.

    >>> flat(pa.table({"a": [[1, 2]]})).to_pylist()
    [{'a': '[1, 2]'}]
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            texts = [None if value is None else _text(value) for value in values_of(table.column(place))]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return with_far_times_as_text(table)


def without_formulas(table: pa.Table) -> pa.Table:
    """Return the table with an apostrophe before values and column names that a spreadsheet would evaluate.

    >>> without_formulas(pa.table({"a": ["=1+1", "fine", None], "b": [-1, 2, 3]})).to_pylist()[0]
    {'a': "'=1+1", 'b': -1}
    """
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            is_one = pc.fill_null(pc.match_substring_regex(column, _FORMULA.pattern), fill_value=False)
            quoted = pc.binary_join_element_wise(pa.scalar("'", field.type), column, pa.scalar("", field.type))
            column = pc.if_else(is_one, quoted, column)
        name = f"'{field.name}" if _FORMULA.match(field.name) else field.name
        table = table.set_column(place, name, column)
    return table


def _text(value: Any) -> str:
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return the value as a JSON value."""
    for kind, spelled in _SPELLED.items():
        if isinstance(value, kind):
            return spelled(value)
    return value


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()


_SPELLED: dict[type, Callable[[Any], Any]] = {
    float: _number,
    datetime: _moment,  # before date, its base class
    date: date.isoformat,
    time: time.isoformat,
    bytes: lambda value: base64.b64encode(value).decode(),
    Decimal: str,
    timedelta: timedelta.total_seconds,
    dict: lambda value: {str(key): _plain(inner) for key, inner in value.items()},
    list: lambda value: [_plain(inner) for inner in value],
    tuple: lambda value: [_plain(inner) for inner in value],
}
