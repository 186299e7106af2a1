"""Durations and numbers of rows in SQL: ``1 HOUR 30 MINUTES``, ``INTERVAL '10' MINUTES``, ``100 ROWS``."""

from __future__ import annotations

from collections.abc import Collection

from skyband.durations import format_duration, is_iso_duration, parse_duration
from skyband.errors import InvalidQueryError
from skyband.sql.cursor import Cursor
from skyband.sql.lexer import unquote

_EXAMPLES = "write 10 MINUTES, 1 HOUR 30 MINUTES or 500 ROWS"
_CALENDAR = ("WEEK", "MONTH", "QUARTER", "YEAR")  # of one length only with a time zone; days are parsed as durations
_INTERVALS = "write INTERVAL '10' MINUTES"


def span(cursor: Cursor, what: str, stops: Collection[str]) -> str | int:
    """Parse a duration (returned as text) or a number of rows."""
    token = cursor.peek()
    if token is not None and token.text.isascii() and token.text.isdigit():
        unit = cursor.peek(1)
        if unit is not None and unit.keyword in ("ROW", "ROWS"):
            rows = cursor.integer(what)
            cursor.at += 1
            return rows
    return duration(cursor, what, stops)


def duration(cursor: Cursor, what: str, stops: Collection[str]) -> str:
    """Parse a duration; return it as text for `TopK`."""
    token = cursor.peek()
    at = cursor.place
    if cursor.sees("INTERVAL"):
        return interval(cursor, what)
    if token is not None and token.kind == "string" and token.text[0] in "'\"":
        cursor.at += 1
        return _readable(cursor, unquote(token.text), what, at)
    if token is not None and token.kind == "word" and is_iso_duration(token.text):
        cursor.at += 1
        return _readable(cursor, token.text, what, at)
    if token is None or (token.kind != "number" and token.symbol not in ("-", "+")):
        raise cursor.unexpected(what, _EXAMPLES)
    end = token.end
    while (token := cursor.peek()) is not None and (token.kind == "number" or token.symbol in ("-", "+")):
        cursor.at += 1
        end = token.end
        unit = cursor.peek()
        if not _is_number(token.text):
            continue  # 10MINUTES is one token; or a sign
        if unit is None or unit.kind != "word" or unit.keyword in stops:
            raise cursor.unexpected(f"a unit after {token.text}, such as MINUTES or ROWS", _EXAMPLES)
        cursor.at += 1
        end = unit.end
    return _readable(cursor, cursor.source[at:end], what, at)


def calendar_length(cursor: Cursor) -> str | None:
    """Parse a length on the calendar, such as ``1 MONTH``, and return it as text; None if there is none."""
    amount, unit, after = cursor.peek(), cursor.peek(1), cursor.peek(2)
    if amount is None or not (amount.text.isascii() and amount.text.isdigit()):
        return None
    if (
        unit is None
        or unit.keyword.removesuffix("S") not in _CALENDAR
        or (after is not None and after.kind == "number")
    ):
        return None
    cursor.at += 2
    return f"{amount.text} {unit.text.lower()}"


def readable(cursor: Cursor, text: str, what: str, at: int) -> str:
    """Return a duration in its usual form, or raise at its offset."""
    return _readable(cursor, text, what, at)


def interval(cursor: Cursor, what: str) -> str:
    """Parse an SQL interval: ``INTERVAL '10' MINUTES``, also without quotes."""
    at = cursor.place
    cursor.expect("INTERVAL", why=_INTERVALS)
    sign = "-" if cursor.take_symbol("-") else ""
    token = cursor.peek()
    if token is None or not (token.kind == "number" or (token.kind == "string" and token.text[0] in "'\"")):
        raise cursor.unexpected(f"the length of {what}", _INTERVALS)
    cursor.at += 1
    amount = (unquote(token.text) if token.kind == "string" else token.text).strip()
    unit = cursor.peek()
    if (to := cursor.peek(1)) is not None and to.keyword == "TO":
        raise cursor.fail(
            "an interval with two units (TO) is not supported", "use one unit, as in INTERVAL '90' MINUTES"
        )
    if _is_number(amount.lstrip("+-")):
        if unit is None or unit.kind != "word":
            raise cursor.unexpected("a unit such as MINUTES", _INTERVALS)
        cursor.at += 1
        amount = f"{amount} {unit.text}"
    minus_minus = sign and amount.startswith("-")
    return _readable(cursor, amount[1:] if minus_minus else sign + amount, what, at)


def is_unit(word: str) -> bool:
    """Whether the word is a unit of time.

    >>> is_unit("MINUTES"), is_unit("ORDER")
    (True, False)
    """
    try:
        parse_duration(f"1 {word}", field="length")
    except InvalidQueryError:
        return False
    return True


def _is_number(text: str) -> bool:
    whole, _, part = text.partition(".")
    return text.isascii() and whole.isdigit() and (not part or part.isdigit())


def _readable(cursor: Cursor, text: str, what: str, at: int) -> str:
    """Return the normalized duration, or raise at its offset."""
    try:
        ticks = parse_duration(text, field="length")
    except InvalidQueryError as error:
        reason = str(error).partition(" is not a duration: ")[2].partition(" Write '10 minutes'")[0] or str(error)
        raise cursor.fail(f"{what} is not a duration: {text!r}", reason, at=at) from None
    return f"{ticks} microseconds" if ticks < 0 else format_duration(ticks)  # a minus sign applies to one term only
