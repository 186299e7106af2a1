"""The position of the parser in a statement: methods that consume tokens, and errors for unexpected ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from skyband.errors import InvalidSQLError
from skyband.sql.expression import Expression, cut
from skyband.sql.lexer import Token, did_you_mean, problem, unquote


class Cursor:
    """The tokens of one statement, and the index of the current one."""

    def __init__(self, source: str, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """Return the current token, or the one `ahead` of it; None after the end."""
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    @property
    def place(self) -> int:
        """The offset of the current token in the text; after the last token, the end of that token."""
        token = self.peek()
        return token.start if token else (self.tokens[-1].end if self.tokens else len(self.source))

    def sees(self, *words: str) -> bool:
        """Whether these keywords come next, in this order."""
        coming = self.tokens[self.at : self.at + len(words)]
        return [token.keyword for token in coming] == list(words)

    def sees_symbol(self, symbol: str, ahead: int = 0) -> bool:
        """Whether this bracket or operator comes next."""
        token = self.peek(ahead)
        return token is not None and token.symbol == symbol

    def take(self, *words: str) -> bool:
        """Consume these keywords if they come next."""
        found = self.sees(*words)
        self.at += len(words) if found else 0
        return found

    def take_symbol(self, symbol: str) -> bool:
        """Consume this bracket or operator if it comes next."""
        found = self.sees_symbol(symbol)
        self.at += 1 if found else 0
        return found

    def expect(self, *words: str, why: str = "") -> None:
        """Consume these keywords, or raise if one is missing."""
        for word in words:
            if not self.take(word):
                raise self.unexpected(word, why, known=(word,))

    def expect_symbol(self, symbol: str, why: str = "") -> None:
        """Consume this bracket or operator, or raise if it is missing."""
        if not self.take_symbol(symbol):
            raise self.unexpected(repr(symbol), why)

    def expression(self, stops: Collection[str], what: str, hint: str = "") -> Expression:
        """Consume an expression; `what` is its name in errors, `hint` is shown if it is not valid."""
        found = cut(self.source, self.tokens, self.at, stops, what=what, hint=hint)
        self.at += len(found.tokens)
        return found

    def expressions(self, stops: Collection[str], what: str) -> list[Expression]:
        """Consume expressions separated by commas."""
        found = [self.expression(stops, what)]
        while self.take_symbol(","):
            found.append(self.expression(stops, what))
        return found

    def integer(self, what: str, hint: str = "") -> int:
        """Consume an integer with an optional minus sign."""
        negative = self.sees_symbol("-")
        token = self.peek(1 if negative else 0)
        if token is None or not (token.text.isascii() and token.text.isdigit()):
            raise self.unexpected(what, hint)
        if len(token.text) > 4000:
            raise self.fail(f"{what} must have at most 4000 digits, got {len(token.text)}", hint)
        self.at += 2 if negative else 1
        return -int(token.text) if negative else int(token.text)

    def number(self, what: str, hint: str = "") -> float:
        """Consume a number with an optional minus sign."""
        sign = -1 if self.take_symbol("-") else 1
        token = self.peek()
        try:
            found = sign * float("" if token is None else token.text)
        except ValueError:
            raise self.unexpected(what, hint) from None
        self.at += 1
        return found

    def hyphenated(self, clause: str, words: Iterable[str]) -> str:
        """Consume a word with hyphens, or a text in quotes; `words` are shown if there is neither."""
        token = self.peek()
        if token is None or token.kind not in ("word", "string"):
            raise self.unexpected(f"a word after {clause}", f"one of {', '.join(words).upper()}")
        self.at += 1
        if token.kind == "string":
            return unquote(token.text)
        found = token.text
        while self.sees_symbol("-") and (part := self.peek(1)) is not None and part.kind == "word":
            found += f"-{part.text}"
            self.at += 2
        return found.lower()

    def path(self, what: str, hint: str = "") -> str:
        """Consume a dotted name, plain or in backticks, and return it as written."""
        first = self.peek()
        if first is None or first.kind not in ("word", "name"):
            raise self.unexpected(what, hint)
        last = first
        self.at += 1
        while self.sees_symbol("."):
            part = self.peek(1)
            if part is None or part.kind not in ("word", "name"):
                self.at += 1
                raise self.unexpected(f"the rest of {what}", hint)
            last = part
            self.at += 2
        return self.source[first.start : last.end]

    def unexpected(self, wanted: str, hint: str = "", *, known: Collection[str] = ()) -> InvalidSQLError:
        """Return the error for the current token, where `wanted` was expected; `known` keywords may be suggested."""
        token = self.peek()
        found = "the end of the statement" if token is None else repr(token.text)
        near = did_you_mean(token.text, known) if token is not None and token.kind == "word" else ""
        return self.fail(f"expected {wanted}, got {found}", near or hint)

    def fail(self, what: str, hint: str = "", *, at: int | None = None) -> InvalidSQLError:
        """Return the error at the current token, or at offset `at`."""
        return problem(self.source, self.place if at is None else at, what, hint)


def spelled_name(token: Token) -> str:
    """Return the name in a word, a word in backticks or a quoted text."""
    if token.kind == "name":
        return token.text[1:-1].replace("``", "`")
    return unquote(token.text) if token.kind == "string" else token.text


def one_of(words: Sequence[str]) -> str:
    """``A, B or C``."""
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
