"""Statements that begin with ``SELECT``: CQL, or Flink's pattern of a ranking in a subquery."""

from __future__ import annotations

from skyband.sql import cql, flink
from skyband.sql.cursor import Cursor
from skyband.sql.statement import StatementDraft
from skyband.sql.window_clauses import read_k, read_ties


def read(cursor: Cursor) -> StatementDraft:
    """The statement that begins here with ``SELECT``; what it reads from says which spelling it is in."""
    draft = StatementDraft(cursor, "cql")
    cursor.expect("SELECT")
    if cursor.take("TOP"):
        read_k(draft, what="k after TOP")
        if cursor.sees("PERCENT"):
            raise cursor.fail("a share of a window is no fixed k", "give k as a number of objects: TOP 10")
        read_ties(draft)
    read_star(cursor)
    cursor.expect("FROM")
    if cursor.sees_symbol("("):
        if "k" in draft.fields:
            raise cursor.fail("TOP reads from a stream, not from a subquery", "as in SELECT TOP 10 * FROM trades [...]")
        draft.spelling = "flink"
        flink.read(draft)
    elif flink.sees_window_function(cursor):
        raise cursor.fail("a window function alone ranks nothing", flink.SHAPE)
    else:
        cql.read(draft)
    return draft


def read_star(cursor: Cursor) -> None:
    """Step over ``*``; any other list is refused."""
    if cursor.sees("DISTINCT"):
        raise cursor.fail("DISTINCT is not for streams of objects: each row is an object of its own", "leave it out")
    if cursor.sees("FROM") or cursor.peek() is None:
        raise cursor.unexpected("*", "answers bring whole rows back: write SELECT *")
    if not cursor.take_symbol("*"):
        message = "answers bring whole rows back; a list of columns cannot be chosen here"
        raise cursor.fail(message, "write * and select columns from the answers")
    if not (cursor.sees("FROM") or cursor.sees_symbol(",")):
        raise cursor.unexpected("FROM", known=("FROM",))
    if cursor.sees_symbol(",") and not _ranking_ahead(cursor):
        message = "answers bring whole rows back; nothing can be added to *"
        raise cursor.fail(message, "compute further columns from the answers")


def _ranking_ahead(cursor: Cursor) -> bool:
    return cursor.sees_symbol("(", 2) and (token := cursor.peek(1)) is not None and token.keyword in flink.RANKINGS
