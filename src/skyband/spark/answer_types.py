"""The columns of answers as Spark types, read off a family's schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import types as st

from skyband.queries.answer_schema import AnswerColumn

__all__ = ["answer_type"]

_KINDS: dict[str, type[st.DataType]] = {
    "text": st.StringType,
    "rank": st.IntegerType,
    "number": st.DoubleType,
    "flag": st.BooleanType,
}


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
