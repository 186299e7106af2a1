"""Columns in Spark: validated expressions of queries, and the types of answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.errors import InvalidInputError, InvalidQueryError, UnknownNameError, brief
from skyband.queries import Query
from skyband.queries.answer_schema import AnswerColumn
from skyband.queries.workload import Workload
from skyband.sharding.plan import COPY

__all__ = ["HIDDEN", "TIMES", "Columns", "answer_type", "plain", "quoted", "reason", "unlogged"]

_EXACT = 2**53  # integers up to this are exact as double scores
HIDDEN = "__skyband_"
TIMES = (st.TimestampType, st.TimestampNTZType)
_SCORES = (st.NumericType,)
_NOT_ORDERED = (st.ArrayType, st.MapType, st.StructType, st.VariantType, st.NullType, st.CalendarIntervalType)
_NONDETERMINISTIC = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"
_KINDS: dict[str, type[st.DataType]] = {
    "text": st.StringType,
    "rank": st.IntegerType,
    "number": st.DoubleType,
    "flag": st.BooleanType,
}


class Columns:
    """The columns of a data frame by name, and validated expressions over them. Errors name the query."""

    def __init__(self, df: DataFrame, taken: tuple[str, ...]) -> None:
        self._df = df
        self._taken = taken  # names of columns that every answer has
        self._schema = df.schema
        self._by_lower = {field.name.lower(): field for field in self._schema.fields}
        names = [field.name for field in self._schema.fields]
        again = {name for name in names if sum(name.lower() == other.lower() for other in names) > 1}
        if again:
            raise InvalidInputError(
                f"the stream has more than one column named {sorted(again)[0]!r}. Answers return whole rows, so column "
                "names must be unique. Rename one."
            )
        for name in names:
            if name.startswith(HIDDEN):
                raise InvalidInputError(
                    f"column {name!r} begins with {HIDDEN!r}, which is reserved for Skyband. Rename it."
                )

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._by_lower

    def time(self, name: object) -> str:
        field = self._field("time", name, "it contains the event time")
        if not isinstance(field.dataType, TIMES):
            raise InvalidInputError(
                f"time={name!r} must be a timestamp column, got type {field.dataType.simpleString()}. Convert it "
                f"first, for example withColumn({name!r}, timestamp_seconds({name}))."
            )
        return field.name

    def id(self, name: object) -> str:
        field = self._field("id", name, "it breaks ties")
        _reject_orderless(f"id={name!r}", field.dataType, "id breaks ties")
        return field.name

    def time_and_id(self, time: object, id_: object) -> tuple[Column, Column]:
        """Return the columns of time and id; without an id, the hash of the row."""
        return sf.col(quoted(self.time(time))), self.identity() if id_ is None else sf.col(quoted(self.id(id_)))

    def identity(self) -> Column:
        """Return the default id: a hash of the row's content, which does not depend on batches."""
        plain = [
            sf.col(quoted(field.name)).cast("string") if _has_map(field.dataType) else sf.col(quoted(field.name))
            for field in self._schema.fields
        ]
        return sf.xxhash64(*plain)

    def number(self, query: Query, what: str, text: str, rule: str) -> Column:
        """Return an expression as a double; NaN for null."""
        kind = self.type_of(query, what, text)
        if not isinstance(kind, _SCORES):
            raise InvalidQueryError(f"query {query.name!r}: {what}={text!r} has type {kind.simpleString()}; {rule}.")
        value = sf.expr(text)
        number = sf.coalesce(value.cast("double"), sf.lit(float("nan")))
        if not isinstance(kind, st.LongType):
            return number
        # As in process: integers that are equal as doubles would be ranked arbitrarily.
        said = (
            f"query {query.name!r}: a value of {what}={text!r} is beyond 2**53, where integers are not exact as "
            "double. Scale it down."
        )
        return sf.when(sf.abs(value) > _EXACT, sf.raise_error(sf.lit(said)).cast("double")).otherwise(number)

    def label(self, query: Query, what: str, text: str, rule: str) -> Column:
        """Return an identifying expression, of a type with an order; null for rows without a value."""
        kind = self.type_of(query, what, text)
        if not isinstance(kind, st.IntegralType | st.StringType | st.DateType | st.TimestampType | st.DoubleType):
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={text!r} has type {kind.simpleString()}; {rule}, so it must be an "
                "integer, a string, a double, a date or a timestamp. Cast it, for example to a string."
            )
        found = sf.expr(text)
        if isinstance(kind, st.DoubleType):
            return sf.when(~sf.isnan(found), found + sf.lit(0.0))
        return found.cast("long") if isinstance(kind, st.IntegralType) else found

    def filter(self, where: str, query: Query) -> Column:
        """Return a Boolean filter."""
        if not isinstance(kind := self.type_of(query, "where", where), st.BooleanType):
            raise InvalidQueryError(
                f"query {query.name!r}: where={where!r} must be Boolean, got type {kind.simpleString()}."
            )
        return sf.expr(where)

    def groups(self, partition_by: Iterable[str], query: Query) -> dict[str, Column]:
        """Return the group columns of a scan, by their name in answers."""
        found = {}
        for text in partition_by:
            kind = self.type_of(query, "partition_by", text)
            _reject_orderless(f"query {query.name!r}: partition_by={text!r}", kind, "it identifies groups")
            if text.lower() in self._taken:
                raise InvalidQueryError(
                    f"query {query.name!r}: partition_by={text!r} has the name of a column of every answer. Rename the "
                    "stream's column."
                )
            found[plain(self._spelled(text))] = sf.expr(text)
        return found

    def spelled(self, partition_by: Iterable[str]) -> list[str]:
        """Return the names of group columns in answers."""
        return [self._spelled(text) for text in partition_by]

    def _spelled(self, text: str) -> str:
        """Return the name of a column as the data frame spells it; other expressions unchanged."""
        return self._by_lower[text.lower()].name if text in self else text

    def returned(self, workload: Workload, groups: set[str], *, row_copies: bool) -> dict[str, str]:
        """Return the row's columns that answers contain, by their name in answers.

        A column with the name of a column of every answer is renamed to ``row_<name>``. A column ``score`` that is the
        score of every query is not repeated.
        """
        grouped = {name.lower() for name in groups}
        taken = {field.name.lower() for field in self._schema.fields}
        found = {}
        for field in self._schema.fields:
            name = field.name
            if name.lower() in grouped and not row_copies:
                continue
            if name.lower() == "score" and all((q.by or "").strip().lower() == "score" for q in workload):
                continue
            if name.lower() in self._taken or name.lower() in grouped:
                name = f"{COPY}{name}"
                if name.lower() in taken:
                    raise InvalidInputError(
                        f"column {field.name!r} has the name of a column of every answer and would be renamed to "
                        f"{name!r}, which the stream also has. Rename one."
                    )
            _reject_untransportable(field)
            found[name] = field.name
        return found

    def _field(self, what: str, name: object, use: str) -> st.StructField:
        if isinstance(name, str) and name.lower() in self._by_lower:
            return self._by_lower[name.lower()]
        if not isinstance(name, str):
            raise InvalidInputError(f"{what} must be the name of a column, got {brief(name)}; {use}.")
        raise UnknownNameError.among(f"{what}= column", name, [field.name for field in self._schema.fields])

    def type_of(self, query: Query, what: str, text: str) -> st.DataType:
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
        return kind


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


