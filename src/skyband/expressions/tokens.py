"""The tokens of an expression, as Spark's lexer finds them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skyband.expressions.failures import InvalidExpressionError

__all__ = ["Lexeme", "tokenize"]

_PATTERN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*(?!\+).*?\*/)
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYFD])?(?![A-Za-z0-9_]))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<symbol><=>|::|\|\||<>|!=|==|<=|>=|[-+*/%=<>!(),.])""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPE = r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[01][0-7]{2}|.)"
_LETTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A piece of the text. `text` is upper case for words, and the content for strings and quoted names."""

    kind: str
    text: str
    written: str
    start: int


def tokenize(text: str) -> list[Lexeme]:
    r"""Split `text` into tokens; the last one is of kind "end".

    >>> [token.text for token in tokenize("a <=> 'it\\'s' -- equal")]
    ['A', '<=>', "it's", '']
    """
    found, at = [], 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            raise InvalidExpressionError(
                f"expression {text!r} has an unexpected character {text[at]!r} at position {at + 1}. "
                "It was not compiled."
            )
        kind, piece = str(match.lastgroup), match.group()
        if kind != "space":
            found.append(Lexeme(kind, _content(kind, piece), piece, at))
        at = match.end()
    return [*found, Lexeme("end", "", "", at)]


def _content(kind: str, piece: str) -> str:
    if kind == "raw":
        return piece[2:-1]
    if kind == "quoted":
        return piece[1:-1].replace("``", "`")
    if kind == "string":
        return re.sub(f"{_ESCAPE}|{piece[0] * 2}", _unescaped, piece[1:-1], flags=re.DOTALL)
    return piece.upper() if kind == "word" else piece


def _unescaped(match: re.Match[str]) -> str:
    letter = match.group(1)
    if letter is None:  # a doubled quote
        return match.group()[0]
    if len(letter) > 1:
        return chr(int(letter[1:], 16)) if letter[0] in "uU" else chr(int(letter, 8))
    return _LETTERS.get(letter, letter)
