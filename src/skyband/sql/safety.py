"""What an expression reaches for besides its row (tables, files, Java), told by its tokens; and comments in a text."""

from __future__ import annotations

import re

from skyband.sql.lexer import Token, tokenize

__all__ = ["beyond_the_row", "comment_in"]

_MARKS = re.compile(r"--|/\*|\*/|#")  # the last is one of sqlglot's and, outside of quotes, none of Spark's
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_UNSURE = re.compile(r"\\|\$|[rR]['\"]")  # where a quote ends is then a matter of escapes, tags or settings

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


def comment_in(text: str) -> str | None:
    r"""The first mark of a comment outside of quotes; None if there is none.

    Where it is not plain which quotes are closed (escapes, raw texts), marks inside them count, too.

    >>> comment_in("price -- cheap"), comment_in("name = 'a--b'"), comment_in(r"name = 'a\'--b'")
    ('--', None, '--')
    """
    found = _MARKS.search(text if _UNSURE.search(text) else _QUOTED.sub("''", text))
    return None if found is None else found[0]
