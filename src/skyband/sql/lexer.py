"""Tokenize text with sqlglot's tokenizer for Spark SQL; literals; and errors with their location.

sqlglot joins some words (``ORDER BY``) and splits others (``10L``). Here every word and every literal is one token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from skyband.errors import InvalidSQLError

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.parser import Parser
    from sqlglot.tokenizer_core import Token as RawToken
    from sqlglot.tokens import Tokenizer


_LINE_END = re.compile(r"\r\n|\n|\r")
_SHOWN = 100  # characters of a line that are shown around the error
_ELLIPSIS = "..."
_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\\": "\\", "'": "'"}
_MEANT = {"n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
Kind = Literal["word", "name", "string", "number", "symbol"]
_WORD = re.compile(r"\S+")
_STRINGS = ("STRING", "_STRING")
# In the order of the tokenizer: quotes in comments and comments in quotes are ignored.
_CLOSED = re.compile(r"--[^\r\n]*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|[^'\"`/-]+|[/-](?!\*)", re.DOTALL)
_OPENERS = {"'": "a text", '"': "a text", "`": "a quoted name", "/": "a comment"}


def problem(text: str, at: int, what: str, hint: str = "") -> InvalidSQLError:
    r"""Return the error at offset `at` of `text`: the message, the line, a caret, and a hint.

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
    # Tabs before the caret are kept, so that it is below the right character.
    indent = "".join("\t" if letter == "\t" else " " for letter in shown[:before])
    message = f"line {line}, column {column}: {what}\n  {_visible(shown)}\n  {indent}^"
    error = InvalidSQLError(f"{message}\nhint: {hint}" if hint else message)
    error.line, error.column, error.hint = line, column, hint
    return error


def place(text: str, at: int) -> tuple[int, int, str]:
    """Return the line and the column of an offset, both from 1, and the text of the line."""
    line, begin = 1, 0
    for end in _LINE_END.finditer(text):
        if end.end() > at:
            return line, at - begin + 1, text[begin : end.start()]
        line, begin = line + 1, end.end()
    return line, at - begin + 1, text[begin:]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"did you mean WHERE?"``, or empty text if no keyword is similar."""
    near = get_close_matches(word.upper(), list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def _visible(line: str) -> str:
    """Return the line with each control character replaced by one printable character."""
    return "".join(letter if letter.isprintable() or letter == "\t" else "\N{REPLACEMENT CHARACTER}" for letter in line)


def quote(text: str) -> str:
    r"""Return `text` as a literal of printable characters on one line; `unquote` reverses it.

    >>> print(quote("it's\n"))
    'it\'s\n'
    """
    return f"'{''.join(map(_escaped, text))}'"


def unquote(literal: str) -> str:
    r"""Return the text of a literal in single or double quotes.

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


@dataclass(frozen=True, slots=True)
class Token:
    """A token: ``text[start:end]`` of the statement."""

    kind: Kind  # a name is a word in backticks, which is never a keyword
    text: str
    start: int
    end: int

    @property
    def keyword(self) -> str:
        """The word in capitals; empty for tokens that cannot be keywords."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def symbol(self) -> str:
        """The operator or bracket; empty for other tokens."""
        return self.text if self.kind == "symbol" else ""


@cache
def spark() -> Dialect:
    """Return sqlglot's dialect for Spark SQL."""
    from sqlglot.dialects.spark import Spark

    return Spark()


@cache
def _tokenizer() -> type[Tokenizer]:
    class Plain(type(spark()).tokenizer_class):  # type: ignore[misc]  # a class chosen at run time
        # With sqlglot's default, a statement that begins with SHOW or EXECUTE is a single token.
        COMMANDS: ClassVar[set[Any]] = set()

    return Plain


@cache
def _parser() -> type[Parser]:
    class Plain(type(spark()).parser_class):  # type: ignore[misc]  # a class chosen at run time
        # Otherwise, text that begins with IF and cannot be parsed is logged and accepted as a command.
        NO_PAREN_IF_COMMANDS: ClassVar[bool] = False

    return Plain


def parser() -> Parser:
    """Return a parser of Spark SQL."""
    return _parser()(dialect=spark())


def raw_tokens(text: str) -> list[RawToken]:
    """Return sqlglot's tokens, for its parser."""
    return _tokenizer()(dialect=spark()).tokenize(text)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text`; raise at quotes and comments that are not closed."""
    from sqlglot.errors import TokenError

    try:
        raw = raw_tokens(text)
    except TokenError:
        raise _unclosed(text) from None
    found: list[Token] = []
    for token in raw:
        start, end = token.start, token.end + 1
        if found and start < found[-1].end:
            continue  # 10L is three overlapping tokens; the first contains all of it
        kind = _kind(token.token_type.name, text[start:end])
        if kind == "word":
            places = [match.span() for match in _WORD.finditer(text, start, end)]
            found.extend(Token(kind, text[begin:stop], begin, stop) for begin, stop in places)
        else:
            found.append(Token(kind, text[start:end], start, end))
    return found


def _kind(name: str, text: str) -> Kind:
    if name == "IDENTIFIER":
        return "name"
    if name.endswith(_STRINGS):
        return "string"
    if name == "NUMBER" or "0" <= text[:1] <= "9":
        return "number"
    return "word" if text[:1] == "_" or text[:1].isalnum() or not text[:1].isascii() else "symbol"


def _unclosed(text: str) -> Exception:
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            end = _comment_end(text, at)
        else:
            closed = _CLOSED.match(text, at)
            end = closed.end() if closed else None
        if end is None:
            what = _OPENERS.get(text[at], "a token")
            return problem(text, at, f"{what} begins here and is not closed", f"close it with {_closing(text[at])}")
        at = end
    # Everything is closed: the only other error of sqlglot is a literal with wrong digits, x'ZZ'.
    literal = re.search(r"\b[xXbB](['\"])(?=[^'\"]*[^0-9a-fA-F'\"])|\b[bB](['\"])", text)
    return problem(
        text,
        literal.start() if literal else 0,
        "this is not valid SQL",
        "check the digits of x'...' and b'...' literals",
    )


def _comment_end(text: str, at: int) -> int | None:
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[at:]):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return at + mark.end()
    return None


def _closing(opener: str) -> str:
    return "*/" if opener == "/" else opener
