"""Aggregates in the three dialects: calls such as ``sum(bytes)``, select lists and ``GROUP BY``.

A statement whose score is a single call of an aggregate function ranks keys. Which aggregates exist is defined by the
query class, which rejects the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from skyband.sql.cursor import Cursor, spelled_name
from skyband.sql.expression import Expression
from skyband.sql.lexer import Token

__all__ = ["FUNCTIONS", "AggregateCall", "Aggregation", "Item", "aggregate_in", "read_call", "read_list"]

# The aggregate functions of Spark SQL. A row has no value for them, so they cannot be part of a score of rows.
FUNCTIONS = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "corr",
        "count",
        "count_distinct",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "every",
        "first",
        "first_value",
        "kurtosis",
        "last",
        "last_value",
        "latest",
        "listagg",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "quantile",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "skewness",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "try_avg",
        "try_sum",
        "var_pop",
        "var_samp",
        "variance",
    ]
)
_SAME = {"mean": "avg", "std": "stddev", "stddev_samp": "stddev"}  # Spark's synonyms
_QUANTILES = frozenset({"percentile", "quantile"})
_ENDS = frozenset({"ASC", "DESC", "NULLS", "AS"})


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate function: ``sum(bytes)``, ``count(*)``, ``count(DISTINCT user)``."""

    aggregate: str
    value: str | None  # None for count(*)
    start: int
    text: str
    quantile: float | None = None  # the second argument of quantile(value, 0.9)


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a select list, and its name after AS."""

    part: AggregateCall | Expression
    alias: str | None


@dataclass(slots=True)
class Aggregation:
    """What a statement says about keys and their scores, as far as it is parsed."""

    call: AggregateCall | None = None
    keys: list[Expression] = field(default_factory=list)  # after BY KEY, or after GROUP BY without window bounds
    groups: list[Expression] = field(default_factory=list)  # after BY or PARTITION BY
    bare: bool = False  # whether the groups follow BY, which means the key if there is no BY KEY
    grouped: bool = False  # whether there is a GROUP BY
    selected: list[Item] | None = None  # None for *


def read_call(cursor: Cursor, stops: Collection[str]) -> AggregateCall | None:
    """Consume a call of an aggregate function if it is the whole expression; otherwise consume nothing."""
    token, begin = cursor.peek(), cursor.at
    if token is None or token.kind != "word" or token.text.lower() not in FUNCTIONS or not cursor.sees_symbol("(", 1):
        return None
    name, closing = token.text.lower(), _closing(cursor.tokens, begin + 1)
    following = cursor.tokens[closing + 1] if closing is not None and closing + 1 < len(cursor.tokens) else None
    if closing is None or not _ends_call(following, cursor.tokens[closing + 1 :], stops):
        return None
    cursor.at += 2
    distinct = cursor.sees("DISTINCT") and cursor.take("DISTINCT")
    value: str | None = None
    if not cursor.take_symbol("*"):
        value = cursor.expression(frozenset(), f"the value of {name}", "as in sum(bytes) or count(*)").text
    elif name != "count" or distinct:
        raise cursor.fail(f"{name}(*) is not an aggregate", f"name the value, as in {name}(bytes)", at=token.start)
    quantile = _read_quantile(cursor, name) if name in _QUANTILES else None
    if cursor.sees_symbol(","):
        raise cursor.fail(f"{name} has more than one argument", "an aggregate has one value, as in sum(bytes)")
    cursor.expect_symbol(")")
    aggregate = f"{name}_distinct" if distinct else "quantile" if name in _QUANTILES else _SAME.get(name, name)
    text = cursor.source[token.start : cursor.tokens[closing].end]
    return AggregateCall(aggregate, value, token.start, text, quantile)


def _read_quantile(cursor: Cursor, name: str) -> float:
    """Consume the second argument of a quantile."""
    how = f"a number from 0 to 1, as in {name}(bytes, 0.9)"
    if not cursor.take_symbol(","):
        raise cursor.fail(f"{name} needs a second argument", f"it is {how}")
    token = cursor.peek()
    try:
        found = float("" if token is None else token.text)
    except ValueError:
        raise cursor.unexpected(how) from None
    cursor.at += 1
    return found


def aggregate_in(tokens: Sequence[Token]) -> Token | None:
    """Return the first aggregate function in an expression, outside subqueries; None if there is none.

    >>> from skyband.sql.lexer import tokenize
    >>> aggregate_in(tokenize("price / sum(size)")).text
    'sum'
    >>> aggregate_in(tokenize("(SELECT max(x) FROM t) + sum(y) OVER (ORDER BY z) + count"))
    """
    at = 0
    while at < len(tokens):
        token = tokens[at]
        called = at + 1 < len(tokens) and tokens[at + 1].symbol == "("
        if token.symbol == "(" and at + 1 < len(tokens) and tokens[at + 1].keyword == "SELECT":
            at = _closing(tokens, at) or len(tokens)
        elif called and token.kind == "word" and token.text.lower() in FUNCTIONS:
            closing = _closing(tokens, at + 1)
            after = tokens[closing + 1 : closing + 3] if closing is not None else ()
            if [word.keyword or word.symbol for word in after] != ["OVER", "("]:
                return token
        at += 1
    return None


def read_list(cursor: Cursor, stops: Collection[str]) -> list[Item]:
    """Consume a select list, up to FROM."""
    items = []
    while True:
        part = read_call(cursor, stops) or cursor.expression(stops, "a column or an aggregate", "as in page, count(*)")
        alias = None
        if cursor.take("AS") or (
            (token := cursor.peek()) and token.kind in ("word", "name") and not cursor.sees("FROM")
        ):
            token = cursor.peek()
            if token is None or token.kind not in ("word", "name"):
                raise cursor.unexpected("a name after AS")
            cursor.at += 1
            alias = spelled_name(token).lower()
        items.append(Item(part, alias))
        if not cursor.take_symbol(","):
            return items


def _ends_call(token: Token | None, rest: Sequence[Token], stops: Collection[str]) -> bool:
    """Whether an expression ends before this token, so that the call before it is the whole expression."""
    if token is None or token.symbol in (",", ")", "]", "["):
        return True
    if token.keyword == "OVER" and len(rest) > 1 and rest[1].symbol == "(":
        return False  # a window function
    if token.kind in ("word", "name") and len(rest) > 1 and (rest[1].symbol == "," or rest[1].keyword == "FROM"):
        return True  # an alias without AS
    return token.keyword in stops or token.keyword in _ENDS or token.keyword == "FROM"


def _closing(tokens: Sequence[Token], opening: int) -> int | None:
    """Return the index of the bracket that closes the one at `opening`; None if it is not closed."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[at].symbol, 0)
        if depth == 0:
            return at
    return None
