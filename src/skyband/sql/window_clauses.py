"""Clauses of windows without a lattice and of ranking rules, which the short dialect and CQL share."""

from __future__ import annotations

from collections.abc import Callable, Collection

from skyband.sql.intervals import readable, span
from skyband.sql.lexer import unquote
from skyband.sql.statement import StatementDraft

__all__ = ["KINDS", "read_distinct", "read_half_life", "read_session", "settle_lengths"]


def read_session(draft: StatementDraft, stops: Collection[str]) -> None:
    """Parse ``SESSION gap [UP TO max_length]``."""
    cursor = draft.cursor
    cursor.expect("SESSION")
    at = cursor.place
    draft.put("gap", span(cursor, "the gap of the sessions", {*stops, "UP"}), at)
    if cursor.sees("UP"):
        cursor.expect("UP", "TO", why="as in SESSION 30 MINUTES UP TO 8 HOURS")
        at = cursor.place
        draft.put("max_length", span(cursor, "the maximal length of the sessions", stops), at)


def _read_cumulative(draft: StatementDraft) -> None:
    at = draft.once("cumulative", "CUMULATIVE")
    draft.cursor.expect("CUMULATIVE")
    draft.put("cumulative", True, at)


def _read_zone(draft: StatementDraft) -> None:
    cursor, why = draft.cursor, "as in 1 DAY AT TIME ZONE 'Europe/Paris'"
    draft.once("zone", "AT TIME ZONE")
    cursor.expect("AT", "TIME", "ZONE", why=why)
    at, token = cursor.place, cursor.peek()
    if token is None or token.kind != "string" or token.text[0] not in "'\"":
        raise cursor.unexpected("the name of a time zone in quotes", why)
    cursor.at += 1
    draft.put("zone", unquote(token.text), at)


def _read_week(draft: StatementDraft) -> None:
    cursor, why = draft.cursor, "as in WEEK START SUNDAY"
    draft.once("week_start", "WEEK START")
    cursor.expect("WEEK", "START", why=why)
    at, token = cursor.place, cursor.peek()
    if token is None or token.kind != "word":
        raise cursor.unexpected("a day of the week", why)
    cursor.at += 1
    draft.put("week_start", token.text.lower(), at)


KINDS: dict[str, Callable[[StatementDraft], None]] = {
    "CUMULATIVE": _read_cumulative,
    "AT": _read_zone,
    "WEEK": _read_week,
}


def read_distinct(draft: StatementDraft, stops: Collection[str]) -> None:
    """Parse ``DISTINCT entity``."""
    draft.once("distinct", "DISTINCT")
    draft.cursor.expect("DISTINCT")
    draft.fields["distinct"] = draft.cursor.expression(stops, "the entity after DISTINCT").text


def read_half_life(draft: StatementDraft, stops: Collection[str]) -> None:
    """Parse ``HALF_LIFE length``."""
    draft.once("half_life", "HALF_LIFE")
    draft.cursor.expect("HALF_LIFE")
    at = draft.cursor.place
    draft.put("half_life", span(draft.cursor, "the half-life of scores", stops), at)


def settle_lengths(draft: StatementDraft) -> None:
    """Check the lengths of windows without a time zone, which cannot be those of a calendar."""
    if "zone" in draft.fields:
        return
    for name in ("size", "slide", "gap", "max_length"):
        if isinstance(text := draft.fields.get(name), str):
            draft.fields[name] = readable(draft.cursor, text, f"the {name} of the window", draft.places[name])
