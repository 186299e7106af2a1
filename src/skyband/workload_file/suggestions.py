"""Queries of other families that a first workload file suggests, if names of columns indicate them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from skyband.queries.families import FAMILIES

__all__ = ["incomplete_query", "uncertain_query"]

_PROBABILITY = re.compile(r"(^|_)(prob(abilit(y|ies))?|confidence|certainty|likelihood|chance)(_|$)|^p$", re.IGNORECASE)
_EXCLUSIVE = re.compile(r"(^|_)(entity|object|track|detection|plate|target)(_?id)?$", re.IGNORECASE)
_REPORTERS = re.compile(r"router|sensor|probe|node|collector|receiver|monitor|gateway|agent|replica", re.IGNORECASE)
_FEW = 50  # streams of one query


def uncertain_query(
    columns: Sequence[tuple[str, str]], score: str, in_sql: Callable[[str], str], size: str, every: str
) -> str | None:
    """Return a query over uncertain rows, in SQL, if a column is named like a probability; None if there is none.

    >>> columns = [("speed", "number"), ("confidence", "number"), ("plate", "text")]
    >>> uncertain_query(columns, "speed", str, "1 hour", "1 minute")
    'likely: TOPK speed, 10 PROBABILITY confidence RULE plate OVER 1 HOUR FREQUENCY 1 MINUTE'
    """
    chance = next((name for name, kind in columns if kind == "number" and _PROBABILITY.search(name)), None)
    if chance is None or score in ("1", in_sql(chance)):
        return None
    rule = next((name for name, kind in columns if kind in ("text", "integer") and _EXCLUSIVE.search(name)), None)
    query = FAMILIES["uncertain"].query_class(
        name="likely",
        k=10,
        size=size,
        every=every,
        by=score,
        probability=in_sql(chance),
        rule=None if rule is None else in_sql(rule),
    )
    return str(query)


def incomplete_query(
    columns: Sequence[tuple[str, str]],
    distinct: Mapping[str, int],
    key: str | None,
    score: str,
    in_sql: Callable[[str], str],
    size: str,
    every: str,
) -> str | None:
    """Return a query over reports of several streams, in SQL; None without columns for objects, streams and values.

    >>> columns = [("router", "text"), ("flow", "text"), ("bytes", "integer")]
    >>> found = incomplete_query(columns, {"router": 3}, "flow", "bytes", str, "1 hour", "1 minute")
    >>> print(found.partition(" STREAMS")[0])
    reported: TOPK sum(bytes), 10 OBJECT flow STREAM router
    """
    stream = next(
        (
            name
            for name, kind in columns
            if kind in ("text", "integer") and _REPORTERS.search(name) and 2 <= distinct.get(name, 0) <= _FEW
        ),
        None,
    )
    if stream is None or key in (None, stream) or score == "1" or score.startswith("length("):
        return None
    query = FAMILIES["incomplete"].query_class(
        name="reported",
        k=10,
        size=size,
        every=every,
        object=in_sql(str(key)),
        stream=in_sql(stream),
        value=score,
        streams=["first", "second"],
        bounds=(0, 1000),
    )
    return str(query)
