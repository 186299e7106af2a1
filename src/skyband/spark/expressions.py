"""Columns in Spark: validated expressions of queries, and the types of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.errors import InvalidInputError, InvalidQueryError, UnknownNameError
from skyband.queries import Query
from skyband.session_windows import SessionWindows
from skyband.sharding.projection import WHOLE
from skyband.sharding.row_source import EXACT, RowSource
from skyband.windows import IrregularWindows, SlidingWindow

__all__ = [
    "TIMES",
    "Columns",
    "SparkColumn",
    "answer_type",
    "in_listed_windows",
    "in_sessions",
    "quoted",
    "reason",
    "unlogged",
    "window_ends",
]

TIMES = (st.TimestampType, st.TimestampNTZType)
_KEYS = (
    st.IntegralType,
    st.FractionalType,
    st.StringType,
    st.BinaryType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
    st.BooleanType,
)
_NOT_ORDERED = (st.ArrayType, st.MapType, st.StructType, st.VariantType, st.NullType, st.CalendarIntervalType)
_NONDETERMINISTIC = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"
_KINDS: dict[str, type[st.DataType]] = {
    "text": st.StringType,
    "rank": st.IntegerType,
    "number": st.DoubleType,
    "flag": st.BooleanType,
    WHOLE: st.LongType,
}


_DIGITS = 15  # decimal numbers with so many digits are different as doubles


class SparkColumn(NamedTuple):
    """A column that Spark computes, and its type."""

    column: Column
    kind: st.DataType


class Columns(RowSource[SparkColumn, st.DataType]):
    """The columns of a data frame by name, and validated expressions over them. Errors name the query."""

    conversion = "withColumn({name!r}, timestamp_seconds({name}))"

    def __init__(self, df: DataFrame, taken: tuple[str, ...]) -> None:
        self._df = df
        self._schema = df.schema
        self._types: dict[str, st.DataType] = {}  # of expressions that were validated
        super().__init__(((field.name, field.dataType) for field in self._schema.fields), taken)

    def selected(self, columns: Mapping[str, SparkColumn]) -> DataFrame:
        """Return a data frame of computed columns."""
        return self._df.select(*(found.column.alias(name) for name, found in columns.items()))

    def type_of(self, query: Query, what: str, text: str) -> st.DataType:
        """Return the type of an expression; raise if it is not computed from one row."""
        try:
            with unlogged():
                kind = self._df.select(sf.expr(text).alias("value")).schema["value"].dataType
        except (AnalysisException, ParseException) as error:
            raise InvalidQueryError(f"query {query.name!r}: {what}={text!r} {reason(error, self._schema)}") from None
        try:
            with unlogged():  # aggregates reject nested aggregates, windows, generators and randomness
                _ = self._df.agg(sf.count(sf.expr(text))).schema
        except AnalysisException as error:
            if error.getCondition() == _NONDETERMINISTIC:
                raise InvalidQueryError(
                    f"query {query.name!r}: {what}={text!r} must be deterministic: a micro-batch that is repeated "
                    "after a failure must give the same answers. Store the value as a column of the source."
                ) from None
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={text!r} must be computed from one row; aggregates, window functions "
                "and generators are not supported."
            ) from None
        self._types[text] = kind
        return kind

    def column(self, name: str) -> SparkColumn:
        """Return a column of the data frame."""
        return SparkColumn(sf.col(quoted(name)), self._kind[name])

    def expression(self, text: str) -> SparkColumn:
        """Return a validated expression."""
        return SparkColumn(sf.expr(text), self._types[text])

    def identity(self) -> SparkColumn:
        """Return the default id: a hash of the row's content, which does not depend on batches."""
        plain = [
            sf.col(quoted(field.name)).cast("string") if _has_map(field.dataType) else sf.col(quoted(field.name))
            for field in self._schema.fields
        ]
        return SparkColumn(sf.xxhash64(*plain), st.LongType())

    def kind_of(self, column: SparkColumn) -> st.DataType:
        """Return the type of a column."""
        return column.kind

    def as_number(self, column: SparkColumn, error: str, keys: Sequence[SparkColumn] = ()) -> SparkColumn:
        """Return a number as a double; NaN for null."""
        value, kind = column
        number = sf.coalesce(value.cast("double"), sf.lit(float("nan")))
        if isinstance(kind, st.LongType):
            # As in process: integers that are equal as doubles would be ranked arbitrarily.
            text = [sf.lit(f"{error} The value is "), value.cast("string")]
            for place, (key, _) in enumerate(keys):
                text += [sf.lit(", with key " if not place else ", "), _shown(key)]
            inexact = sf.raise_error(sf.concat(*text, sf.lit("."))).cast("double")
            number = sf.when(sf.abs(value) > EXACT, inexact).otherwise(number)
        return SparkColumn(number, st.DoubleType())

    def as_score(self, column: SparkColumn) -> SparkColumn:
        """Return values of any ordered type as doubles in their order."""
        value, kind = column
        if isinstance(kind, st.StringType | st.BinaryType):
            head = sf.rpad(sf.substring(sf.hex(value), 1, 12), 12, "0")
            value = sf.conv(head, 16, 10)
        elif isinstance(kind, st.DateType):
            value = sf.unix_date(value)
        elif isinstance(kind, TIMES):
            value = sf.unix_micros(value.cast("timestamp"))
        elif isinstance(kind, st.BooleanType):
            value = value.cast("int")
        return SparkColumn(sf.coalesce(value.cast("double"), sf.lit(float("nan"))), st.DoubleType())

    def is_exact(self, kind: st.DataType) -> bool:
        """Return whether different values are different as doubles."""
        if isinstance(kind, st.DecimalType):
            return kind.precision <= _DIGITS
        wide = (st.LongType, st.StringType, st.BinaryType, *TIMES)
        return isinstance(kind, st.NumericType | st.DateType | st.BooleanType) and not isinstance(kind, wide)

    def is_integer(self, kind: st.DataType) -> bool:
        """Return whether values are integers."""
        return isinstance(kind, st.IntegralType)

    def as_label(self, column: SparkColumn) -> SparkColumn:
        """Return an identifying column; null for rows without a value."""
        if isinstance(column.kind, st.IntegralType):
            return SparkColumn(column.column.cast("long"), st.LongType())
        return self.without_nan(column)

    def as_text(self, column: SparkColumn) -> SparkColumn:
        """Return values as strings."""
        return SparkColumn(column.column.cast("string"), st.StringType())

    def text(self, value: str | None) -> SparkColumn:
        """Return a column with one string in every row."""
        return SparkColumn(sf.lit(value).cast("string"), st.StringType())

    def without_nan(self, column: SparkColumn) -> SparkColumn:
        """Return the column with null for NaN and 0.0 for -0.0."""
        value, kind = column
        if not isinstance(kind, st.FloatType | st.DoubleType):
            return column
        return SparkColumn(sf.when(~sf.isnan(value), value + sf.lit(0.0).cast(kind)), kind)

    def where(self, condition: SparkColumn, column: SparkColumn) -> SparkColumn:
        """Return the column, null where the condition is not true."""
        return SparkColumn(sf.when(condition.column, column.column), column.kind)

    def replaced(self, condition: SparkColumn, new: SparkColumn | float, column: SparkColumn) -> SparkColumn:
        """Return the column, with `new` where the condition is true."""
        value = new.column if isinstance(new, SparkColumn) else sf.lit(new)
        return SparkColumn(sf.when(condition.column, value).otherwise(column.column), column.kind)

    def counts(self, keys: Sequence[SparkColumn], value: SparkColumn | None) -> SparkColumn:
        """Return whether a row has all columns of a key, and a value."""
        found = reduce(and_, (key.column.isNotNull() for key in keys))
        return SparkColumn(found if value is None else found & ~sf.isnan(value.column), st.BooleanType())

    def with_zero(self, column: SparkColumn) -> SparkColumn:
        """Return numbers with 0.0 for -0.0."""
        return SparkColumn(column.column + sf.lit(0.0), column.kind)

    def home(self, columns: Iterable[SparkColumn], shards: int) -> SparkColumn:
        """Return the shard of a key."""
        hashed = sf.xxhash64(*(found.column for found in columns))
        return SparkColumn(sf.pmod(hashed, sf.lit(shards)).cast("int"), st.IntegerType())

    def described(self, kind: st.DataType) -> str:
        """Return the name of a type."""
        return kind.simpleString()

    def is_time(self, kind: st.DataType) -> bool:
        """Return whether event time can have this type."""
        return isinstance(kind, TIMES)

    def is_instant(self, kind: st.DataType) -> bool:
        """Return whether times of this type are instants."""
        return isinstance(kind, st.TimestampType)

    def is_number(self, kind: st.DataType) -> bool:
        """Return whether scores and values can have this type."""
        return isinstance(kind, st.NumericType)

    def is_flag(self, kind: st.DataType) -> bool:
        """Return whether a filter can have this type."""
        return isinstance(kind, st.BooleanType)

    def is_label(self, kind: st.DataType) -> bool:
        """Return whether objects and streams can have this type."""
        return isinstance(kind, st.IntegralType | st.StringType | st.DateType | st.TimestampType | st.DoubleType)

    def is_key(self, kind: st.DataType) -> bool:
        """Return whether keys of aggregates can have this type."""
        return isinstance(kind, _KEYS) and not isinstance(kind, st.DecimalType)

    def is_ordered(self, kind: st.DataType) -> bool:
        """Return whether values of this type can be sorted."""
        return not isinstance(kind, _NOT_ORDERED)

    def check_returned(self, name: str, kind: st.DataType) -> None:
        """Reject a column that Spark cannot pass to Python."""
        if _contains(kind, lambda inner: isinstance(inner, st.CalendarIntervalType)):
            raise InvalidInputError(
                f"column {name!r} has type {kind.simpleString()}, which Spark cannot pass to Python. Cast it to a "
                "string or drop it."
            )


