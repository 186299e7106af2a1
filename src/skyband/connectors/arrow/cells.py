"""Cells of text as typed values: which type Spark infers for a column, and which cells do not have the type.

Only texts whose meaning on Spark is certain are converted. Others raise `UncertainError`, and the run is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import compile_expression
from skyband.expressions.types import DATE, TIMESTAMP, is_integral

__all__ = ["ColumnTypes", "UncertainError", "converted", "is_supported"]

_INTEGER = r"^[+-]?\d+$"
_DOUBLE = r"^[+-]?\d*\.\d+$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_LIKE_NUMBER = r"(?i)^[\x00-\x20]*[+-]?(\d|\.\d|nan|inf|\p{Nd})"  # Java parses more than _NUMBER
_BOOLEAN = r"(?i)^(true|false)$"
_DATE = r"^\d{4}-\d{2}-\d{2}$"
_CLOCK = r"\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?"
_INSTANT = (
    rf"^(?P<local>\d{{4}}-\d{{2}}-\d{{2}}(?:[ T]{_CLOCK})?)"
    r"(?:Z|(?P<sign>[+-])(?P<hh>0\d|1[0-7])(?::(?P<mm>[0-5]\d))?)?$"
)
_OFFSET_OF_DATE = r"^\d{4}-\d{2}-\d{2}[Z+-]"  # a zone without a clock
_LIKE_TIME = r"^[\x00-\x20]*(T\d|[+-]?\p{Nd})"
_WORD = r"(?i)^(nan|inf|infinity|true|false)$"
_TEXT = r"^[^\x00-\x20\d+\-.T\p{Nd}]|^T[^\d]|^T$|^[1-9][^:\-]*[A-Za-z]{2}"  # neither a number nor a time
_LIMITS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
_AS_TIME = compile_expression("try_cast(t AS timestamp)", pa.schema([("t", pa.string())]))
_AS_DATE = compile_expression("try_cast(t AS date)", pa.schema([("t", pa.string())]))


class UncertainError(Exception):
    """A text that Spark may read in a way that is not known here. The message is the text."""


def is_supported(kind: pa.DataType) -> bool:
    """Whether cells can be converted to a type."""
    return is_integral(kind) or kind in (pa.string(), pa.bool_(), pa.float32(), pa.float64(), DATE, TIMESTAMP)


def converted(cells: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """Return the values of cells and a mask of cells that do not have the type. A null cell is a null.

    >>> values, wrong = converted(pa.array(["1", "x", None]), pa.int32())
    >>> values.to_pylist(), wrong.to_pylist()
    ([1, None, None], [False, True, False])
    """
    if kind == pa.string():
        return cells, pa.repeat(False, len(cells))
    if is_integral(kind):
        values = _integers(cells, kind)
    elif pa.types.is_floating(kind):
        values = _only(cells, _NUMBER, lambda texts: _unsigned(texts).cast(kind))
        _refuse_uncertain(cells, values, _LIKE_NUMBER)
    elif kind == pa.bool_():
        values = _only(cells, _BOOLEAN, lambda texts: pc.equal(pc.ascii_lower(texts), "true"))
    elif kind == DATE:
        values = _only(cells, _DATE, lambda texts: _AS_DATE.evaluate(pa.table({"t": texts})))
        _refuse_uncertain(_except(cells, _DATE), values, _LIKE_TIME)
    else:
        values = _only(cells, _INSTANT, _instants)
        known = pc.and_not(pc.match_substring_regex(cells, _INSTANT), pc.match_substring_regex(cells, _OFFSET_OF_DATE))
        _refuse_uncertain(pc.if_else(pc.fill_null(known, False), pa.scalar(None, pa.string()), cells), None, _LIKE_TIME)
    return values, pc.and_(pc.is_valid(cells), pc.is_null(values))


class ColumnTypes:
    """The types that Spark infers for columns of text, from all their cells."""

    def __init__(self, columns: int) -> None:
        self._seen: list[dict[str, str]] = [{} for _ in range(columns)]  # by class of text: an example

    def see(self, place: int, cells: Any) -> None:
        """Take some cells of a column into account."""
        seen, left = self._seen[place], cells.drop_null()
        for name, classify in _CLASSES.items():
            if not len(left):
                return
            found = pc.fill_null(classify(left), False)
            if pc.any(found).as_py():
                seen.setdefault(name, left.filter(found)[0].as_py())
                left = left.filter(pc.invert(found))
        if len(left):
            seen.setdefault("uncertain", left[0].as_py())

    def type_of(self, place: int) -> pa.DataType:
        """Return the type of a column; raise `UncertainError` if it is not certain which one Spark infers."""
        seen = self._seen[place]
        classes = seen.keys()
        if "text" in classes or not classes:
            return pa.string()
        if "uncertain" in classes:
            raise UncertainError(seen["uncertain"])
        for kind, allowed in _TYPES:
            if classes <= allowed:
                return kind
        if "number" in classes:  # may be a decimal on Spark, unless a double is beside it
            if classes <= {"int", "long", "double", "number"} and "double" in classes:
                return pa.float64()
            raise UncertainError(seen["number"])
        return pa.string()


def _is_long(texts: Any) -> Any:
    return pc.is_valid(_integers(texts, pa.int64()))


_CLASSES: dict[str, Callable[[Any], Any]] = {
    "int": lambda texts: pc.is_valid(_integers(texts, pa.int32())),
    "long": _is_long,
    "double": lambda texts: pc.match_substring_regex(texts, _DOUBLE),
    "number": lambda texts: pc.match_substring_regex(texts, _NUMBER),
    "boolean": lambda texts: pc.match_substring_regex(texts, _BOOLEAN),
    "date": lambda texts: pc.is_valid(_only(texts, _DATE, lambda some: _AS_DATE.evaluate(pa.table({"t": some})))),
    "time": lambda texts: pc.and_(
        pc.is_valid(_only(texts, _INSTANT, _instants)), pc.invert(pc.match_substring_regex(texts, _OFFSET_OF_DATE))
    ),
    "text": lambda texts: pc.and_(
        pc.match_substring_regex(texts, _TEXT), pc.invert(pc.match_substring_regex(texts, _WORD))
    ),
}
_TYPES: Iterable[tuple[pa.DataType, set[str]]] = (
    (pa.int32(), {"int"}),
    (pa.int64(), {"int", "long"}),
    (pa.float64(), {"int", "long", "double"}),
    (pa.bool_(), {"boolean"}),
    (DATE, {"date"}),
    (TIMESTAMP, {"date", "time"}),
)


def _only(cells: Any, regex: str, convert: Callable[[Any], Any]) -> Any:
    """Convert the cells that match; the others are null."""
    matched = pc.fill_null(pc.match_substring_regex(cells, regex), False)
    return convert(pc.if_else(matched, cells, pa.scalar(None, pa.string())))


def _except(cells: Any, regex: str) -> Any:
    matched = pc.fill_null(pc.match_substring_regex(cells, regex), False)
    return pc.if_else(matched, pa.scalar(None, pa.string()), cells)


def _refuse_uncertain(cells: Any, values: Any, regex: str) -> None:
    """Reject cells without a value that Spark may parse."""
    maybe = pc.fill_null(pc.match_substring_regex(cells, regex), False)
    if values is not None:
        maybe = pc.and_(maybe, pc.is_null(values))
    if pc.any(maybe).as_py():
        raise UncertainError(cells.filter(maybe)[0].as_py())


def _unsigned(texts: Any) -> Any:
    return pc.replace_substring_regex(texts, r"^\+", "")


def _integers(cells: Any, kind: pa.DataType) -> Any:
    """Integers; null for other texts and beyond the range of the type."""
    if (
        far := pc.any(pc.match_substring_regex(cells, r"^[+-]?\p{Nd}*[^\x00-\x7f]\p{Nd}*$")).as_py()
    ) is not None and far:
        raise UncertainError(cells.filter(pc.match_substring_regex(cells, r"[^\x00-\x7f]"))[0].as_py())
    short = rf"^[+-]?0*\d{{1,{len(str(2 ** _LIMITS[kind]))}}}$"
    wide = _only(cells, short, lambda texts: pc.replace_substring_regex(_unsigned(texts), r"^(-?)0+(\d)", r"\1\2"))
    whole = wide.cast(pa.decimal128(20, 0))
    limit = 2 ** _LIMITS[kind]
    low, high = (pa.scalar(bound, pa.decimal128(20, 0)) for bound in (-limit, limit - 1))
    fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))
    return pc.if_else(fits, whole, pa.scalar(None, whole.type)).cast(kind)


def _instants(texts: Any) -> Any:
    """ISO 8601 times as instants: in UTC, or with an offset."""
    parts = pc.extract_regex(texts, _INSTANT)
    times = _AS_TIME.evaluate(pa.table({"t": pc.struct_field(parts, "local")}))
    if not pc.any(pc.not_equal(pc.struct_field(parts, "sign"), "")).as_py():
        return times
    hours, minutes = (
        pc.if_else(pc.not_equal(text := pc.struct_field(parts, name), ""), text, "0").cast(pa.int64())
        for name in ("hh", "mm")
    )
    offset = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000_000)
    signed = pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(offset), offset)
    return pc.subtract(times.cast(pa.int64()), signed).cast(TIMESTAMP)
