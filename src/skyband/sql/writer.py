"""The canonical SQL of a query: one line in the short dialect, without defaults.

```text
[name:] TOPK [score [ASC],] k [ASC] [WITH TIES] [WHERE condition] [BY group, …]
    OVER size [CUMULATIVE] [AT TIME ZONE 'zone' [WEEK START day]] [EVERY slide] [ORIGIN place] [FULL WINDOWS ONLY]

[name:] TOPK [score,] k [WHERE condition] [PROBABILITY p] [RULE label] [STREAM label]
    OVER size FREQUENCY every [SEMANTICS word] [THRESHOLD p] [WEIGHTS (w, ...)] [ALPHA a]
```

The second form is a query over an uncertain stream. It always contains FREQUENCY.

An expression is written unchanged if parsing the statement returns the same text. Otherwise (it contains a line break,
ends in a comment, or is not SQL) it is written as ``SQL '…'``, which is parsed without checks. So every query has a
canonical form that can be parsed again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from skyband.errors import SkybandError
from skyband.sql.expression import cut
from skyband.sql.lexer import quote, tokenize

DEFAULT_NAME = "topk"
UNCERTAIN = ("PROBABILITY", "RULE", "STREAM", "FREQUENCY", "SEMANTICS", "THRESHOLD", "WEIGHTS", "ALPHA")
CERTAIN = ("FROM", "WHERE", "BY", "OVER", "EVERY", "ORIGIN", "FULL")
CLAUSES = (*CERTAIN, *UNCERTAIN)
# Keywords that end an expression in the short dialect.
STOPS = frozenset({*CLAUSES, "PARTITION", "ASC", "DESC", "NULLS", "WITH"})

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
        parts.append(f"BY {', '.join(map(expression, query['partition_by']))}")
    parts += _window(query)
    if query["slide"] != query["size"]:
        parts.append(f"EVERY {span(query['slide'])}")
    if query["origin"]:
        parts.append(f"ORIGIN {origin(query['origin'], clock=isinstance(query['slide'], str))}")
    if query["full_only"]:
        parts.append("FULL WINDOWS ONLY")
    return " ".join(parts)


def _window(query: Mapping[str, Any]) -> list[str]:
    """Return the size, and what else defines how windows begin."""
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
    parts = _head(query, named=named)
    for field in ("where", "probability", "rule", "stream"):
        if query[field] is not None:
            parts.append(f"{field.upper()} {expression(query[field])}")
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
    score = "" if query["by"] is None else f"{expression(query['by'])}{ascending}, "
    return [*parts, "TOPK", f"{score}{query['k']}{ascending if not score else ''}"]


def expression(text: str) -> str:
    r"""Return the expression unchanged if it can be parsed again, otherwise as ``SQL '…'``.

    >>> print(expression("price * size"), expression("a -- b"), expression("a )("))
    price * size SQL 'a -- b' SQL 'a )('
    """
    plain = _is_simple(text) or (text.isprintable() and is_cut_out_again(text))
    return text if plain else f"SQL {quote(text)}"


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
