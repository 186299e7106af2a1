r"""Text in single quotes on one line: ``'it\'s\n'``. Any text can be written so and read back, whatever is in it."""

from __future__ import annotations

import re

_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\\": "\\", "'": "'"}
_MEANT = {"n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


def quote(text: str) -> str:
    r"""Write `text` as a literal of printable characters.

    >>> print(quote("it's\n"))
    'it\'s\n'
    """
    return f"'{''.join(map(_escaped, text))}'"


def unquote(literal: str) -> str:
    r"""The text a literal in single or double quotes stands for.

    >>> unquote(quote("it's\n")) == "it's\n"
    True
    """
    return _ESCAPE.sub(_meant, literal[1:-1])


def _escaped(letter: str) -> str:
    if letter in _SHORT:
        return "\\" + _SHORT[letter]
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def _meant(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) == 1:
        return _MEANT.get(code, code)
    number = int(code[1:], 16)
    return chr(number) if number <= 0x10FFFF else escape[0]
