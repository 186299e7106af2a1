"""Conditions on the aggregates of a key: ``having="count(*) >= 3 and avg(price) < 10"``."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from skyband.errors import InvalidQueryError

__all__ = ["OPERATORS", "Condition", "parse_having"]

# The order is that of the codes in `kernels/key_scores.py`.
OPERATORS = (">=", ">", "<=", "<", "=", "<>")
_SAME = {"==": "=", "!=": "<>"}
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_TERM = re.compile(
    r"\s*(?P<function>\w+)\s*(?:\(\s*(?P<of>.*?)\s*\))?\s*(?P<operator>>=|<=|<>|!=|==|=|>|<)\s*(?P<bound>\S+)\s*",
    re.DOTALL,
)


class Condition(NamedTuple):
    """An aggregate of the key's values in the window, compared with a number."""

    aggregate: str
    operator: str
    bound: float

    def __str__(self) -> str:
        """Return the condition as SQL.

        >>> str(Condition("count", ">=", 3.0))
        'count(*) >= 3'
        """
        of = "*" if self.aggregate == "count" else "value"
        return f"{self.aggregate}({of}) {self.operator} {self.bound:.17g}"


def parse_having(having: object, score: str, value: str | None, aggregates: tuple[str, ...]) -> tuple[Condition, ...]:
    """Return the conditions of ``having=``; all of them must hold. `score` is the aggregate that the query ranks by.

    >>> parse_having("count(*) >= 3 AND score < 1e6", "sum", "bytes", ("sum", "count"))
    (Condition(aggregate='count', operator='>=', bound=3.0), Condition(aggregate='sum', operator='<', bound=1000000.0))
    """
    if having is None:
        return ()
    if not isinstance(having, str) or not having.strip():
        raise InvalidQueryError(f"having must be a condition such as 'count(*) >= 3', or None, got {having!r}.")
    return tuple(_condition(having, term, score, value, aggregates) for term in _AND.split(having.strip()))


def _condition(having: str, term: str, score: str, value: str | None, aggregates: tuple[str, ...]) -> Condition:
    found = _TERM.fullmatch(term)
    bound = math.nan if found is None else _number(found["bound"])
    if found is None or math.isnan(bound):
        raise InvalidQueryError(
            f"having={having!r}: {term.strip()!r} must compare an aggregate with a number, such as 'count(*) >= 3' or "
            "'score > 0'. Join several conditions with 'and'."
        )
    name, of = found["function"].lower(), found["of"]
    if name == "count" and of is not None and of[:9].lower() == "distinct ":
        name, of = "count_distinct", of[9:].strip()
    if name == "score" and of is None:
        name = score
    elif name not in aggregates or of is None:
        raise InvalidQueryError(
            f"having={having!r}: {term.strip()!r} must begin with 'score' or with one of the aggregates "
            f"{', '.join(f'{one}(…)' for one in aggregates)}."
        )
    elif of.lower() not in {"value", (value or "value").lower()} | ({"*"} if name == "count" else set()):
        what = "count(*)" if name == "count" else f"{name}({value or 'value'})"
        raise InvalidQueryError(
            f"having={having!r}: {found['function']}({of}) aggregates other values than the query. A condition is on "
            f"the key's values, value={value!r}. Write {what}."
        )
    return Condition(name, _SAME.get(found["operator"], found["operator"]), bound)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
