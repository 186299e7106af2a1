"""The SQL clauses of queries that rank keys: ``BY KEY`` in the short dialect, ``GROUP BY`` in the others.

A score that is a single aggregate marks such a query. Without ``BY KEY``, the column after ``BY`` is the key, because a
query without a key has nothing to rank.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from skyband.sql.aggregation import AggregateCall
from skyband.sql.cursor import spelled_name
from skyband.sql.expression import Expression
from skyband.sql.lexer import Token
from skyband.sql.statement import StatementDraft
from skyband.sql.writer import begins_key

__all__ = ["read", "settle"]

_SHAPE = "the form is TOPK sum(bytes), 10 BY KEY client PARTITION BY country OVER 1 HOUR EVERY 1 MINUTE"
_BOUNDS = ("window_start", "window_end", "window_time")


def read(draft: StatementDraft, stops: Collection[str]) -> bool:
    """Parse ``HAVING``, and ``BY KEY`` of the short dialect. `stops` are the words that end an expression."""
    cursor = draft.cursor
    if cursor.sees("HAVING"):
        draft.once("having", "HAVING")
        cursor.expect("HAVING")
        at = cursor.place
        draft.put("having", cursor.expression(stops, "the condition after HAVING").text, at)
        draft.rank_keys()
        return True
    if cursor.sees("WITH"):
        return _read_with(draft, stops)
    if draft.spelling != "topk" or not cursor.sees("BY", "KEY") or not begins_key(cursor.tokens[cursor.at + 2 :]):
        return False
    draft.once("key", "BY KEY")
    cursor.expect("BY", "KEY")
    draft.places["key"] = cursor.place
    draft.aggregation.keys = cursor.expressions(stops, "the key after BY KEY")
    draft.rank_keys()
    return True


def _read_with(draft: StatementDraft, stops: Collection[str]) -> bool:
    """Parse a clause that begins with WITH, if it is one of queries that rank keys."""
    cursor = draft.cursor
    flag = next((field for field in ("others", "share", "row") if cursor.sees("WITH", field.upper())), None)
    if flag is not None:
        at = draft.once(flag, f"WITH {flag.upper()}")
        cursor.expect("WITH", flag.upper())
        draft.put(flag, True, at)
    elif cursor.sees("WITH", "SKETCH"):
        _read_sketch(draft)
    elif cursor.sees("WITH", "MAX"):
        at = draft.once("max_keys", "WITH MAX KEYS")
        cursor.expect("WITH", "MAX", "KEYS", why="as in WITH MAX KEYS 1000000")
        draft.put("max_keys", cursor.integer("the number of keys after WITH MAX KEYS", "as in 1000000"), at)
    elif cursor.sees("WITH", "DELETE"):
        draft.once("delete", "WITH DELETE WHEN")
        cursor.expect("WITH", "DELETE", "WHEN", why="as in WITH DELETE WHEN op = 'd'")
        at = cursor.place
        draft.put("delete", cursor.expression(stops, "the condition after WITH DELETE WHEN").text, at)
    else:
        return False
    draft.rank_keys()
    return True


def _read_sketch(draft: StatementDraft) -> None:
    """Parse ``WITH SKETCH``, and its error or number of counters."""
    cursor = draft.cursor
    at = draft.once("method", "WITH SKETCH")
    cursor.expect("WITH", "SKETCH")
    draft.put("method", "sketch", at)
    at = cursor.place
    if cursor.take("ERROR"):
        draft.put("error", cursor.number("the error after ERROR", "as in WITH SKETCH ERROR 0.001"), at)
    elif cursor.take("COUNTERS"):
        draft.put("counters", cursor.integer("the number after COUNTERS", "as in WITH SKETCH COUNTERS 2000"), at)


def settle(draft: StatementDraft) -> None:
    """Find the aggregate, the key and the groups; reject clauses that are not supported for keys."""
    call = _call(draft)
    _check_list(draft, call)
    draft.fields.pop("by", None)
    draft.put("aggregate", call.aggregate, call.start)
    draft.put("value", call.value, call.start)
    if call.quantile is not None:
        draft.put("quantile", call.quantile, call.start)
    keys, groups = _keys_and_groups(draft, call)
    draft.put("key", keys[0].text if len(keys) == 1 else tuple(key.text for key in keys), keys[0].start)
    draft.fields["partition_by"] = tuple(group.text for group in groups)


def _call(draft: StatementDraft) -> AggregateCall:
    """Return the aggregate of the score, or the one that its alias names."""
    found = draft.aggregation.call
    if found is not None:
        return found
    if draft.score is not None:
        name = spelled_name(draft.score.tokens[-1]).lower() if _is_path(draft.score.tokens) else ""
        for item in draft.aggregation.selected or ():
            if isinstance(item.part, AggregateCall) and item.alias == name:
                return item.part
    what = "no score" if draft.score is None else f"the score {draft.score.text!r}"
    message = f"{what} is an aggregate" if draft.score is None else f"{what} is not an aggregate"
    at = draft.places.get("by", draft.places.get("key"))
    raise draft.cursor.fail(f"keys are ranked by an aggregate of their rows, but {message}", _SHAPE, at=at)


def _check_list(draft: StatementDraft, call: AggregateCall) -> None:
    """Reject columns that the answers do not have: they contain the key, its groups and its score."""
    known = [_spelled(key) for key in (*draft.aggregation.keys, *draft.aggregation.groups)]
    for item in draft.aggregation.selected or ():
        if isinstance(item.part, AggregateCall):
            if (item.part.aggregate, item.part.value) != (call.aggregate, call.value):
                message = f"answers contain one score, {call.text}, so {item.part.text} cannot be selected too"
                raise draft.cursor.fail(message, "remove it, or write another query for it", at=item.part.start)
        elif _spelled(item.part) not in known and _last(item.part) not in _BOUNDS:
            message = f"{item.part.text} is not in GROUP BY, so a key has no single value of it"
            raise draft.cursor.fail(message, "select the key and its score", at=item.part.start)


def _keys_and_groups(draft: StatementDraft, call: AggregateCall) -> tuple[list[Expression], list[Expression]]:
    given = draft.aggregation
    groups = [_named(draft, group) for group in given.groups]
    keys = given.keys
    if given.grouped:  # columns of GROUP BY that are in PARTITION BY too are groups
        inner = [_spelled(group) for group in groups]
        keys = [key for key in keys if _spelled(key) not in inner]
    elif not keys and given.bare:
        keys, groups = groups, []
    if keys:
        return keys, groups
    message = f"{call.text} ranks keys, but the query has no key"
    hint = f"name the column of the keys: TOPK {call.text}, k BY KEY column OVER ..."
    if draft.spelling != "topk":
        hint = "write GROUP BY and the column of the keys"
    raise draft.cursor.fail(message, hint, at=call.start)


def _named(draft: StatementDraft, group: Expression) -> Expression:
    """Return the expression that a group names by its alias in the select list, else the group itself."""
    for item in draft.aggregation.selected or ():
        if isinstance(item.part, Expression) and item.alias is not None and item.alias == _last(group):
            return item.part
    return group


def _spelled(part: Expression) -> tuple[str, ...]:
    """Return the words of an expression, for comparison."""
    return tuple(token.text.lower() if token.kind == "word" else token.text for token in part.tokens)


def _last(part: Expression) -> str:
    """Return the column without its table; empty if the expression is not a plain column."""
    return spelled_name(part.tokens[-1]).lower() if _is_path(part.tokens) else ""


def _is_path(tokens: Sequence[Token]) -> bool:
    return all(token.kind in ("word", "name") or token.symbol == "." for token in tokens)
