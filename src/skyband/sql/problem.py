"""What is wrong with a text: said with line and column, and pointed at under the line itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from skyband.errors import InvalidSQLError

_LINE_END = re.compile(r"\r\n|\n|\r")
_SHOWN = 100  # characters of a line around the place; a longer line says no more
_ELLIPSIS = "..."


def problem(text: str, at: int, what: str, hint: str = "") -> InvalidSQLError:
    r"""The error that points at offset `at` of `text`: what is wrong there, the line, a caret, and what helps.

    >>> print(problem("TOPK price,\nten OVER 5 ROWS", 12, "expected k, got 'ten'", "write a whole number"))
    line 2, column 1: expected k, got 'ten'
      ten OVER 5 ROWS
      ^
    hint: write a whole number
    """
    line, column, shown = place(text, at)
    before = column - 1
    if len(shown) > _SHOWN:
        first = max(0, min(before - _SHOWN // 2, len(shown) - _SHOWN))
        head = _ELLIPSIS if first else ""
        tail = _ELLIPSIS if first + _SHOWN < len(shown) else ""
        shown, before = head + shown[first : first + _SHOWN] + tail, before - first + len(head)
    # Tabs stay tabs in front of the caret, so that it stands where the eye expects it.
    indent = "".join("\t" if letter == "\t" else " " for letter in shown[:before])
    message = f"line {line}, column {column}: {what}\n  {_visible(shown)}\n  {indent}^"
    error = InvalidSQLError(f"{message}\nhint: {hint}" if hint else message)
    error.line, error.column, error.hint = line, column, hint
    return error


def place(text: str, at: int) -> tuple[int, int, str]:
    """Line and column of an offset, both from 1, and the whole line it is in."""
    line, begin = 1, 0
    for end in _LINE_END.finditer(text):
        if end.end() > at:
            return line, at - begin + 1, text[begin : end.start()]
        line, begin = line + 1, end.end()
    return line, at - begin + 1, text[begin:]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"did you mean WHERE?"``, or nothing where nothing comes close."""
    near = get_close_matches(word.upper(), list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def _visible(line: str) -> str:
    """The line with what a terminal would act upon made harmless, a character for a character."""
    return "".join(letter if letter.isprintable() or letter == "\t" else "\N{REPLACEMENT CHARACTER}" for letter in line)