@contextmanager
def unlogged() -> Iterator[None]:
    """Disable Spark's query loggers, which would print a Java stack trace in addition to our message."""
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def reason(error: PySparkException, schema: st.StructType) -> str:
    """Return why Spark rejected an expression, in one line."""
    condition = error.getCondition() or ""
    parameters: dict[str, str] = error.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "?").strip("`")
        hint = str(UnknownNameError.among("column", name, [field.name for field in schema.fields]))
        return f"cannot be computed: {hint}"
    if condition.startswith("PARSE_SYNTAX_ERROR"):
        return f"is not an SQL expression: syntax error at or near {parameters.get('error', '?')}."
    text = str(error).strip().splitlines()[0]
    return f"cannot be computed: {text}"


def _has_map(kind: st.DataType) -> bool:
    return _contains(kind, lambda inner: isinstance(inner, st.MapType | st.VariantType))


def _contains(kind: st.DataType, test: Callable[[st.DataType], bool]) -> bool:
    if test(kind):
        return True
    inner: list[Any] = []
    if isinstance(kind, st.ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, st.MapType):
        inner = [kind.keyType, kind.valueType]
    elif isinstance(kind, st.StructType):
        inner = [field.dataType for field in kind.fields]
    return any(_contains(part, test) for part in inner)


