"""Flink's window functions: ``TABLE(HOP(TABLE trades, DESCRIPTOR(ts), slide, size, offset))`` and ``TUMBLE``.

They anchor the *starts* of windows at the offset, a `TopK` anchors their ends at its origin. Where the slide divides
the size both are the same; elsewhere the origin makes up for it.
"""

from __future__ import annotations

from skyband.durations import parse_duration
from skyband.sql.cursor import Cursor
from skyband.sql.intervals import interval
from skyband.sql.statement import StatementDraft

FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")

_ARGUMENTS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),  # the slide comes first
}
_REFUSED = {
    "CUMULATE": "windows of CUMULATE grow step by step; all windows of a query have one size",
    "SESSION": "windows of SESSION end with a pause, of any length; all windows of a query have one size",
}
_MEANING = {
    "DATA": "TABLE and a stream",
    "TIMECOL": "DESCRIPTOR and the column of event time",
    "SLIDE": "the slide as an INTERVAL",
    "SIZE": "the size as an INTERVAL",
    "OFFSET": "the offset as an INTERVAL",
}


def read_window(draft: StatementDraft) -> None:
    """The window function with its arguments, bare or in ``TABLE( )``."""
    cursor = draft.cursor
    wrapped = cursor.take("TABLE")
    if wrapped:
        cursor.expect_symbol("(")
    function = cursor.peek()
    name = function.keyword if function else ""
    if name in _REFUSED:
        raise cursor.fail(f"{name} cannot be read: {_REFUSED[name]}", "TUMBLE and HOP make windows of one size")
    if name not in _ARGUMENTS:
        hint = "" if wrapped else "write FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), slide, size))"
        raise cursor.unexpected("HOP or TUMBLE", hint, known=FUNCTIONS)
    cursor.at += 1
    given = _read_arguments(draft, name)
    if wrapped:
        cursor.expect_symbol(")", "TABLE( is still open")
    size = parse_duration(given["SIZE"], field="size")
    slide = parse_duration(given.get("SLIDE", given["SIZE"]), field="slide")
    draft.fields["size"] = given["SIZE"]
    draft.fields["slide"] = given.get("SLIDE")
    offset = parse_duration(given["OFFSET"], field="offset") if "OFFSET" in given else 0
    draft.fields["origin"] = offset + (size % slide if slide > 0 else 0)


def _read_arguments(draft: StatementDraft, name: str) -> dict[str, str]:
    cursor = draft.cursor
    order = _ARGUMENTS[name]
    shape = f"{name}(TABLE stream, DESCRIPTOR(time), {', '.join(word.lower() for word in order[2:-1])}[, offset])"
    cursor.expect_symbol("(", shape)
    given: dict[str, str] = {}
    by_name = cursor.sees_symbol("=>", 1)
    for place, positional in enumerate(order):
        if cursor.sees_symbol(")"):
            break
        if place:
            cursor.expect_symbol(",", shape)
        argument = _named_argument(cursor, order, given) if by_name else positional
        given[argument] = _value(draft, argument, shape)
    for argument in order[:-1]:
        if argument not in given:
            raise cursor.unexpected(_MEANING[argument], shape)
    cursor.expect_symbol(")", shape)
    return given


def _named_argument(cursor: Cursor, order: tuple[str, ...], given: dict[str, str]) -> str:
    token = cursor.peek()
    name = token.keyword if token else ""
    if name not in order:
        raise cursor.unexpected("an argument's name", f"the names are {', '.join(order)}", known=order)
    if name in given:
        raise cursor.fail(f"{name} is given twice", "each argument is given once")
    cursor.at += 1
    cursor.expect_symbol("=>")
    return name


def _value(draft: StatementDraft, argument: str, shape: str) -> str:
    cursor = draft.cursor
    if argument == "DATA":
        cursor.expect("TABLE", why=shape)
        stream = cursor.path("the name of a stream", shape)
        draft.beside["stream"] = stream
        return stream
    if argument == "TIMECOL":
        cursor.expect("DESCRIPTOR", why=shape)
        cursor.expect_symbol("(")
        time = cursor.path("the column of event time", shape)
        draft.beside["time"] = time
        cursor.expect_symbol(")", "one column has the event time")
        return time
    draft.places[{"OFFSET": "origin"}.get(argument, argument.lower())] = cursor.place
    if not cursor.sees("INTERVAL"):
        raise cursor.unexpected(_MEANING[argument], f"{shape}, where lengths are INTERVAL '10' MINUTES")
    return interval(cursor, f"the {argument.lower()}")
