"""What an expression reaches for besides its row: tables, files, Java. Told by its tokens, before Spark sees it."""

from __future__ import annotations

from skyband.sqltext.tokens import Token, tokenize

__all__ = ["beyond_the_row"]

_CALLS_JAVA = {"REFLECT", "TRY_REFLECT", "JAVA_METHOD"}
_BY_ANY_NAME = {"IDENTIFIER"}  # IDENTIFIER('ref' || 'lect')(…) would call what is spelled nowhere
_BEGINS_A_QUERY = {"FROM", "TABLE", "VALUES", "WITH"}  # after a bracket; elsewhere FROM is one of EXTRACT
_OF_QUERIES = {"SELECT", "USING"}


def beyond_the_row(expression: str) -> str | None:
    """What in the expression reaches beyond the row; None if nothing does.

    >>> beyond_the_row("price * extract(HOUR FROM at)"), beyond_the_row("reflect")
    (None, None)
    >>> beyond_the_row("java_method('java.lang.System', 'exit')"), beyond_the_row("(SELECT 1 FROM text.`/etc/passwd`)")
    ('java_method', 'SELECT')
    """
    tokens = tokenize(expression)
    for at, token in enumerate(tokens):
        if token.keyword in _OF_QUERIES:
            return token.text
        if token.keyword in _BEGINS_A_QUERY and at and tokens[at - 1].symbol == "(":
            return token.text
        is_called = at + 1 < len(tokens) and tokens[at + 1].symbol == "("
        if is_called and _called(token) in _CALLS_JAVA | _BY_ANY_NAME:
            return token.text
    return None


def _called(token: Token) -> str:
    """The name of a function, in capitals; it may stand in backticks."""
    return token.text.strip("`").upper() if token.kind in ("word", "name") else ""
