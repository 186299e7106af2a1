"""The clauses that the short spelling and CQL share: where windows are anchored, which are reported, what ranks."""

from __future__ import annotations

from skyband.sql.cursor import Cursor
from skyband.sql.literal import unquote
from skyband.sql.statement import StatementDraft

_K = "k is how many objects an answer ranks, a whole number"


def read_k(draft: StatementDraft, *, what: str = "k") -> None:
    """A whole number: how many objects an answer ranks."""
    at = draft.once("k", "k")
    draft.put("k", draft.cursor.integer(what, _K), at)


def read_ties(draft: StatementDraft) -> None:
    """``WITH TIES``, if it is there."""
    if draft.cursor.sees("WITH"):
        at = draft.cursor.place
        draft.cursor.expect("WITH", "TIES", why="WITH TIES lets in all that equal the k-th")
        draft.put("ties", "rank", at)


def read_origin(draft: StatementDraft) -> None:
    """``ORIGIN '2024-01-01'`` or ``ORIGIN -5``."""
    cursor = draft.cursor
    draft.once("origin", "ORIGIN")
    cursor.expect("ORIGIN")
    at, token = cursor.place, cursor.peek()
    if token is not None and token.kind == "string" and token.text[0] in "'\"":
        cursor.at += 1
        draft.put("origin", unquote(token.text), at)
    else:
        hint = "write ORIGIN '2024-01-01' for a time, ORIGIN 100 for a sequence number"
        draft.put("origin", cursor.integer("the origin of the windows", hint), at)


def read_full(draft: StatementDraft) -> None:
    """``FULL WINDOWS ONLY``."""
    at = draft.once("full_only", "FULL WINDOWS ONLY")
    draft.cursor.expect("FULL", "WINDOWS", "ONLY", why="FULL WINDOWS ONLY leaves out windows that begin too early")
    draft.put("full_only", True, at)


def direction(cursor: Cursor, *, default: str) -> str:
    """``ASC`` or ``DESC``, or what holds without them."""
    if cursor.sees("NULLS") or (cursor.sees("ASC", "NULLS") or cursor.sees("DESC", "NULLS")):
        cursor.at += 0 if cursor.sees("NULLS") else 1
        raise cursor.fail("rows without a score are never ranked, first or last", "leave NULLS FIRST or NULLS LAST out")
    if cursor.take("ASC"):
        return "asc"
    return "desc" if cursor.take("DESC") else default
