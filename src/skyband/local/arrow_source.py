"""The columns of an Arrow table, and expressions over them evaluated in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_numpy, one
from skyband.data.row_hash import row_hash
from skyband.data.wrong_values import key_text, wrong_value
from skyband.errors import InvalidInputError, InvalidQueryError, SkybandError, UnsupportedError
from skyband.expressions import EvaluationError, compile_expression
from skyband.expressions.types import spark_name
from skyband.queries import Query
from skyband.sharding.row_source import EXACT, RowSource

__all__ = ["ArrowColumn", "ArrowSource"]

_NAN = from_numpy(np.array([np.nan]), pa.float64())[0]  # `pyarrow.scalar` would import pandas
_ONE_SHARD = 1
_DIGITS = 15  # decimal numbers with so many digits are different as doubles
_WIDE = 64  # bits


@dataclass(frozen=True)
class ArrowColumn:
    """A column that is computed from a table."""

    kind: pa.DataType
    compute: Callable[[pa.Table], pa.Array]
    reads: frozenset[str]  # the table's columns that it is computed from
    name: str | None = None  # of the table's column, if it is unchanged


class ArrowSource(RowSource[ArrowColumn, pa.DataType]):
    """The columns of tables with this schema."""

    conversion = "pyarrow.compute.cast, pandas.to_datetime or polars.from_epoch"

    def __init__(self, schema: pa.Schema, taken: tuple[str, ...], rows: pa.Table | None = None) -> None:
        super().__init__(zip(schema.names, schema.types, strict=True), taken)
        self._schema = schema
        self._rows = rows  # for error messages
        self.read: set[str] = set()  # the columns that were requested
        self.computed_with: set[str] = set()  # those of them that are more than passed on

    def type_of(self, query: Query, what: str, text: str) -> pa.DataType:
        """Return the type of an expression; one that cannot be computed here is rejected."""
        try:
            return compile_expression(text, self._schema).type
        except SkybandError as error:
            raise InvalidQueryError(f"query {query.name!r}: {what}={text!r} cannot be computed: {error}") from error

    def column(self, name: str) -> ArrowColumn:
        """Return a column of the table."""
        self.read.add(name)
        return ArrowColumn(self._kind[name], lambda table: one(table[name]), frozenset([name]), name)

    def expression(self, text: str) -> ArrowColumn:
        """Return a compiled expression."""
        found = compile_expression(text, self._schema)
        if found.is_column and found.type == self._kind[found.columns[0]]:
            return self.column(found.columns[0])
        self.read.update(found.columns)
        self.computed_with.update(found.columns)
        return ArrowColumn(found.type, found.evaluate, frozenset(found.columns))

    def identity(self) -> ArrowColumn:
        """Return the same hash of a row that Spark computes."""
        self.read.update(self.names)
        self.computed_with.update(self.names)
        return ArrowColumn(
            pa.int64(), lambda table: from_numpy(row_hash(table, self.names), pa.int64()), frozenset(self.names)
        )

    def kind_of(self, column: ArrowColumn) -> pa.DataType:
        """Return the type of a column."""
        return column.kind

    def as_number(self, column: ArrowColumn, error: str, keys: Sequence[ArrowColumn] = ()) -> ArrowColumn:
        """Return numbers as doubles: NaN for null."""

        def compute(table: pa.Table) -> pa.Array:
            values = _computed(column, table, keys)
            if pa.types.is_int64(values.type):
                _refuse_inexact(values, error, table, keys)
            numbers = values.cast(pa.float64(), safe=False)
            return numbers.fill_null(_NAN) if numbers.null_count else numbers

        return ArrowColumn(pa.float64(), compute, column.reads)

    def wrong_value(self, text: str, keys: Sequence[ArrowColumn]) -> str:
        """Return a sentence about the first value that is not a number, and its keys."""
        if self._rows is None:
            return ""
        values = self.expression(text).compute(self._rows)
        named = {str(place): key.compute(self._rows) for place, key in enumerate(keys)}
        return wrong_value(values, named, "value")

    def as_score(self, column: ArrowColumn) -> ArrowColumn:
        """Return values of any ordered type as doubles in their order."""

        def compute(table: pa.Table) -> pa.Array:
            values = column.compute(table)
            if pa.types.is_dictionary(values.type):
                values = values.cast(values.type.value_type)
            numbers = _prefixes(values) if _is_bytes(values.type) else _as_doubles(values)
            return numbers.fill_null(_NAN) if numbers.null_count else numbers

        return ArrowColumn(pa.float64(), compute, column.reads)

    def is_exact(self, kind: pa.DataType) -> bool:
        """Return whether different values are different as doubles."""
        if pa.types.is_decimal(kind):
            return bool(kind.precision <= _DIGITS)
        short = pa.types.is_integer(kind) and kind.bit_width < _WIDE
        return bool(short or pa.types.is_floating(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind))

    def is_integer(self, kind: pa.DataType) -> bool:
        """Return whether values are integers."""
        return bool(pa.types.is_integer(kind))

    def as_label(self, column: ArrowColumn) -> ArrowColumn:
        """Return labels as they are compared."""
        if pa.types.is_integer(column.kind):
            return ArrowColumn(pa.int64(), lambda table: column.compute(table).cast(pa.int64()), column.reads)
        return self.without_nan(column)

    def as_text(self, column: ArrowColumn) -> ArrowColumn:
        """Return values as text, as Spark writes them."""
        if _is_text(column.kind) or pa.types.is_integer(column.kind) or pa.types.is_boolean(column.kind):
            return ArrowColumn(pa.string(), lambda table: column.compute(table).cast(pa.string()), column.reads)
        raise UnsupportedError(
            f"a column of type {self.described(column.kind)} cannot be used as a label here; cast it to a string in "
            "the expression."
        )

    def text(self, value: str | None) -> ArrowColumn:
        """Return a column with one text in every row."""
        return ArrowColumn(pa.string(), lambda table: _repeated(value, table.num_rows), frozenset())

    def without_nan(self, column: ArrowColumn) -> ArrowColumn:
        """Return the column with null for NaN and 0.0 for -0.0."""
        if not pa.types.is_floating(column.kind):
            return column
        zero, nothing = pa.scalar(0.0, column.kind), pa.scalar(None, column.kind)

        def compute(table: pa.Table) -> pa.Array:
            values = column.compute(table)
            return pc.if_else(pc.is_nan(values), nothing, pc.add(values, zero))

        return ArrowColumn(column.kind, compute, column.reads)

    def where(self, condition: ArrowColumn, column: ArrowColumn) -> ArrowColumn:
        """Return the column, null where the condition is not true."""
        nothing = pa.scalar(None, column.kind)

        def compute(table: pa.Table) -> pa.Array:
            holds = condition.compute(table).fill_null(False)
            # As on Spark, a value is computed only where the filter holds: it may fail elsewhere.
            if column.kind == pa.float64() and not _all(holds):
                return _scattered(column, table, holds)
            return pc.if_else(holds, column.compute(table), nothing)

        return ArrowColumn(column.kind, compute, condition.reads | column.reads)

    def replaced(self, condition: ArrowColumn, new: ArrowColumn | float, column: ArrowColumn) -> ArrowColumn:
        """Return the column, with `new` where the condition is true."""

        def compute(table: pa.Table) -> pa.Array:
            value = new.compute(table) if isinstance(new, ArrowColumn) else pa.scalar(new, column.kind)
            return pc.if_else(condition.compute(table).fill_null(False), value, column.compute(table))

        reads = condition.reads | column.reads | (new.reads if isinstance(new, ArrowColumn) else frozenset())
        return ArrowColumn(column.kind, compute, reads)

    def counts(self, keys: Sequence[ArrowColumn], value: ArrowColumn | None) -> ArrowColumn:
        """Return whether a row has all columns of a key, and a value."""

        def compute(table: pa.Table) -> pa.Array:
            found = reduce(pc.and_, (key.compute(table).is_valid() for key in keys))
            return found if value is None else pc.and_(found, pc.invert(pc.is_nan(value.compute(table))))

        reads = [column.reads for column in (*keys, value) if column is not None]
        return ArrowColumn(pa.bool_(), compute, frozenset().union(*reads))

    def with_zero(self, column: ArrowColumn) -> ArrowColumn:
        """Return numbers with 0.0 for -0.0."""
        zero = pa.scalar(0.0, column.kind)
        return ArrowColumn(column.kind, lambda table: pc.add(column.compute(table), zero), column.reads)

    def home(self, columns: Iterable[ArrowColumn], shards: int) -> ArrowColumn:
        """Return the shard of a key, as Spark computes it."""
        parts = list(columns)

        def compute(table: pa.Table) -> pa.Array:
            if shards == _ONE_SHARD:
                return from_numpy(np.zeros(table.num_rows, np.int32), pa.int32())
            hashed = row_hash(pa.table([part.compute(table) for part in parts], [str(at) for at in range(len(parts))]))
            return from_numpy((hashed % shards).astype(np.int32), pa.int32())

        return ArrowColumn(pa.int32(), compute, frozenset().union(*(part.reads for part in parts)))

    def described(self, kind: pa.DataType) -> str:
        """Return the name of a type, as Spark writes it."""
        return spark_name(kind)

    def is_time(self, kind: pa.DataType) -> bool:
        """Return whether event time can be of this type."""
        return bool(pa.types.is_timestamp(kind))

    def is_instant(self, kind: pa.DataType) -> bool:
        """Return whether times of this type have a time zone."""
        return bool(pa.types.is_timestamp(kind) and kind.tz is not None)

    def is_number(self, kind: pa.DataType) -> bool:
        """Return whether scores and values can be of this type."""
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))

    def is_flag(self, kind: pa.DataType) -> bool:
        """Return whether a filter can be of this type."""
        return bool(pa.types.is_boolean(kind))

    def is_label(self, kind: pa.DataType) -> bool:
        """Return whether objects and streams can be of this type."""
        return bool(
            pa.types.is_integer(kind)
            or _is_text(kind)
            or pa.types.is_date32(kind)
            or self.is_instant(kind)
            or pa.types.is_float64(kind)
        )

    def is_key(self, kind: pa.DataType) -> bool:
        """Return whether keys of aggregates can be of this type."""
        return bool(
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or _is_text(kind)
            or pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_date32(kind)
            or pa.types.is_timestamp(kind)
            or pa.types.is_boolean(kind)
        )

    def is_ordered(self, kind: pa.DataType) -> bool:
        """Return whether values of this type can be sorted."""
        return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _as_doubles(values: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return values.cast(pa.float64(), safe=False)


def _prefixes(values: pa.Array) -> pa.Array:
    """Return the number that the first six bytes of each value form; shorter ones end with zeros."""
    heads = pc.binary_slice(
        values.cast(pa.large_binary() if pa.types.is_large_string(values.type) else pa.binary()), 0, 6
    )
    distinct = heads.dictionary_encode()
    numbers = [int.from_bytes(head.as_py().ljust(6, b"\0"), "big") for head in distinct.dictionary]
    return pa.array(numbers, pa.int64()).cast(pa.float64()).take(distinct.indices)


def _all(flags: pa.Array) -> bool:
    return bool(pc.all(flags, min_count=0).as_py())


def _repeated(value: str | None, rows: int) -> pa.Array:
    return pa.nulls(rows, pa.string()) if value is None else pa.repeat(pa.scalar(value, pa.string()), rows)


def _scattered(column: ArrowColumn, table: pa.Table, holds: pa.Array) -> pa.Array:
    """Compute doubles for the rows where `holds` is true; the others are null."""
    mask = holds.to_numpy(zero_copy_only=False)
    numbers = np.zeros(table.num_rows)
    numbers[mask] = column.compute(table.filter(holds)).to_numpy(zero_copy_only=False)
    return pa.array(numbers, mask=~mask)


def _computed(column: ArrowColumn, table: pa.Table, keys: Sequence[ArrowColumn]) -> pa.Array:
    """Compute a column; an error names the keys of the row."""
    try:
        return column.compute(table)
    except EvaluationError as error:
        if not keys:
            raise
        raise error.of_key(_key_of(table, error.row, keys)) from error


def _refuse_inexact(values: pa.Array, error: str, table: pa.Table, keys: Sequence[ArrowColumn]) -> None:
    if len(values) > values.null_count:
        ends = pc.min_max(values)
        if ends["min"].as_py() < -EXACT or ends["max"].as_py() > EXACT:
            beyond = pc.or_(pc.less(values, -EXACT), pc.greater(values, EXACT))
            row = int(pc.indices_nonzero(beyond)[0].as_py())
            key = f", with key {_key_of(table, row, keys)}" if keys else ""
            raise InvalidInputError(f"{error} The value is {values[row].as_py()}{key}.")


def _key_of(table: pa.Table, row: int, keys: Sequence[ArrowColumn]) -> str:
    return key_text([key.compute(table.slice(row, 1))[0].as_py() for key in keys])
