"""Extract expressions from a statement unchanged, and validate them with a parser.

An expression ends at a closing bracket, a comma or a clause keyword outside all brackets. A keyword ends it only after
an operand. After an operator, or at the beginning, the same word is a column: ``WHERE origin > every`` needs no
backticks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from skyband.sql.lexer import Token, did_you_mean, parser, problem, raw_tokens, unquote

_GIVEN = "if Spark accepts it, write it as SQL '...', which is not checked"
_CLOSES = {"(": ")", "[": "]", "{": "}"}
# Words that need a following operand.
_OPEN_WORDS = frozenset(
    {"AND", "BETWEEN", "CASE", "DISTINCT", "DIV", "ELSE", "ILIKE", "IN", "IS", "LIKE", "NOT", "OR", "REGEXP", "RLIKE"}
    | {"THEN", "WHEN"}
)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression as written, and its tokens."""

    text: str
    tokens: tuple[Token, ...]
    given: bool = False  # written as SQL '…': not checked

    @property
    def start(self) -> int:
        """Its offset in the statement."""
        return self.tokens[0].start


def cut(
    source: str, tokens: Sequence[Token], first: int, stops: Collection[str], *, what: str, hint: str = ""
) -> Expression:
    """Return the validated expression that begins at token `first`; `what` is its name in errors."""
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
    """Return the index of the first token after the expression."""
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
                message = f"{token.text!r} does not match {opener.text!r}"
                raise problem(source, token.start, message, f"close it with {_CLOSES[opener.text]!r}")
    if open_brackets:
        opener = open_brackets[-1]
        raise problem(source, opener.start, f"{opener.text!r} is not closed", f"close it with {_CLOSES[opener.text]!r}")
    return len(tokens)


def comma_follows(tokens: Sequence[Token], first: int, stops: Collection[str]) -> bool:
    """Whether a comma outside brackets comes before the next keyword in `stops`."""
    depth = 0
    for at in range(first, len(tokens)):
        symbol = tokens[at].symbol
        if not depth and (symbol == "," or _is_stop(tokens, first, at, stops)):
            return symbol == ","
        depth += (symbol in _CLOSES) - (bool(symbol) and symbol in _CLOSES.values())
    return False


def _is_stop(tokens: Sequence[Token], first: int, at: int, stops: Collection[str]) -> bool:
    token, following = tokens[at], tokens[at + 1 : at + 3]
    if token.symbol == "[":  # CQL's [PARTITION BY a]; an index never begins like this
        return [word.keyword for word in following] == ["PARTITION", "BY"]
    if token.keyword not in stops or at == first or not _ends_operand(tokens[at - 1]):
        return False
    # OVER ( belongs to a window function; our OVER clause begins with a number.
    return token.keyword != "OVER" or not following or following[0].symbol != "("


def _ends_operand(token: Token) -> bool:
    if token.kind == "symbol":
        return token.text in (")", "]", "}", "?")
    return token.keyword not in _OPEN_WORDS


def _check(source: str, text: str, inside: tuple[Token, ...], stops: Collection[str], what: str, hint: str) -> None:
    """Validate the expression with sqlglot, and convert its errors.

    An expression that is nested too deeply for its parser, about fifty brackets, is not checked further: its brackets
    match, and Spark parses it again.
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
    except Exception:  # internal errors of sqlglot must not reach the user
        raise problem(source, inside[0].start, f"{what} is not valid SQL", hint) from None
    if len(found) != 1 or found[0] is None or found[0].is_star or isinstance(found[0], exp.Command):
        raise problem(
            source,
            inside[0].start,
            f"{what} must be a single value computed from a row",
            "write a column or an expression",
        )


def _explained(
    source: str, inside: tuple[Token, ...], at: int, description: str, stops: Collection[str], what: str, hint: str
) -> Exception:
    place = next((number for number, token in enumerate(inside) if token.end > at), len(inside) - 1)
    token, before = inside[place], inside[place - 1] if place else None
    for word in (token, before):
        if word is not None and word.keyword in stops:
            message = f"{what} is incomplete before the keyword {word.keyword}"
            return problem(source, word.start, message, f"write a column of that name as `{word.text}`")
    if description.startswith("Required keyword"):
        return problem(source, token.start, f"{what} is incomplete: an operand is missing next to {token.text!r}")
    if description.startswith("Expect"):
        wanted = description.replace("Expecting", "expected").replace("Expected", "expected")
        return problem(source, token.start, f"{what} is incomplete: {wanted}, near {token.text!r}")
    near = did_you_mean(token.text, stops) if token.kind == "word" else ""
    return problem(source, token.start, f"unexpected {token.text!r} in {what}", near or hint)


def _shown(source: str, tokens: Sequence[Token], at: int) -> tuple[int, str]:
    if at < len(tokens):
        return tokens[at].start, repr(tokens[at].text)
    return (tokens[-1].end if tokens else len(source)), "the end of the statement"
