"""Check the expressions of queries that are added to a running job, on the tree of Spark's parser.

Another parser could read a comment, a quote or an escape differently from Spark, and would then check one expression
while Spark runs another. Every node must be of a listed kind, every function must be in `skyband.sql.safety`, and
every name must be a column of the stream or a variable of an enclosing lambda. Anything else is rejected. Nothing is
analysed or evaluated before this check.

PySpark has no public API for a parsed expression. The text of `explain` is not sufficient: it is truncated after some
fields, and quoted text in it can look like a call. So this module uses the parser of the session's Java object, which
Spark Connect does not have: a job over Spark Connect rejects added queries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.queries import Query
from skyband.spark.expressions import reason, unlogged
from skyband.sql.safety import FUNCTIONS, MOMENTS
from skyband.workload_file.live_query_limits import expressions_of

__all__ = ["refuse_unlisted"]

_CATALYST = "org.apache.spark.sql.catalyst."
_KINDS = """
    Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Collate Concat CreateNamedStruct Divide
    EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual ILike In IntegralDivide IsNotNull IsNotUnknown IsNull IsUnknown
    LessThan LessThanOrEqual Like LikeAll LikeAny Literal Multiply NamedArgumentExpression Not NotLikeAll NotLikeAny Or
    Overlay RLike Remainder SemiStructuredExtract ShiftLeft ShiftRight ShiftRightUnsigned StringLocate StringTrim
    StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus UnaryPositive
    UnresolvedCollation
"""
_PLAIN = frozenset(f"{_CATALYST}expressions.{name}" for name in _KINDS.split()) | {
    f"{_CATALYST}analysis.UnresolvedExtractValue"
}
_FUNCTION = f"{_CATALYST}analysis.UnresolvedFunction"
_COLUMN = f"{_CATALYST}analysis.UnresolvedAttribute"
_VARIABLE = f"{_CATALYST}expressions.UnresolvedNamedLambdaVariable"
_LAMBDA = f"{_CATALYST}expressions.LambdaFunction"


def refuse_unlisted(df: DataFrame, query: Query) -> None:
    """Reject a query with an expression that does more than compute a value from the columns of `df`."""
    parser = df.sparkSession._jsparkSession.sessionState().sqlParser()
    columns = frozenset(name.lower() for name in df.columns)
    for name, text in expressions_of(query):
        try:
            with unlogged():
                tree = parser.parseExpression(text)
        except (AnalysisException, ParseException) as error:
            raise InvalidQueryError(f"query {query.name!r}: {name}={text!r} {reason(error, df.schema)}") from None
        found = _unlisted(tree, columns)
        if found is not None:
            raise UnsupportedError(
                f"{name}={text!r} of {query.name!r} uses {found}, which is not allowed in a running job: expressions "
                "can use only the row's columns and the functions listed on the security page. Add the query to the "
                "file instead."
            )


def _unlisted(tree: Any, columns: Collection[str]) -> str | None:
    """Return the first function, name or node of a parsed expression that is not listed, or None."""
    waiting: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]  # with the variables of enclosing lambdas
    while waiting:
        node, variables = waiting.pop()
        kind = str(node.getClass().getName())
        if kind == _FUNCTION:
            name = ".".join(_texts(node.nameParts()))
            if name.lower() not in FUNCTIONS:
                return name
        elif kind == _COLUMN:
            parts = list(_texts(node.nameParts()))
            bare = len(parts) == 1 and parts[0].lower() in MOMENTS
            if parts[0].lower() not in columns and not bare:
                return ".".join(parts)
        elif kind == _LAMBDA:
            names = {part.lower() for each in _items(node.arguments()) for part in _texts(each.nameParts())}
            waiting.append((node.function(), variables | names))
            continue
        elif kind == _VARIABLE:
            parts = list(_texts(node.nameParts()))
            if parts[0].lower() not in variables and parts[0].lower() not in columns:
                return ".".join(parts)
        elif kind.partition("$")[0] not in _PLAIN:
            return kind.rpartition(".")[2].removeprefix("Unresolved")
        waiting += [(child, variables) for child in _items(node.children())]
    return None


def _items(found: Any) -> Iterator[Any]:
    """Items of a Scala sequence."""
    for place in range(found.size()):
        yield found.apply(place)


def _texts(found: Any) -> Iterator[str]:
    return map(str, _items(found))
