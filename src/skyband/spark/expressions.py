"""Columns as Spark has them: expressions of queries, checked before anything runs, and the types of answers."""

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

_EXACT = 2**53  # whole numbers up to here are exact as scores
HIDDEN = "__skyband_"
TIMES = (st.TimestampType, st.TimestampNTZType)
_SCORES = (st.NumericType,)
_NOT_ORDERED = (st.ArrayType, st.MapType, st.StructType, st.VariantType, st.NullType, st.CalendarIntervalType)
_BY_CHANCE = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"  # what Spark calls it
_KINDS: dict[str, type[st.DataType]] = {
    "text": st.StringType,
    "rank": st.IntegerType,
    "number": st.DoubleType,
    "flag": st.BooleanType,
}


class Columns:
    """The columns of a data frame, found by name, and expressions over them, checked in the name of a query."""

    def __init__(self, df: DataFrame, taken: tuple[str, ...]) -> None:
        self._df = df
        self._taken = taken  # names of columns that every answer has
        self._schema = df.schema
        self._by_lower = {field.name.lower(): field for field in self._schema.fields}
        names = [field.name for field in self._schema.fields]
        again = {name for name in names if sum(name.lower() == other.lower() for other in names) > 1}
        if again:
            raise InvalidInputError(
                f"the stream has more than one column named {sorted(again)[0]!r}; answers give whole rows back and "
                "could not tell them apart. Rename one."
            )
        for name in names:
            if name.startswith(HIDDEN):
                raise InvalidInputError(
                    f"column {name!r} begins with {HIDDEN!r}, which is kept for Skyband; rename it."
                )

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._by_lower

    def time(self, name: object) -> str:
        field = self._field("time", name, "event time is read from it")
        if not isinstance(field.dataType, TIMES):
            raise InvalidInputError(
                f"time={name!r} is of type {field.dataType.simpleString()}; windows are over event time, so it must "
                f"be a timestamp. Convert it first, for example withColumn({name!r}, timestamp_seconds({name}))."
            )
        return field.name

    def id(self, name: object) -> str:
        field = self._field("id", name, "ties are broken by it")
        _refuse_orderless(f"id={name!r}", field.dataType, "ties are broken by id")
        return field.name

    def time_and_id(self, time: object, id_: object) -> tuple[Column, Column]:
        """The columns of time and id; the identity of a row where there is no id."""
        return sf.col(quoted(self.time(time))), self.identity() if id_ is None else sf.col(quoted(self.id(id_)))

    def identity(self) -> Column:
        """What stands for the id of a row that has none: its content, so that it does not depend on batches."""
        plain = [
            sf.col(quoted(field.name)).cast("string") if _has_map(field.dataType) else sf.col(quoted(field.name))
            for field in self._schema.fields
        ]
        return sf.xxhash64(*plain)

    def number(self, query: Query, what: str, text: str, rule: str) -> Column:
        """A number as a double; NaN where there is none."""
        kind = self.type_of(query, what, text)
        if not isinstance(kind, _SCORES):
            raise InvalidQueryError(f"query {query.name!r}: {what}={text!r} is of type {kind.simpleString()}; {rule}.")
        value = sf.expr(text)
        number = sf.coalesce(value.cast("double"), sf.lit(float("nan")))
        if not isinstance(kind, st.LongType):
            return number
        # As in process: whole numbers that a double cannot tell apart would be ranked by chance.
        said = (
            f"query {query.name!r}: a value of {what}={text!r} is beyond 2**53, where whole numbers stop being exact; "
            "scale it down."
        )
        return sf.when(sf.abs(value) > _EXACT, sf.raise_error(sf.lit(said)).cast("double")).otherwise(number)

    def label(self, query: Query, what: str, text: str, rule: str) -> Column:
        """What answers name things by: of a type that has an order, null where a row has none."""
        kind = self.type_of(query, what, text)
        if not isinstance(kind, st.IntegralType | st.StringType | st.DateType | st.TimestampType | st.DoubleType):
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={text!r} is of type {kind.simpleString()}; {rule}, so it must be a "
                "whole number, a text, a double, a date or a time. Cast it, for example to a string."
            )
        found = sf.expr(text)
        if isinstance(kind, st.DoubleType):
            return sf.when(~sf.isnan(found), found + sf.lit(0.0))
        return found.cast("long") if isinstance(kind, st.IntegralType) else found

    def filter(self, where: str, query: Query) -> Column:
        """A filter that is true or false."""
        if not isinstance(kind := self.type_of(query, "where", where), st.BooleanType):
            raise InvalidQueryError(
                f"query {query.name!r}: where={where!r} is of type {kind.simpleString()}; a filter must be true "
                "or false."
            )
        return sf.expr(where)

    def groups(self, partition_by: Iterable[str], query: Query) -> dict[str, Column]:
        """The group columns of a scan by the name they have in answers."""
        found = {}
        for text in partition_by:
            kind = self.type_of(query, "partition_by", text)
            _refuse_orderless(f"query {query.name!r}: partition_by={text!r}", kind, "groups are told apart by it")
            if text.lower() in self._taken:
                raise InvalidQueryError(
                    f"query {query.name!r}: partition_by={text!r} has the name of a column that every answer has; "
                    "rename the stream's column."
                )
            found[plain(self._spelled(text))] = sf.expr(text)
        return found

    def spelled(self, partition_by: Iterable[str]) -> list[str]:
        """The names of groups in answers."""
        return [self._spelled(text) for text in partition_by]

    def _spelled(self, text: str) -> str:
        """However a column is spelled, it is one column."""
        return self._by_lower[text.lower()].name if text in self else text

    def returned(self, workload: Workload, groups: set[str], *, row_copies: bool) -> dict[str, str]:
        """The row's columns that come back, by the name they have in answers.

        A column with the name of one that every answer has comes back as ``row_<name>``; a column that is the score
        of every query does not come back twice.
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
                        f"columns {field.name!r} and {name!r}: the first has the name of a column that every answer "
                        "has, and would come back under the name of the second. Rename one."
                    )
            _refuse_untransportable(field)
            found[name] = field.name
        return found

    def _field(self, what: str, name: object, use: str) -> st.StructField:
        if isinstance(name, str) and name.lower() in self._by_lower:
            return self._by_lower[name.lower()]
        if not isinstance(name, str):
            raise InvalidInputError(f"{what}={brief(name)} must be the name of a column; {use}.")
        raise UnknownNameError.among(f"{what}= column", name, [field.name for field in self._schema.fields])

    def type_of(self, query: Query, what: str, text: str) -> st.DataType:
        try:
            with unlogged():
                kind = self._df.select(sf.expr(text).alias("value")).schema["value"].dataType
        except (AnalysisException, ParseException) as error:
            raise InvalidQueryError(f"query {query.name!r}: {what}={text!r} {reason(error, self._schema)}") from None
        try:
            with unlogged():  # an aggregate takes no aggregate, window, generator or chance
                _ = self._df.agg(sf.count(sf.expr(text))).schema
        except AnalysisException as error:
            if error.getCondition() == _BY_CHANCE:
                raise InvalidQueryError(
                    f"query {query.name!r}: {what}={text!r} must give the same value whenever it is computed; a batch "
                    "that is run again after a failure would be answered with other values. Store what you need as a "
                    "column of the source."
                ) from None
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={text!r} must follow from one row; aggregates, window functions and "
                "generators look at several or make several."
            ) from None
        return kind


@contextmanager
def unlogged() -> Iterator[None]:
    """What Spark refuses inside is told by us; its own logger would print the Java stack beside it."""
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
    """Why Spark refused an expression, in one line."""
    condition = error.getCondition() or ""
    parameters: dict[str, str] = error.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "?").strip("`")
        hint = str(UnknownNameError.among("column", name, [field.name for field in schema.fields]))
        return f"cannot be computed: {hint}"
    if condition.startswith("PARSE_SYNTAX_ERROR"):
        return f"is no SQL expression: syntax error at or near {parameters.get('error', '?')}."
    text = str(error).strip().splitlines()[0]
    return f"cannot be computed: {text}"


def _refuse_orderless(what: str, kind: st.DataType, use: str) -> None:
    if isinstance(kind, _NOT_ORDERED):
        raise InvalidInputError(
            f"{what} is of type {kind.simpleString()}, which has no order, but {use}; "
            "take a text, a number or a time instead."
        )


def _refuse_untransportable(field: st.StructField) -> None:
    if _contains(field.dataType, lambda kind: isinstance(kind, st.CalendarIntervalType)):
        raise InvalidInputError(
            f"column {field.name!r} is of type {field.dataType.simpleString()}, which Spark cannot hand to Python; "
            "cast it to text or drop it."
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
    """A name that tasks can look up: Spark takes a dot in the name of a column for a field of it.

    >>> plain("price"), plain("a.b")
    ('price', '__skyband_612e62')
    """
    return name if name.isidentifier() else f"{HIDDEN}{name.encode().hex()}"


def quoted(name: str) -> str:
    """A name as SQL has it.

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
    """The type of answers: `own` has the types that come with the rows, `wanted` the optional columns asked for.

    Columns of `groups` stand after the query, the `rest` of the row's columns at the end.
    """
    first, *others = [column for column in columns if not column.optional or column.name in wanted]
    fields = {first.name: _type(first, own), **(groups or {})}
    fields |= {column.name: _type(column, own) for column in others}
    return st.StructType([st.StructField(name, kind) for name, kind in [*fields.items(), *(rest or {}).items()]])


def _type(column: AnswerColumn, own: Mapping[str, st.DataType]) -> st.DataType:
    return own[column.name] if column.kind == "own" else _KINDS[column.kind]()
