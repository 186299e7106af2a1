"""CQL as the papers write it: ``SELECT TOP 10 * FROM trades [RANGE 10 MINUTES SLIDE 1 MINUTE] ORDER BY price DESC``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from skyband.sql.cursor import Cursor, one_of
from skyband.sql.intervals import calendar_length, duration, is_unit, span
from skyband.sql.statement import StatementDraft, direction, read_full, read_k, read_origin
from skyband.sql.window_clauses import KINDS, read_distinct, read_half_life, read_session, settle_lengths
from skyband.sql.writer import INCOMPLETE, UNCERTAIN

_STOPS = frozenset(
    {"WHERE", "PARTITION", "ORDER", "LIMIT", "ASC", "DESC", "NULLS", "GROUP", "HAVING", "DISTINCT", "HALF_LIFE"}
    | {*UNCERTAIN, *INCOMPLETE}
)
_IN_WINDOW = frozenset({"RANGE", "ROWS", "SLIDE", "FREQUENCY", "ORIGIN", "FULL", "PARTITION", "SESSION", *KINDS})
COLUMNS = "a list of columns is not supported here, because answers contain whole rows"
_WINDOWS = "write [RANGE 10 MINUTES SLIDE 1 MINUTE] or [ROWS 10000 SLIDE 100]"


def read(draft: StatementDraft) -> None:
    """Parse the part after ``FROM``."""
    cursor = draft.cursor
    draft.beside["stream"] = cursor.path("the name of a stream", "as in SELECT TOP 10 * FROM trades [...]")
    _read_window(draft)
    while cursor.peek() is not None:
        _clause(cursor, _TAIL)(draft)
    if draft.aggregation.selected is not None and not draft.aggregation.grouped:
        raise cursor.fail(COLUMNS, "write * and select columns from the answers", at=draft.places["selected"])
    if "order" not in draft.fields and not draft.family.clauses:
        raise cursor.unexpected(
            "ORDER BY and a score", "ORDER BY defines which objects are best, as in ORDER BY price DESC"
        )
    if "k" not in draft.fields:
        raise cursor.unexpected("LIMIT and k", "write k after TOP or LIMIT, as in SELECT TOP 10 *")


def _read_window(draft: StatementDraft) -> None:
    cursor = draft.cursor
    opening = cursor.place
    cursor.expect_symbol("[", _WINDOWS)
    _refuse_other_windows(cursor)
    while not cursor.take_symbol("]"):
        if cursor.peek() is None:
            raise cursor.fail("'[' is not closed", "close the window with ']'", at=opening)
        _clause(cursor, _WINDOW)(draft)
    if "size" not in draft.fields and "gap" not in draft.fields:
        raise cursor.fail("the window has no size", _WINDOWS, at=opening)
    if "slide" not in draft.fields and draft.fields.get("size", 0) is None:
        message = "UNBOUNDED needs a slide, the time between two answers"
        raise cursor.fail(message, "write [RANGE UNBOUNDED SLIDE 1 HOUR]", at=draft.places["size"])
    settle_lengths(draft)


def _refuse_other_windows(cursor: Cursor) -> None:
    if cursor.sees("NOW"):
        raise cursor.fail("[NOW] windows are not supported, because they contain a single moment", _WINDOWS)
    if cursor.sees("ROWS", "UNBOUNDED"):
        message = "ROWS UNBOUNDED is not supported, because windows over numbers of rows have a size"
        raise cursor.fail(message, "write [RANGE UNBOUNDED SLIDE 1 HOUR], which ranks all rows since ORIGIN every hour")


def _clause(cursor: Cursor, readers: dict[str, Callable[[StatementDraft], None]]) -> Callable[[StatementDraft], None]:
    for word, reader in readers.items():
        if cursor.sees(word):
            return reader
    token = cursor.peek()
    if readers is _TAIL and cursor.sees_symbol("["):
        return (
            _read_groups if [word.keyword for word in cursor.tokens[cursor.at + 1 :][:1]] == ["PARTITION"] else _second
        )
    hint = _INSTEAD.get(token.keyword, "") if token else ""
    if token is not None and readers is _TAIL and token.symbol in (")", "]", "}"):
        raise cursor.fail(f"{token.text!r} has no opening bracket", "remove it, or open the bracket")
    raise cursor.unexpected(one_of(_SHOWN[readers is _TAIL]), hint, known=() if hint else tuple(readers))


def _second(draft: StatementDraft) -> None:
    raise draft.cursor.unexpected("[PARTITION BY ...]", "a stream has only one window")


def _read_size(draft: StatementDraft) -> None:
    cursor = draft.cursor
    draft.once("size", "the size of the window")
    at = cursor.place
    if cursor.take("UNBOUNDED") or cursor.take("RANGE", "UNBOUNDED") or cursor.take("RANGE", "ALL"):
        draft.put("size", None, at)
        return
    rows = cursor.take("ROWS")
    if not rows:
        cursor.expect("RANGE")
    at = cursor.place
    draft.put("size", _rows(draft, "the size of the window") if rows else _range(draft, "the size of the window"), at)


def _read_slide(draft: StatementDraft) -> None:
    cursor = draft.cursor
    draft.once("slide", "SLIDE")
    cursor.expect("SLIDE")
    at = cursor.place
    counted = isinstance(draft.fields.get("size"), int)
    length = None if counted else calendar_length(cursor)
    draft.put("slide", length or (_rows(draft, "the slide") if counted else span(cursor, "the slide", _IN_WINDOW)), at)


def _rows(draft: StatementDraft, what: str) -> int:
    """Parse a number of rows; the unit ROWS is optional after [ROWS …]."""
    cursor = draft.cursor
    at = cursor.place
    rows = cursor.integer(f"{what} in rows", "as in [ROWS 10000 SLIDE 100]")
    unit = cursor.peek()
    if not (cursor.take("ROWS") or cursor.take("ROW")) and unit is not None and is_unit(unit.text):
        message = f"{what} must be a number of rows in a ROWS window, got {unit.text}"
        raise cursor.fail(message, "use RANGE for durations and ROWS for rows", at=at)
    return rows


def _range(draft: StatementDraft, what: str) -> str:
    cursor = draft.cursor
    unit = cursor.peek(1)
    if unit is not None and unit.keyword in ("ROW", "ROWS"):
        raise cursor.fail("RANGE must be a duration, got a number of rows", "use ROWS, as in [ROWS 10000 SLIDE 100]")
    return calendar_length(cursor) or duration(cursor, what, _IN_WINDOW)


def _read_family(draft: StatementDraft) -> None:
    draft.read_family_clause(_STOPS | _IN_WINDOW)


def _read_with(draft: StatementDraft) -> None:
    if not draft.read_family_clause(_STOPS | _IN_WINDOW):
        draft.cursor.expect("WITH")
        raise draft.cursor.unexpected("DELETE, SKETCH, OTHERS or SHARE")


def _read_where(draft: StatementDraft) -> None:
    draft.once("where", "WHERE")
    draft.cursor.expect("WHERE")
    draft.fields["where"] = draft.cursor.expression(_STOPS, "the condition after WHERE").text


def _read_groups(draft: StatementDraft) -> None:
    cursor = draft.cursor
    draft.once("partition_by", "PARTITION BY")
    opening = cursor.place
    bracket = cursor.take_symbol("[")
    cursor.expect("PARTITION", "BY")
    draft.put_groups(cursor.expressions(_STOPS | _IN_WINDOW, "a group after PARTITION BY"))
    if bracket and not cursor.take_symbol("]"):
        if cursor.peek() is None:
            raise cursor.fail("'[' is not closed", "close it with ']'", at=opening)
        raise cursor.unexpected("']' after the groups", "as in [PARTITION BY symbol]")


def _read_keys(draft: StatementDraft) -> None:
    cursor = draft.cursor
    draft.once("key", "GROUP BY")
    cursor.expect("GROUP", "BY")
    draft.aggregation.keys = cursor.expressions(_STOPS, "a key after GROUP BY")
    draft.aggregation.grouped = True
    draft.rank_keys()


def _read_order(draft: StatementDraft) -> None:
    cursor = draft.cursor
    draft.once("by", "ORDER BY")
    cursor.expect("ORDER", "BY")
    at = cursor.place
    draft.read_score(_STOPS, "the score after ORDER BY")
    draft.put("order", direction(cursor, default="asc"), at)
    read_later_columns(draft, _STOPS)


def read_later_columns(draft: StatementDraft, stops: Collection[str]) -> None:
    """Parse the expressions of ORDER BY after the first; keys of aggregates have only one."""
    cursor = draft.cursor
    if draft.score is None and cursor.sees_symbol(","):
        message = "ORDER BY must have one expression if keys are ranked; among equal scores the newest key ranks first"
        raise cursor.fail(message, "combine them into one expression, or sort the answers afterwards")
    found = []
    while cursor.take_symbol(","):
        text = cursor.expression(stops, "a column after ORDER BY").text
        order = "asc" if not cursor.take("DESC") else "desc"
        cursor.take("ASC")
        first = cursor.sees("NULLS", "FIRST")
        if first or cursor.sees("NULLS", "LAST"):
            cursor.at += 2
        found.append(f"{text} {order}{' nulls first' if first else ''}")
    if found:
        draft.put("then_by", tuple(found), cursor.place)


def _read_limit(draft: StatementDraft) -> None:
    if "k" in draft.fields:
        raise draft.cursor.fail("k is given twice, by TOP and by LIMIT", "remove one of them")
    draft.cursor.expect("LIMIT")
    read_k(draft, what="k after LIMIT")


_WINDOW: dict[str, Callable[[StatementDraft], None]] = {
    "RANGE": _read_size,
    "ROWS": _read_size,
    "UNBOUNDED": _read_size,
    "SESSION": partial(read_session, stops=_IN_WINDOW),
    **KINDS,
    "SLIDE": _read_slide,
    "FREQUENCY": _read_family,
    "ORIGIN": read_origin,
    "FULL": read_full,
    "PARTITION": _read_groups,
}
_TAIL: dict[str, Callable[[StatementDraft], None]] = {
    "WHERE": _read_where,
    "PARTITION": _read_groups,
    "GROUP": _read_keys,
    "ORDER": _read_order,
    "LIMIT": _read_limit,
    "DISTINCT": partial(read_distinct, stops=_STOPS),
    "HALF_LIFE": partial(read_half_life, stops=_STOPS),
    "WITH": _read_with,
    **dict.fromkeys((*UNCERTAIN, *INCOMPLETE, "HAVING"), _read_family),
}
_SHOWN = (
    ("RANGE", "ROWS", "SESSION", "SLIDE", "FREQUENCY", "ORIGIN", "FULL", "CUMULATIVE", "AT TIME ZONE", "']'"),
    ("WHERE", "GROUP BY", "PARTITION BY", "FREQUENCY", "ORDER BY", "LIMIT", "PROBABILITY", "RULE"),
)
_INSTEAD = {
    "EVERY": "inside [...] write the slide with SLIDE",
    "OFFSET": "OFFSET is not supported: answers begin with rank 1; to align windows, use ORIGIN inside [...]",
    "AS": "write the name first, as in name: SELECT TOP 10 * FROM ...",
    "JOIN": "JOIN is not supported; join the streams before",
}