def quoted(name: str) -> str:
    """Quote a name for SQL.

    >>> quoted("my column")
    '`my column`'
    """
    return "`" + name.replace("`", "``") + "`"


def answer_type(fields: Iterable[tuple[str, Any]]) -> st.StructType:
    """Return the type of answers with these fields."""
    return st.StructType(
        [st.StructField(name, _KINDS[kind]() if isinstance(kind, str) else kind) for name, kind in fields]
    )


def window_ends(window: SlidingWindow, position: Column) -> Column:
    """Return the ends of windows with a position: each ``origin + i * slide`` in ``(position, position + size]``."""
    steps = sf.floor((position - window.origin) / sf.lit(window.slide))
    # Floating-point division may be off by one for large numbers, so integers decide.
    low = sf.lit(window.origin) + (steps - 1) * window.slide
    candidates = sf.sequence(low, position + window.size, sf.lit(window.slide).cast("long"))
    return sf.filter(candidates, lambda end: (end > position) & (end <= position + window.size))


def in_listed_windows(
    objects: DataFrame, position: str, window: IrregularWindows, stream: tuple[DataFrame, str], end: str
) -> DataFrame:
    """Return the objects of every irregular window, joined with a table of all windows: ``__start`` and `end`.

    `stream` has all rows, also those that do not count, and the column with their time.
    """
    rows, time = stream
    at = sf.unix_micros(sf.col(quoted(time)).cast("timestamp"))
    bounds = rows.agg(sf.min(at), sf.max(at)).first()
    pairs: list[tuple[int, int]] = []
    if bounds is not None and bounds[0] is not None:
        starts, ends = window.reported(int(bounds[0]), int(bounds[1]))
        pairs = list(zip(starts.tolist(), ends.tolist(), strict=True))
    listed = rows.sparkSession.createDataFrame(pairs, f"__start long, {end} long")
    inside = (sf.col(position) >= sf.col("__start")) & (sf.col(position) < sf.col(end))
    return objects.join(sf.broadcast(listed), inside)


def _shown(value: Column) -> Column:
    """Return a value as text for an error message."""
    return sf.coalesce(value.cast("string"), sf.lit("null"))


def in_sessions(objects: DataFrame, at: str, window: SessionWindows, shared: Sequence[str], end: str) -> DataFrame:
    """Return the objects with the end of their session: a fold over the times of each group.

    `at` is the column of the time, `shared` are those of the group, and `end` is the one to add.
    """
    gap, limit = window.gap, window.limit
    nothing = "cast(array() as array<struct<s:bigint,e:bigint>>)"
    last = "element_at(acc, -1)"
    extended = f"array(struct({last}.s as s, least(x + {gap}, {last}.s + {limit}) as e))"
    added = f"array(struct(x as s, x + least({gap}, {limit}) as e))"
    folded = (
        f"aggregate(__ats, {nothing}, (acc, x) -> case when size(acc) > 0 and x < {last}.e "
        f"then concat(slice(acc, 1, size(acc) - 1), {extended}) else concat(acc, {added}) end)"
    )
    times = objects.groupBy(*shared).agg(sf.array_sort(sf.collect_set(at)).alias("__ats"))
    sessions = times.select(*shared, sf.explode(sf.expr(folded)).alias("__session"))
    renamed = sessions.select(
        *(sf.col(name).alias(f"{name}_") for name in shared),
        sf.col("__session.s").alias("__start"),
        sf.col("__session.e").alias(end),
    )
    inside = (sf.col(at) >= sf.col("__start")) & (sf.col(at) < sf.col(end))
    for name in shared:
        inside = inside & sf.col(name).eqNullSafe(sf.col(f"{name}_"))
    return objects.join(renamed, inside)
