"""Compile the text of an expression against a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InvalidInputError, UnknownNameError, UnsupportedError
from skyband.expressions import arithmetic, conditions, division, logic, maths, patterns, strings, times
from skyband.expressions.casts import cast, literal_null
from skyband.expressions.failures import EvaluationError, InvalidExpressionError, code
from skyband.expressions.nodes import Evaluation, Node, Value
from skyband.expressions.parser import parse
from skyband.expressions.registry import lookup
from skyband.expressions.syntax import Cast, ColumnName, Literal, Syntax
from skyband.expressions.types import INTERVAL, MONTHS, spark_name, spark_type

__all__ = ["CompiledExpression", "compile_expression"]

_TOPICS = (
    arithmetic,
    division,
    logic,
    conditions,
    maths,
    strings,
    patterns,
    times,
)  # importing them registers their functions


class CompiledExpression:
    """An expression with its type, ready to be evaluated on batches of the schema it was compiled for."""

    text: str
    """The expression as written."""
    type: pa.DataType
    """The type that Spark gives to the result, as an Arrow type."""
    columns: tuple[str, ...]
    """The columns that are read, by their names in the schema."""
    is_column: bool
    """Whether the expression is the name of a column."""

    def __init__(self, text: str, root: Node, columns: dict[str, pa.DataType]) -> None:
        self.text = text
        self.type = root.type
        self.columns = tuple(columns)
        self.is_column = root.is_column
        self._root = root
        self._types = columns

    def __repr__(self) -> str:
        return f"CompiledExpression({self.text!r}, {spark_name(self.type)})"

    def evaluate(self, data: pa.RecordBatch | pa.Table) -> pa.Array:
        """Return one value per row.

        Raises `EvaluationError` if a row fails, for example with ``DIVIDE_BY_ZERO``.
        """
        if isinstance(data, pa.RecordBatch):
            return self._batch(data, 0)
        found, start = [], 0
        present = [name for name in self.columns if name in data.column_names]
        for batch in data.select(present).to_batches() if present else [data]:
            found.append(self._batch(batch, start))
            start += batch.num_rows
        if len(found) == 1:
            return found[0]
        return pa.concat_arrays(found) if found else pa.array([], self.type)

    def _batch(self, batch: Any, start: int) -> pa.Array:
        columns = {name: _normalized(self._column(batch, name), kind) for name, kind in self._types.items()}
        try:
            value = Evaluation(batch.num_rows, columns).value(self._root)
        except (pa.ArrowCapacityError, pa.ArrowMemoryError, MemoryError):
            raise EvaluationError.at(self.text, code("SKYBAND_TOO_LONG"), start) from None
        if value.failed is not None and batch.num_rows and value.failed.any():
            row = int(value.failed.argmax() if (value.failed != 0).all() else (value.failed != 0).argmax())
            raise EvaluationError.at(self.text, int(value.failed[row]), start + row)
        if isinstance(value.data, pa.Scalar):
            return pa.repeat(value.data, batch.num_rows)
        return value.data

    def _column(self, batch: Any, name: str) -> Any:
        kind = batch.schema.field(name).type if name in batch.schema.names else None
        if kind is None or spark_type(kind) != self._types[name]:
            raise InvalidInputError(
                f"column {name!r} must be of type {spark_name(self._types[name])} for expression {self.text!r}, got "
                f"{'no such column' if kind is None else kind}. Compile the expression for the schema of this data."
            )
        return batch.column(name)


def compile_expression(text: str, schema: pa.Schema, *, zone: str = "UTC") -> CompiledExpression:
    """Compile a Spark SQL expression for data of this schema.

    Parameters
    ----------
    text
        The expression, such as ``price * size``. Names of columns and functions are case-insensitive.
    schema
        The columns of the data.
    zone
        The session time zone. Only UTC is supported.

    Raises
    ------
    InvalidExpressionError
        The text is not an expression, or operands have the wrong types.
    UnknownNameError
        A column does not exist.
    UnsupportedError
        A function is not evaluated in process.

    Examples
    --------
    >>> import pyarrow as pa
    >>> trades = pa.table({"price": [10.0, 12.5], "size": [3, 4]})
    >>> turnover = compile_expression("price * size", trades.schema)
    >>> turnover.evaluate(trades).to_pylist(), turnover.type
    ([30.0, 50.0], DataType(double))
    """
    if zone.upper() not in ("UTC", "ETC/UTC", "Z", "+00:00"):
        raise UnsupportedError(f"zone must be UTC in process, got {zone!r}. On Spark, the session's time zone is used.")
    compiler = _Compiler(text, schema)
    root = compiler.node(parse(text))
    if root.type == MONTHS:
        raise UnsupportedError(f"expression {text!r} is an interval of months, which is not supported as a result.")
    return CompiledExpression(text, root, compiler.columns)


class _Compiler:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self.text = text
        self.schema = schema
        self.columns: dict[str, pa.DataType] = {}
        self._nodes: dict[tuple[str, Syntax], Node] = {}

    def node(self, syntax: Syntax) -> Node:
        key = (repr(syntax), syntax)  # equal numbers of different types, such as 1 and True, differ in their text
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = self._build(syntax)
        return found

    def _build(self, syntax: Syntax) -> Node:
        if isinstance(syntax, Literal):
            return _literal(syntax)
        if isinstance(syntax, ColumnName):
            return self._column(syntax.name)
        if isinstance(syntax, Cast):
            return cast(self.node(syntax.value), syntax.type, safe=syntax.safe)
        entry = lookup(syntax.name, len(syntax.args))
        return entry.build(*(self.node(arg) for arg in syntax.args))

    def _column(self, name: str) -> Node:
        names = [field.name for field in self.schema]
        found = [known for known in names if known.lower() == name.lower()]
        if not found:
            raise UnknownNameError.among("column", name, names)
        if len(found) > 1:
            raise InvalidExpressionError(
                f"column {name!r} in {self.text!r} is ambiguous: the data has {' and '.join(map(repr, found))}. "
                "Rename one."
            )
        kind = spark_type(self.schema.field(found[0]).type)
        if kind is None:
            raise UnsupportedError(
                f"column {found[0]!r} is of type {self.schema.field(found[0]).type}, which expressions cannot read in "
                "process. Convert it before."
            )
        self.columns[found[0]] = kind
        return Node(kind, _reader(found[0]), is_column=True)


def _reader(name: str) -> Callable[[Evaluation], Value]:
    return lambda rows: Value(rows.columns[name])


def _literal(syntax: Literal) -> Node:
    if syntax.value is None:
        return literal_null(syntax.type)
    if syntax.type == MONTHS:
        value = Value(None)
    else:
        value = Value(pa.scalar(syntax.value, syntax.type if syntax.type != INTERVAL else pa.int64()))
        value = Value(value.data.cast(INTERVAL)) if syntax.type == INTERVAL else value
    return Node(syntax.type, lambda rows: value, syntax.value, is_literal=True, unit=syntax.unit)


def _normalized(column: Any, kind: pa.DataType) -> Any:
    """Return a column in the type it is evaluated in. Nanoseconds are rounded down to microseconds."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == kind:
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = pc.floor_temporal(column, unit="microsecond")
    return pc.cast(column, kind)
