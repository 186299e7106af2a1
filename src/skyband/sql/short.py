"""The short dialect: ``TOPK price * size, 10 BY symbol OVER 10 MINUTES EVERY 1 MINUTE``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from skyband.sql.cursor import Cursor, one_of
from skyband.sql.expression import comma_follows
from skyband.sql.intervals import calendar_length, span
from skyband.sql.statement import StatementDraft, direction, read_full, read_k, read_origin, read_ties
from skyband.sql.window_clauses import KINDS, read_distinct, read_half_life, read_session, settle_lengths
from skyband.sql.writer import CERTAIN, CLAUSES, STOPS

_SHAPE = "the form is TOPK score, k BY groups OVER size EVERY slide"
_DIRECTIONS = frozenset({"ASC", "DESC", "NULLS"})


def read(cursor: Cursor) -> StatementDraft:
    """Parse a statement that begins with ``TOPK``."""
    draft = StatementDraft(cursor, "topk")
    cursor.expect("TOPK")
    _read_head(draft)
    read_ties(draft)
    while cursor.peek() is not None:
        if draft.read_family_clause(STOPS):
            continue
        clause = next((word for word in _READERS if cursor.sees(word)), None)
        if clause is None:
            raise _unknown(draft)
        _READERS[clause](draft)
    if "size" not in draft.fields and "gap" not in draft.fields:
        raise cursor.unexpected("OVER and the size of the window", "as in OVER 10 MINUTES or OVER 500 ROWS")
    settle_lengths(draft)
    return draft


def _read_head(draft: StatementDraft) -> None:
    """Parse ``score [ASC|DESC], [column [ASC|DESC], …] k`` or ``k [ASC|DESC]``; the comma distinguishes them."""
    cursor = draft.cursor
    at = cursor.place
    draft.read_score(STOPS, "the score or k", _SHAPE)
    first = draft.score
    turned = cursor.sees("ASC") or cursor.sees("DESC") or cursor.sees("NULLS")
    order = direction(cursor, default="desc")
    if cursor.take_symbol(","):
        _read_later_columns(draft)
        read_k(draft)
        if cursor.sees("ASC") or cursor.sees("DESC"):
            raise cursor.fail("ASC or DESC must follow the score, before the comma", "as in TOPK price ASC, 10")
    elif first is not None and len(first.tokens) == 1 and first.text.isascii() and first.text.isdigit():
        cursor.at -= 2 if turned else 1
        draft.score = None
        del draft.fields["by"], draft.places["by"]
        read_k(draft)
        cursor.at += 1 if turned else 0
    else:
        raise cursor.unexpected("a comma and k after the score", _SHAPE)
    draft.put("order", order, at)


def _read_later_columns(draft: StatementDraft) -> None:
    """Parse the columns between the score and k, which rank rows with equal scores."""
    cursor, at, found = draft.cursor, draft.cursor.place, []
    while comma_follows(cursor.tokens, cursor.at, STOPS - _DIRECTIONS):
        if draft.score is None:
            message = "keys are ranked by one aggregate; among equal scores the newest key ranks first"
            raise cursor.fail(message, "remove the other columns, or sort the answers afterwards")
        text = cursor.expression(STOPS, "a column after the score", _SHAPE).text
        order = "asc" if cursor.take("ASC") else "desc"
        cursor.take("DESC")
        first = cursor.take("NULLS", "FIRST")
        if not first:
            cursor.take("NULLS", "LAST")
        cursor.expect_symbol(",", "as in TOPK price DESC, size ASC NULLS FIRST, 10")
        found.append(f"{text} {order}{' nulls first' if first else ''}")
    if found:
        draft.put("then_by", tuple(found), at)


def _read_stream(draft: StatementDraft) -> None:
    draft.once("stream", "FROM")
    draft.cursor.expect("FROM")
    draft.beside["stream"] = draft.cursor.path("the name of a stream")


def _read_where(draft: StatementDraft) -> None:
    draft.once("where", "WHERE")
    draft.cursor.expect("WHERE")
    draft.fields["where"] = draft.cursor.expression(STOPS, "the condition after WHERE").text


def _read_groups(draft: StatementDraft) -> None:
    """Parse ``BY`` or ``PARTITION BY``; if an aggregate has both, ``BY`` names the key."""
    given, bare = draft.aggregation, not draft.cursor.sees("PARTITION")
    if given.call and given.groups and not given.keys and given.bare != bare:
        if bare:
            draft.places["key"] = draft.cursor.place
            draft.cursor.expect("BY")
            given.keys = draft.cursor.expressions(STOPS, "the key after BY")
            return
        given.keys, draft.places["key"] = given.groups, draft.places.pop("partition_by")
    draft.once("partition_by", "BY")
    given.bare = bare
    draft.cursor.take("PARTITION")
    draft.cursor.expect("BY")
    draft.put_groups(draft.cursor.expressions(STOPS, "a group after BY"))


def _read_size(draft: StatementDraft) -> None:
    cursor = draft.cursor
    draft.once("size", "OVER")
    cursor.expect("OVER")
    at = cursor.place
    if cursor.sees("SESSION"):
        read_session(draft, STOPS)
        return
    if cursor.take("ALL"):
        draft.put("size", None, at)
    else:
        draft.put("size", calendar_length(cursor) or span(cursor, "the size of the window", STOPS), at)
    for word, reader in KINDS.items():
        if cursor.sees(word):
            reader(draft)


def _read_slide(draft: StatementDraft) -> None:
    draft.once("slide", "EVERY")
    draft.cursor.expect("EVERY")
    at = draft.cursor.place
    length = calendar_length(draft.cursor)
    draft.put("slide", length or span(draft.cursor, "the slide of the window", STOPS), at)


_READERS: dict[str, Callable[[StatementDraft], None]] = {
    "FROM": _read_stream,
    "WHERE": _read_where,
    "BY": _read_groups,
    "PARTITION": _read_groups,
    "OVER": _read_size,
    "EVERY": _read_slide,
    "ORIGIN": read_origin,
    "FULL": read_full,
    "DISTINCT": partial(read_distinct, stops=STOPS),
    "HALF_LIFE": partial(read_half_life, stops=STOPS),
}


def _unknown(draft: StatementDraft) -> Exception:
    cursor, shown = draft.cursor, CLAUSES if draft.family.clauses else CERTAIN
    hints = {
        "ORDER": "write the score after TOPK, as in TOPK score, k",
        "GROUP": "write groups with BY",
        "LIMIT": "write k after the score, as in TOPK score, k",
        "SLIDE": "write the slide with EVERY",
        "AS": "write the name first, as in name: TOPK score, k",
        "WITH": "write WITH TIES directly after k",
    }
    token = cursor.peek()
    hint = hints.get(token.keyword, "") if token else ""
    if token is not None and token.symbol in (")", "]", "}"):
        return cursor.fail(f"{token.text!r} has no opening bracket", "remove it, or open the bracket")
    return cursor.unexpected(one_of(shown), hint, known=() if hint else (*CLAUSES, "WITH", "PARTITION"))
