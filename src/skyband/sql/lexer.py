"""Text into tokens that know their place, by sqlglot's tokenizer for Spark SQL.

sqlglot joins some words (``ORDER BY``) and takes some apart (``10L``). Here a token is a stretch of the text without
space around it: words are single, a literal is one token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from skyband.sql.problem import problem

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.parser import Parser
    from sqlglot.tokenizer_core import Token as RawToken
    from sqlglot.tokens import Tokenizer

Kind = Literal["word", "name", "string", "number", "symbol"]

_WORD = re.compile(r"\S+")
_STRINGS = ("STRING", "_STRING")
# In the order of the tokenizer: a quote in a comment opens nothing, nor does a comment in quotes.
_CLOSED = re.compile(r"--[^\r\n]*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|[^'\"`/-]+|[/-](?!\*)", re.DOTALL)
_OPENERS = {"'": "a text", '"': "a text", "`": "a quoted name", "/": "a comment"}


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of the text: ``text[start:end]``."""

    kind: Kind  # a name is a word in backticks; it is never a keyword
    text: str
    start: int
    end: int

    @property
    def keyword(self) -> str:
        """The word in capitals; nothing for what can be no keyword."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def symbol(self) -> str:
        """The operator or bracket; nothing for other tokens."""
        return self.text if self.kind == "symbol" else ""


@cache
def spark() -> Dialect:
    """Spark SQL, as sqlglot has it."""
    from sqlglot.dialects.spark import Spark

    return Spark()


@cache
def _tokenizer() -> type[Tokenizer]:
    class Plain(type(spark()).tokenizer_class):  # type: ignore[misc]  # a class chosen at run time
        # With sqlglot's own set a statement that begins with SHOW or EXECUTE is one token to its end.
        COMMANDS: ClassVar[set[Any]] = set()

    return Plain


@cache
def _parser() -> type[Parser]:
    class Plain(type(spark()).parser_class):  # type: ignore[misc]  # a class chosen at run time
        # With it, what begins with IF and cannot be parsed is not refused but logged and taken for a command.
        NO_PAREN_IF_COMMANDS: ClassVar[bool] = False

    return Plain


def parser() -> Parser:
    """A parser of Spark SQL."""
    return _parser()(dialect=spark())


def raw_tokens(text: str) -> list[RawToken]:
    """The tokens as sqlglot has them, for its parser."""
    return _tokenizer()(dialect=spark()).tokenize(text)


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`; quotes and comments that are never closed are refused, with their place."""
    from sqlglot.errors import TokenError

    try:
        raw = raw_tokens(text)
    except TokenError:
        raise _unclosed(text) from None
    found: list[Token] = []
    for token in raw:
        start, end = token.start, token.end + 1
        if found and start < found[-1].end:
            continue  # 10L is three tokens in one place; the first has it all
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
            what = _OPENERS.get(text[at], "something")
            return problem(text, at, f"{what} begins here and is never closed", f"it is closed by {_closing(text[at])}")
        at = end
    # All is closed: what else sqlglot refuses is a literal whose digits are none, x'ZZ'.
    literal = re.search(r"\b[xXbB](['\"])(?=[^'\"]*[^0-9a-fA-F'\"])|\b[bB](['\"])", text)
    return problem(text, literal.start() if literal else 0, "this cannot be read as SQL", "look at the literals")


def _comment_end(text: str, at: int) -> int | None:
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[at:]):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return at + mark.end()
    return None


def _closing(opener: str) -> str:
    return "*/" if opener == "/" else opener