def _reject_orderless(what: str, kind: st.DataType, use: str) -> None:
    if isinstance(kind, _NOT_ORDERED):
        raise InvalidInputError(
            f"{what} has type {kind.simpleString()}, which has no order, but {use}. "
            "Use a string, a number or a timestamp."
        )


def _reject_untransportable(field: st.StructField) -> None:
    if _contains(field.dataType, lambda kind: isinstance(kind, st.CalendarIntervalType)):
        raise InvalidInputError(
            f"column {field.name!r} has type {field.dataType.simpleString()}, which Spark cannot pass to Python. Cast "
            "it to a string or drop it."
        )


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


def plain(name: str) -> str:
    """Return a name that tasks can look up: Spark reads a dot in a column name as access to a field.

    >>> plain("price"), plain("a.b")
    ('price', '__skyband_612e62')
    """
    return name if name.isidentifier() else f"{HIDDEN}{name.encode().hex()}"


def quoted(name: str) -> str:
    """Quote a name for SQL.

    >>> quoted("my column")
    '`my column`'
    """
    return "`" + name.replace("`", "``") + "`"


def answer_type(
    columns: Sequence[AnswerColumn],
    own: Mapping[str, st.DataType],
    *,
    groups: Mapping[str, st.DataType] | None = None,
    wanted: Collection[str] = (),
    rest: Mapping[str, st.DataType] | None = None,
) -> st.StructType:
    """Return the type of answers. `own` has the types that depend on the rows, `wanted` the requested optional columns.

    The columns of `groups` follow the query; the `rest` of the row's columns is at the end.
    """
    first, *others = [column for column in columns if not column.optional or column.name in wanted]
    fields = {first.name: _type(first, own), **(groups or {})}
    fields |= {column.name: _type(column, own) for column in others}
    return st.StructType([st.StructField(name, kind) for name, kind in [*fields.items(), *(rest or {}).items()]])


def _type(column: AnswerColumn, own: Mapping[str, st.DataType]) -> st.DataType:
    return own[column.name] if column.kind == "own" else _KINDS[column.kind]()
