"""The canonical SQL of a query: one line in the short dialect, without defaults.

```text
[name:] TOPK [score [ASC], [column [ASC] [NULLS FIRST], …]] k [ASC] [WITH TIES] [WHERE condition] [BY group, …]
    [DISTINCT entity] [HALF_LIFE duration]
    OVER size [CUMULATIVE] [AT TIME ZONE 'zone' [WEEK START day]] [EVERY slide] [ORIGIN place] [FULL WINDOWS ONLY]
    or OVER SESSION gap [UP TO length]

[name:] TOPK aggregate(value) [ASC], k [WHERE condition] BY KEY key, … [PARTITION BY group, …] [HAVING condition]
    OVER size [CUMULATIVE] [AT TIME ZONE 'zone' [WEEK START day]] [EVERY slide] [ORIGIN place] [FULL WINDOWS ONLY]
    or OVER SESSION gap [UP TO length]
    [WITH OTHERS] [WITH SHARE] [WITH ROW] [WITH DELETE WHEN condition] [WITH SKETCH [ERROR share | COUNTERS number]]
    [WITH MAX KEYS number]

[name:] TOPK aggregate(value), k [WHERE condition] OBJECT object [STREAM label] [STREAMS (name, …)]
    [WEIGHTS (name w, …)] [BOUNDS (low, high)] [OCCURRENCES n] OVER size [EVERY every] [ORIGIN place] [METHOD word]

[name:] TOPK [score [ASC],] k [ASC] [WHERE condition] [PROBABILITY p] [RULE label] [STREAM label]
    OVER size FREQUENCY every [SEMANTICS word] [THRESHOLD p] [WEIGHTS (w, ...)] [ALPHA a]
```

The second form ranks keys, the third objects of incomplete streams, where the score can also be an expression and VALUE
a clause. The fourth is a query over an uncertain stream; it always contains FREQUENCY.

An expression is written unchanged if parsing the statement returns the same text. Otherwise (it contains a line break,
ends in a comment, or is not SQL) it is written as ``SQL '…'``, which is parsed without checks. So every query has a
canonical form that can be parsed again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from skyband.errors import SkybandError
from skyband.queries.ordering import sort_column
from skyband.sql.aggregation import aggregate_in
from skyband.sql.expression import cut
from skyband.sql.lexer import Token, quote, tokenize

DEFAULT_NAME = "topk"
UNCERTAIN = ("PROBABILITY", "RULE", "STREAM", "FREQUENCY", "SEMANTICS", "THRESHOLD", "WEIGHTS", "ALPHA")
# The fields of a query over keys that SQL can express.
AGGREGATE = frozenset(
    [
        "name",
        "k",
        "size",
        "slide",
        "key",
        "aggregate",
        "value",
        "quantile",
        "where",
        "partition_by",
        "having",
        "origin",
        "full_only",
        "order",
        "ties",
        "others",
        "share",
        "row",
        "method",
        "error",
        "counters",
        "delete",
        "zone",
        "week_start",
        "cumulative",
        "half_life",
        "gap",
        "max_length",
        "max_keys",
    ]
)
CERTAIN = ("FROM", "WHERE", "BY", "DISTINCT", "HALF_LIFE", "OVER", "EVERY", "ORIGIN", "FULL")
INCOMPLETE = ("OBJECT", "STREAMS", "VALUE", "BOUNDS", "OCCURRENCES", "METHOD", "INTERVALS")
CLAUSES = (*CERTAIN, *UNCERTAIN, *INCOMPLETE)
# Keywords that end an expression in the short dialect.
STOPS = frozenset({*CLAUSES, "HAVING", "PARTITION", "ASC", "DESC", "NULLS", "WITH"})

# Words that can follow an operand, so that KEY before them is a column.
_AFTER_OPERAND = STOPS | {
    "AND",
    "BETWEEN",
    "COLLATE",
    "DIV",
    "ILIKE",
    "IN",
    "IS",
    "LIKE",
    "NOT",
    "OR",
    "REGEXP",
    "RLIKE",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"[^\W\d]\w*")
# Most scores are so simple that no parser is needed.
_SIMPLE = re.compile(r"[a-z]\w*(?: [-+*/] [a-z]\w*)*", re.ASCII | re.IGNORECASE)
# Words that sqlglot's parser does not accept as columns, alone or next to each other.
_RESERVED = STOPS.union(
    re.findall(
        r"\w+",
        "ALTER AND ANY AS BETWEEN CASE CONNECT_BY_ROOT CREATE CROSS DISTINCT DIV DROP ELSE EXCEPT EXCLUDE FETCH FOR "
        "GLOB GRANT HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LATERAL LIKE MINUS NOT NOTNULL ON "
        "OR OUTER PARTITIONED_BY QUALIFY REGEXP RENAME REPLACE RETURNING REVOKE RLIKE ROLLBACK SELECT SERDEPROPERTIES "
        "SQL TABLESAMPLE THEN UNCACHE UNION USING VALUES WHEN XOR",
    )
)


def write(query: Mapping[str, Any], *, named: bool = False) -> str:
    """Return the SQL of a query with these fields (`TopK.to_dict`); `named` includes the default name.

    >>> import skyband as sb
    >>> print(write(sb.TopK(k=3, size="90 minutes", slide="1 minute", by="price * size", order="asc").to_dict()))
    TOPK price * size ASC, 3 OVER 1 HOUR 30 MINUTES EVERY 1 MINUTE
    """
    parts = _head(query, named=named, ascending=" ASC" if query["order"] == "asc" else "")
    if query["ties"] == "rank":
        parts.append("WITH TIES")
    if query["where"] is not None:
        parts.append(f"WHERE {expression(query['where'])}")
    if query["partition_by"]:
        parts.append(f"BY {', '.join(map(_group, query['partition_by']))}")
    if query.get("distinct"):
        parts.append(f"DISTINCT {expression(query['distinct'])}")
    if query.get("half_life"):
        parts.append(f"HALF_LIFE {span(query['half_life'])}")
    return " ".join([*parts, *_windows(query)])


def write_aggregate(query: Mapping[str, Any], *, named: bool = False) -> str:
    """Return the SQL of a query over keys with these fields (`AggregateTopK.to_dict`); it must have a key.

    >>> import skyband as sb
    >>> print(write_aggregate(sb.AggregateTopK(k=5, size="1 hour", key="page", aggregate="count").to_dict()))
    TOPK count(*), 5 BY KEY page OVER 1 HOUR
    """
    value = "*" if query["value"] is None else _argument(query["value"])
    ascending = " ASC" if query.get("order") == "asc" else ""
    parts = [f"{_name(query['name'])}:"] if named or query["name"] != DEFAULT_NAME else []
    argument = "" if query.get("quantile") is None else f", {query['quantile']!r}"
    parts += ["TOPK", f"{query['aggregate']}({value}{argument}){ascending},", str(query["k"])]
    if query.get("ties") == "rank":
        parts.append("WITH TIES")
    if query["where"] is not None:
        parts.append(f"WHERE {expression(query['where'])}")
    first, *rest = [query["key"]] if isinstance(query["key"], str) else query["key"]
    parts.append(f"BY KEY {', '.join([_key(first), *map(expression, rest)])}")
    parts += _partition(query)
    if query.get("half_life"):
        parts.append(f"HALF_LIFE {span(query['half_life'])}")
    if query["having"] is not None:
        parts.append(f"HAVING {expression(query['having'])}")
    extra = [f"WITH {field.upper()}" for field in ("others", "share", "row") if query.get(field)]
    if query.get("delete") is not None:
        extra.append(f"WITH DELETE WHEN {expression(query['delete'])}")
    if query.get("method") == "sketch":
        limits = [f" {field.upper()} {query[field]!r}" for field in ("error", "counters") if query.get(field)]
        extra.append("WITH SKETCH" + "".join(limits))
    if query.get("max_keys") is not None:
        extra.append(f"WITH MAX KEYS {query['max_keys']}")
    return " ".join([*parts, *_windows(query), *extra])


def write_incomplete(query: Mapping[str, Any], *, named: bool = False) -> str:
    """Return the SQL of a query over incomplete streams with these fields; it must have an object and a value.

    >>> import skyband as sb
    >>> query = sb.IncompleteTopK(k=2, size="1 hour", object="flow", value="bytes", streams=["a", "b"], bounds=(0, 9))
    >>> print(write_incomplete(query.to_dict()))
    TOPK sum(bytes), 2 OBJECT flow STREAMS ('a', 'b') BOUNDS (0.0, 9.0) OVER 1 HOUR
    """
    is_call = query["aggregate"] in ("sum", "avg", "min", "max")
    score = f"{query['aggregate']}({_argument(query['value'])})" if is_call else _score(query["aggregate"])
    parts = [f"{_name(query['name'])}:"] if named or query["name"] != DEFAULT_NAME else []
    ascending = " ASC" if query.get("order") == "asc" else ""
    parts += [f"TOPK {score}{ascending}, {query['k']}", *(["WITH TIES"] if query.get("ties") == "rank" else [])]
    if query["where"] is not None:
        parts.append(f"WHERE {expression(query['where'])}")
    parts.append(f"OBJECT {expression(query['object'])}")
    if not is_call:
        parts.append(f"VALUE {expression(query['value'])}")
    if query["stream"] is not None:
        parts.append(f"STREAM {expression(query['stream'])}")
    if query["streams"] is not None:
        parts.append(f"STREAMS ({', '.join(map(_stream, query['streams']))})")
    if query["weights"] is not None:
        parts.append(f"WEIGHTS ({', '.join(f'{_stream(name)} {weight!r}' for name, weight in query['weights'])})")
    low, *_ = query["bounds"]
    if isinstance(low, tuple | list):
        each = (f"{_stream(name)} ({pair[0]!r}, {pair[1]!r})" for name, pair in query["bounds"])
        parts.append(f"BOUNDS ({', '.join(each)})")
    elif tuple(query["bounds"]) != (0.0, 1.0):
        parts.append(f"BOUNDS ({', '.join(map(repr, query['bounds']))})")
    parts += _partition(query)
    if query["occurrences"] != 1:
        parts.append(f"OCCURRENCES {str(query['occurrences']).upper()}")
    parts += _windows({**query, "slide": query["every"], "full_only": False})
    if query["method"] != "exact":
        parts.append(f"METHOD {query['method'].upper()}")
    return " ".join(parts + (["INTERVALS"] if query["intervals"] else []))


def _partition(query: Mapping[str, Any]) -> list[str]:
    groups = query.get("partition_by")
    return [f"PARTITION BY {', '.join(map(expression, groups))}"] if groups else []


def _stream(name: str | int) -> str:
    return quote(name) if isinstance(name, str) else str(name)


def _windows(query: Mapping[str, Any]) -> list[str]:
    parts = _window(query)
    if query["slide"] != query["size"] and query["slide"] is not None:
        parts.append(f"EVERY {span(query['slide'])}")
    if query["origin"]:
        parts.append(f"ORIGIN {origin(query['origin'], clock=isinstance(query['slide'], str))}")
    if query["full_only"]:
        parts.append("FULL WINDOWS ONLY")
    return parts


def _window(query: Mapping[str, Any]) -> list[str]:
    """Return the size, and what else defines how windows begin."""
    if query.get("gap"):
        most = query.get("max_length")
        return [f"OVER SESSION {span(query['gap'])}" + (f" UP TO {span(most)}" if most else "")]
    parts = [f"OVER {'ALL' if query['size'] is None else span(query['size'])}"]
    if query.get("cumulative"):
        parts.append("CUMULATIVE")
    if query.get("zone"):
        parts.append(f"AT TIME ZONE {quote(query['zone'])}")
    if query.get("week_start"):
        parts.append(f"WEEK START {query['week_start'].upper()}")
    return parts


def write_uncertain(query: Mapping[str, Any], *, named: bool = False) -> str:
    """Return the SQL of a query over an uncertain stream with these fields (`UncertainTopK.to_dict`).

    >>> import skyband as sb
    >>> query = sb.UncertainTopK(k=3, size="20 minutes", every="2 minutes", by="speed", probability="p", rule="car")
    >>> print(write_uncertain(query.to_dict()))
    TOPK speed, 3 PROBABILITY p RULE car OVER 20 MINUTES FREQUENCY 2 MINUTES
    """
    parts = _head(query, named=named, ascending=" ASC" if query.get("order") == "asc" else "")
    for field in ("where", "probability", "rule", "stream"):
        if query[field] is not None:
            parts.append(f"{field.upper()} {expression(query[field])}")
    parts += _partition(query)
    parts += [f"OVER {span(query['size'])}", f"FREQUENCY {span(query['every'])}"]
    if query["semantics"] != "pk-topk":
        parts.append(f"SEMANTICS {query['semantics'].upper()}")
    if query["threshold"] is not None:
        parts.append(f"THRESHOLD {query['threshold']!r}")
    if query["weights"] is not None:
        parts.append(f"WEIGHTS ({', '.join(map(repr, query['weights']))})")
    if query["alpha"] is not None:
        parts.append(f"ALPHA {query['alpha']!r}")
    return " ".join(parts)


def _head(query: Mapping[str, Any], *, named: bool, ascending: str = "") -> list[str]:
    """Return the name, the score and k."""
    parts = [f"{_name(query['name'])}:"] if named or query["name"] != DEFAULT_NAME else []
    score = "" if query["by"] is None else f"{_score(query['by'])}{ascending}, "
    for column in (sort_column(text)[0] for text in query.get("then_by", ())):
        direction, nulls = " ASC" if column.order == "asc" else "", " NULLS FIRST" if column.nulls_first else ""
        score += f"{expression(column.text)}{direction}{nulls}, "
    return [*parts, "TOPK", f"{score}{query['k']}{ascending if not score else ''}"]


def expression(text: str) -> str:
    r"""Return the expression unchanged if it can be parsed again, otherwise as ``SQL '…'``.

    >>> print(expression("price * size"), expression("a -- b"), expression("a )("))
    price * size SQL 'a -- b' SQL 'a )('
    """
    plain = _is_simple(text) or (text.isprintable() and is_cut_out_again(text))
    return text if plain else f"SQL {quote(text)}"


def _score(text: str) -> str:
    """Return the score of rows; as ``SQL '…'`` if it contains an aggregate, which would rank keys."""
    shown = expression(text)
    plain = shown != text or _is_simple(text) or aggregate_in(tokenize(text)) is None
    return shown if plain else f"SQL {quote(text)}"


def _group(text: str) -> str:
    """Return a group after BY; as ``SQL '…'`` if ``BY KEY`` would be read."""
    shown = expression(text)
    if shown != text or text[:3].upper() != "KEY":
        return shown
    tokens = tokenize(text)
    return f"SQL {quote(text)}" if tokens[0].keyword == "KEY" and begins_key(tokens[1:]) else shown


def _key(text: str) -> str:
    """Return a key after ``BY KEY``; as ``SQL '…'`` if KEY would be read as a column."""
    shown = expression(text)
    return shown if begins_key(tokenize(shown)) else f"SQL {quote(text)}"


def _argument(text: str) -> str:
    """Return the value of an aggregate; as ``SQL '…'`` if DISTINCT would be read."""
    return f"SQL {quote(text)}" if text.lstrip()[:8].upper() == "DISTINCT" else expression(text)


def begins_key(tokens: Sequence[Token]) -> bool:
    """Whether an expression begins here, so that KEY before it is a keyword and not a column.

    >>> begins_key(tokenize("page")), begins_key(tokenize("IS NULL")), begins_key(tokenize("OVER 1 HOUR"))
    (True, False, False)
    >>> begins_key(tokenize("value OVER 1 HOUR")), begins_key(tokenize("PROBABILITY p"))
    (True, False)
    """
    if not tokens:
        return False
    first = tokens[0]
    if first.keyword in (*UNCERTAIN, *INCOMPLETE):  # a clause of queries without keys, unless it is a column here
        return len(tokens) == 1 or tokens[1].keyword in STOPS or tokens[1].symbol not in ("", "(")
    return first.symbol == "(" or (first.kind != "symbol" and first.keyword not in _AFTER_OPERAND)


def span(size: str | int) -> str:
    """Return a window's size or slide: ``10 MINUTES``, ``500 ROWS``."""
    if isinstance(size, str):
        return size.upper()
    return f"{size} ROW{'' if size == 1 else 'S'}"


def origin(place: int | str, *, clock: bool) -> str:
    """Return the origin of windows: ISO text on the time axis if Python can represent it, else the number."""
    if isinstance(place, str):  # a local time
        return quote(place)
    if clock:
        try:
            return quote((_EPOCH + timedelta(microseconds=place)).isoformat().replace("+00:00", "Z"))
        except OverflowError:
            pass
    return str(place)


def _is_simple(text: str) -> bool:
    return bool(_SIMPLE.fullmatch(text)) and _RESERVED.isdisjoint(text.upper().split())


def is_cut_out_again(text: str) -> bool:
    """Whether parsing a statement that contains the text returns the same expression."""
    followed = f"{text} WITH"  # all keywords end an expression in the same way
    try:
        found = cut(followed, tokenize(followed), 0, STOPS, what="the expression")
    except SkybandError:
        return False
    return found.text == text and not found.given


def _name(name: str) -> str:
    if name.isascii() and _NAME.fullmatch(name):
        return name
    if _NAME.fullmatch(name) and name.isprintable():
        tokens = tokenize(f"{name}:")
        if len(tokens) == 2 and tokens[0].kind == "word" and tokens[0].text == name:
            return name
    return quote(name)
