"""The SQL clauses of queries over incomplete streams, used by the short grammar and by CQL.

``OBJECT`` marks such a query and precedes its other clauses. Two of them, ``STREAM`` and ``WEIGHTS``, also belong to
queries over uncertain streams. The score is ``sum(value)`` or another monotone aggregate, or an expression over the
streams with ``VALUE``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from skyband.incomplete.query import METHODS, IncompleteTopK
from skyband.queries.families import FAMILIES
from skyband.sql.cursor import Cursor
from skyband.sql.lexer import unquote
from skyband.sql.statement import StatementDraft
from skyband.sql.writer import INCOMPLETE

__all__ = ["read", "settle"]

_SHAPE = (
    "the form is TOPK sum(bytes), 20 OBJECT flow STREAM router STREAMS ('r1', 'r2') OVER 5 MINUTES EVERY 10 SECONDS"
)
_SHARED = ("STREAM", "WEIGHTS")  # with uncertain streams
_FOREIGN = {
    "full_only": ("FULL WINDOWS ONLY", "remove it"),
}


def read(draft: StatementDraft, stops: Collection[str]) -> bool:
    """Parse the next clause if it is one of an incomplete stream. `stops` are the words that end an expression."""
    mine = draft.family.name == IncompleteTopK.family
    clauses = (*INCOMPLETE, *_SHARED) if mine else INCOMPLETE
    clause = next((word for word in clauses if draft.cursor.sees(word)), None)
    if clause is None:
        return False
    if clause != "OBJECT" and not mine:
        raise draft.cursor.fail(f"{clause} must follow OBJECT, which makes a query over incomplete streams", _SHAPE)
    draft.once(clause, clause)
    draft.cursor.expect(clause)
    draft.choose(FAMILIES[IncompleteTopK.family])
    at = draft.cursor.place
    draft.put(clause.lower(), _READERS[clause](draft.cursor, clause, stops), at)
    return True


def settle(draft: StatementDraft) -> None:
    """Find the aggregate and the value, and reject clauses that are not supported for incomplete streams."""
    for field, (what, instead) in _FOREIGN.items():
        if field in draft.fields:
            message = f"a query over incomplete streams does not support {what}"
            raise draft.cursor.fail(message, instead, at=draft.places.get(field))
    if draft.aggregation.keys:
        message = "a query over incomplete streams ranks objects, so it does not support keys"
        raise draft.cursor.fail(message, _SHAPE, at=draft.places["key"])
    if "slide" in draft.fields:
        draft.put("every", draft.fields.pop("slide"), draft.places["slide"])
    call = draft.aggregation.call
    if call is not None:
        if "value" in draft.fields:
            raise draft.cursor.fail("the value is given twice", "write sum(bytes), or VALUE bytes", at=call.start)
        draft.put("aggregate", call.aggregate, call.start)
        draft.put("value", call.value, call.start)
    elif draft.score is not None:
        draft.put("aggregate", draft.fields.pop("by"), draft.places["by"])
        if "value" not in draft.fields:
            message = f"the score {draft.score.text!r} is an expression over the streams, so VALUE is missing"
            raise draft.cursor.fail(message, "write VALUE and the column with the values", at=draft.score.start)
    else:
        raise draft.cursor.fail("the query has no score", _SHAPE, at=draft.places["object"])


def _expression(cursor: Cursor, clause: str, stops: Collection[str]) -> str:
    return cursor.expression(stops, f"the {clause.lower()} of a row").text


def _each(cursor: Cursor, clause: str, part: Callable[[], Any]) -> list[Any]:
    """Parse a list in parentheses."""
    cursor.expect_symbol("(", f"as in {_EXAMPLES[clause]}")
    found = [part()]
    while cursor.take_symbol(","):
        found.append(part())
    cursor.expect_symbol(")", f"as in {_EXAMPLES[clause]}")
    return found


def _name(cursor: Cursor, clause: str) -> str | int:
    """Parse the name of a stream: a text in quotes, or an integer."""
    token = cursor.peek()
    if token is not None and token.kind == "string":
        cursor.at += 1
        return unquote(token.text)
    return cursor.integer("a stream in quotes, or an integer", f"as in {_EXAMPLES[clause]}")


def _streams(cursor: Cursor, clause: str, _: Collection[str]) -> list[str | int]:
    return _each(cursor, clause, lambda: _name(cursor, clause))


def _number(cursor: Cursor, clause: str) -> float:
    return cursor.number(f"a number in {clause}", f"as in {_EXAMPLES[clause]}")


def _weights(cursor: Cursor, clause: str, _: Collection[str]) -> dict[str | int, float]:
    return dict(_each(cursor, clause, lambda: (_name(cursor, clause), _number(cursor, clause))))


def _bounds(cursor: Cursor, clause: str, _: Collection[str]) -> Any:
    """Parse ``(0, 1)``, or such a pair for each stream."""
    if any(cursor.sees_symbol("(", ahead) for ahead in (2, 3)) or _is_named(cursor):  # after a name, or a minus sign
        return dict(_each(cursor, clause, lambda: (_name(cursor, clause), _pair(cursor, clause))))
    return _pair(cursor, clause)


def _is_named(cursor: Cursor) -> bool:
    first = cursor.peek(1)
    return first is not None and first.kind == "string"


def _pair(cursor: Cursor, clause: str) -> tuple[float, ...]:
    return tuple(_each(cursor, clause, lambda: _number(cursor, clause)))


def _occurrences(cursor: Cursor, clause: str, _: Collection[str]) -> int | str:
    return "once" if cursor.take("ONCE") else cursor.integer("a number of occurrences, or ONCE")


def _method(cursor: Cursor, clause: str, _: Collection[str]) -> str:
    """Parse a word with hyphens, or a quoted string."""
    return cursor.hyphenated(clause, METHODS)


def _flag(cursor: Cursor, clause: str, _: Collection[str]) -> bool:
    return True


_EXAMPLES = {
    "STREAMS": "STREAMS ('a', 'b')",
    "WEIGHTS": "WEIGHTS ('a' 2, 'b' 0.5)",
    "BOUNDS": "BOUNDS (0, 100), or BOUNDS ('a' (0, 1), 'b' (0, 100))",
}
_READERS: dict[str, Callable[[Cursor, str, Collection[str]], object]] = {
    "OBJECT": _expression,
    "STREAM": _expression,
    "VALUE": _expression,
    "STREAMS": _streams,
    "WEIGHTS": _weights,
    "BOUNDS": _bounds,
    "OCCURRENCES": _occurrences,
    "METHOD": _method,
    "INTERVALS": _flag,
}
