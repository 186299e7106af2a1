"""Expressions cut out of a statement by the places of its tokens, kept to the letter, and checked by a parser.

Where an expression ends is a matter of tokens alone: at a closing bracket, a comma or a clause's keyword outside all
brackets. A keyword counts only where an operand has just ended. After an operator, or at the very beginning, the same
word is a column: ``WHERE origin > every`` needs no backticks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from skyband.sql.lexer import Token, did_you_mean, parser, problem, raw_tokens, unquote

_GIVEN = "if Spark knows better, write it as SQL '...': such a text is taken unchecked"
_CLOSES = {"(": ")", "[": "]", "{": "}"}
# Words after which something must follow: an operand has not ended with them.
_OPEN_WORDS = frozenset(
    {"AND", "BETWEEN", "CASE", "DISTINCT", "DIV", "ELSE", "ILIKE", "IN", "IS", "LIKE", "NOT", "OR", "REGEXP", "RLIKE"}
    | {"THEN", "WHEN"}
)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression as it was written, and the tokens it is made of."""

    text: str
    tokens: tuple[Token, ...]
    given: bool = False  # as SQL '…': taken to the letter, not checked

    @property
    def start(self) -> int:
        """Where in the statement it begins."""
        return self.tokens[0].start


def cut(
    source: str, tokens: Sequence[Token], first: int, stops: Collection[str], *, what: str, hint: str = ""
) -> Expression:
    """The expression that begins with token number `first`, checked; `what` names it in messages, `hint` helps."""
    last = _end(source, tokens, first, stops)
    inside = tuple(tokens[first:last])
    if not inside:
        at, found = _shown(source, tokens, first)
        raise problem(source, at, f"expected {what}, got {found}", hint)
    if len(inside) == 2 and inside[0].keyword == "SQL" and inside[1].text.startswith("'"):
        return Expression(unquote(inside[1].text), inside, given=True)
    text = source[inside[0].start : inside[-1].end]
    _check(source, text, inside, stops, what, hint or _GIVEN)
    return Expression(text, inside)


def _end(source: str, tokens: Sequence[Token], first: int, stops: Collection[str]) -> int:
    """The number of the first token that is no longer part of the expression."""
    open_brackets: list[Token] = []
    for at in range(first, len(tokens)):
        token = tokens[at]
        if not open_brackets and (token.symbol in (")", "]", "}", ",") or _is_stop(tokens, first, at, stops)):
            return at
        if token.symbol in _CLOSES:
            open_brackets.append(token)
        elif token.symbol in _CLOSES.values() and token.symbol:
            opener = open_brackets.pop()
            if _CLOSES[opener.text] != token.text:
                message = f"{token.text!r} cannot close {opener.text!r}"
                raise problem(source, token.start, message, f"{_CLOSES[opener.text]!r} would")
    if open_brackets:
        opener = open_brackets[-1]
        raise problem(source, opener.start, f"{opener.text!r} is never closed", f"{_CLOSES[opener.text]!r} closes it")
    return len(tokens)


def _is_stop(tokens: Sequence[Token], first: int, at: int, stops: Collection[str]) -> bool:
    token, following = tokens[at], tokens[at + 1 : at + 3]
    if token.symbol == "[":  # CQL writes [PARTITION BY a]; an index never begins so
        return [word.keyword for word in following] == ["PARTITION", "BY"]
    if token.keyword not in stops or at == first or not _ends_operand(tokens[at - 1]):
        return False
    # OVER ( belongs to a window function; a window of ours begins with a number.
    return token.keyword != "OVER" or not following or following[0].symbol != "("


def _ends_operand(token: Token) -> bool:
    if token.kind == "symbol":
        return token.text in (")", "]", "}", "?")
    return token.keyword not in _OPEN_WORDS


def _check(source: str, text: str, inside: tuple[Token, ...], stops: Collection[str], what: str, hint: str) -> None:
    """Let sqlglot judge the expression; its errors are turned into ours.

    What is nested too deeply for its parser, about fifty brackets, is taken unchecked: the brackets match, that has
    been seen, and Spark parses it again anyway.
    """
    from sqlglot import exp
    from sqlglot.errors import ParseError

    try:
        tokens = raw_tokens(text)
        found = parser().parse_into(exp.Condition, tokens, text)
    except RecursionError:
        return
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        ends = {(token.line, token.col): token.start for token in tokens}
        at = inside[0].start + ends.get((detail.get("line", 0), detail.get("col", 0)), 0)
        raise _explained(source, inside, at, str(detail.get("description", "")), stops, what, hint) from None
    except Exception:  # a parser that is out of its depth must not look like ours being so
        raise problem(source, inside[0].start, f"{what} cannot be read as SQL", hint) from None
    if len(found) != 1 or found[0] is None or found[0].is_star or isinstance(found[0], exp.Command):
        raise problem(source, inside[0].start, f"{what} must be one value computed from a row", "name a column")


def _explained(
    source: str, inside: tuple[Token, ...], at: int, description: str, stops: Collection[str], what: str, hint: str
) -> Exception:
    place = next((number for number, token in enumerate(inside) if token.end > at), len(inside) - 1)
    token, before = inside[place], inside[place - 1] if place else None
    for word in (token, before):
        if word is not None and word.keyword in stops:
            message = f"{what} is not complete before the keyword {word.keyword}"
            return problem(source, word.start, message, f"a column of that name is written `{word.text}`")
    if description.startswith("Required keyword"):
        return problem(source, token.start, f"{what} is not complete: something is missing next to {token.text!r}")
    if description.startswith("Expect"):
        wanted = description.replace("Expecting", "expected").replace("Expected", "expected")
        return problem(source, token.start, f"{what} is not complete: {wanted}, near {token.text!r}")
    near = did_you_mean(token.text, stops) if token.kind == "word" else ""
    return problem(source, token.start, f"{token.text!r} was not expected here, in {what}", near or hint)


def _shown(source: str, tokens: Sequence[Token], at: int) -> tuple[int, str]:
    if at < len(tokens):
        return tokens[at].start, repr(tokens[at].text)
    return (tokens[-1].end if tokens else len(source)), "the end of the statement"
