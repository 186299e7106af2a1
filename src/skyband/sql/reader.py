"""Split a text into statements, name them, and parse each in its dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from skyband.errors import InvalidQueryError
from skyband.queries import Query
from skyband.queries.workload import Workload
from skyband.sql import cql, flink, short
from skyband.sql.aggregation import read_list
from skyband.sql.cursor import Cursor, spelled_name
from skyband.sql.lexer import Token, place, problem, tokenize
from skyband.sql.statement import Statement, StatementDraft, read_k, read_ties
from skyband.sql.writer import DEFAULT_NAME

_NAMES = ("word", "name", "string")  # kinds of tokens that can name a query
_LIST_ENDS = frozenset({"FROM", "AS"})
_START = "a query begins with TOPK or SELECT, or with its name and a colon"


def sql(text: str) -> Query | Workload[Any]:
    """Parse SQL text into a query; several statements separated by ``;`` make a workload.

    There are three dialects: the short one (``TOPK``), CQL as in the papers on continuous queries (``SELECT TOP``), and
    Flink's Window Top-N. Expressions are kept as written. ``str`` of a query returns the short dialect, which can be
    parsed again. A name and a colon may precede the query. ``PROBABILITY`` and ``FREQUENCY`` make a query over an
    uncertain stream; an aggregate as the score ranks keys. A statement ends with ``;``, or where the next one begins
    with its name.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.sql("big: TOPK price * size, 10 BY symbol OVER 10 MINUTES EVERY 1 MINUTE")
    >>> query
    TopK(name='big', k=10, size='10 minutes', slide='1 minute', by='price * size', partition_by=('symbol',))
    >>> sb.sql(str(query)) == query
    True
    >>> len(sb.sql("TOPK price, 10 OVER 1 HOUR; TOPK price, 3 OVER 1 DAY EVERY 1 HOUR"))
    2
    >>> sb.sql("TOPK speed, 3 PROBABILITY confidence OVER 20 MINUTES FREQUENCY 2 MINUTES").probability
    'confidence'
    >>> sb.sql("TOPK count(*), 5 BY KEY page_id OVER 30 MINUTES EVERY 5 MINUTES")
    AggregateTopK(name='topk', k=5, size='30 minutes', slide='5 minutes', key='page_id', aggregate='count')
    """
    # Workload raises if they are of different families.
    queries: list[Any] = [statement.query for statement in parse(text)]
    if len(queries) > 1:
        return Workload(queries)
    query: Query = queries[0]
    return query


def parse(text: str, name: str | None = None) -> list[Statement]:
    """Parse all statements of `text`, at least one; `name` is the name of a query without a name in the text.

    If there are several statements, those without a name are numbered: ``topk1`` is the first of the text, and so on.

    >>> [statement.query.name for statement in parse("TOPK a, 1 OVER 5 ROWS; b: TOPK a, 2 OVER 5 ROWS", name="best")]
    ['best1', 'b']
    """
    if not isinstance(text, str):
        raise InvalidQueryError(f"a query must be text, got {text!r} of type {type(text).__name__}.")
    parts = list(_split(tokenize(text)))
    if not parts:
        raise problem(text, 0, "the text contains no statement", _START)
    cursors = [Cursor(text, part) for part in parts]
    labels = [_label(cursor) for cursor in cursors]
    _refuse_duplicates(cursors, labels)
    names = _names(labels, DEFAULT_NAME if name is None else name)
    return [
        _statement(cursor, called, named=label is not None)
        for cursor, called, label in zip(cursors, names, labels, strict=True)
    ]


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    """Split at semicolons, and before ``name: SELECT`` and ``name: TOPK``, as papers print several queries."""
    part: list[Token] = []
    for at, token in enumerate(tokens):
        if part and _begins_named(tokens[at : at + 3]):
            yield part
            part = []
        if token.symbol == ";":
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _begins_named(tokens: list[Token]) -> bool:
    """Whether these are a name, a colon and the first word of a statement."""
    return len(tokens) == 3 and tokens[0].kind in _NAMES and tokens[1].symbol == ":" and tokens[2].keyword in _READERS


def _label(cursor: Cursor) -> str | None:
    """Consume the name before the statement, if there is one."""
    token = cursor.peek()
    if token is None or not cursor.sees_symbol(":", 1) or token.kind not in _NAMES:
        return None
    called = spelled_name(token)
    if not called.strip():
        raise cursor.fail("the name of a query must not be empty")
    cursor.at += 2
    return called


def _refuse_duplicates(cursors: list[Cursor], labels: list[str | None]) -> None:
    seen: set[str] = set()
    for cursor, label in zip(cursors, labels, strict=True):
        if label is not None and label in seen:
            message = f"the name {label!r} is used by more than one query"
            raise cursor.fail(message, "give each query a different name", at=cursor.tokens[0].start)
        seen.update([] if label is None else [label])


def _names(labels: list[str | None], default: str) -> list[str]:
    if len(labels) == 1:
        return [labels[0] or default]
    taken = {label for label in labels if label is not None}
    names = []
    for number, label in enumerate(labels, 1):
        called = label
        while called is None or (label is None and called in taken):
            called, number = f"{default}{number}", number + 1  # noqa: PLW2901 - the next number that is free
        taken.add(called)
        names.append(called)
    return names


def _statement(cursor: Cursor, name: str, *, named: bool) -> Statement:
    first = cursor.tokens[0].start
    begin = cursor.peek()
    reader = _READERS.get(begin.keyword) if begin is not None else None
    if reader is None:
        if begin is not None and (following := cursor.peek(1)) is not None and following.keyword in _READERS:
            raise cursor.fail(f"a colon is missing between the name {begin.text!r} and {following.text}", _START)
        raise cursor.unexpected("TOPK or SELECT", _START, known=tuple(_READERS))
    draft = reader(cursor)
    draft.put("name", name, first)
    line, _, _ = place(cursor.source, first)
    return Statement(draft.query(), draft.spelling, named, line=line, **draft.beside)


def _read_select(cursor: Cursor) -> StatementDraft:
    """Parse a statement that begins with ``SELECT``; its source determines the dialect."""
    draft = StatementDraft(cursor, "cql")
    cursor.expect("SELECT")
    hyphen = _sees_hyphen(cursor)
    if cursor.take("TOP"):
        cursor.at += 1 if hyphen else 0
        read_k(draft, what="k after TOP")
        if cursor.sees("PERCENT"):
            raise cursor.fail("TOP with PERCENT is not supported", "give k as a number of objects, as in TOP 10")
        read_ties(draft)
    if not (hyphen and cursor.sees("FROM")):
        _read_columns(draft)
    cursor.expect("FROM")
    if cursor.sees_symbol("("):
        if "k" in draft.fields:
            raise cursor.fail(
                "TOP must read from a stream, not from a subquery", "as in SELECT TOP 10 * FROM trades [...]"
            )
        if draft.aggregation.selected is not None:
            raise cursor.fail(cql.COLUMNS, "write * and select columns from the answers", at=draft.places["selected"])
        draft.spelling = "flink"
        flink.read(draft)
    elif flink.sees_window_function(cursor):
        raise cursor.fail("a window function without a ranking is not supported", flink.SHAPE)
    else:
        cql.read(draft)
    return draft


def _sees_hyphen(cursor: Cursor) -> bool:
    """Whether ``TOP-3`` comes next, without spaces. The papers write it without ``*``."""
    word, sign, number = (cursor.peek(ahead) for ahead in range(3))
    if not cursor.sees("TOP") or word is None or sign is None or number is None or sign.symbol != "-":
        return False
    return word.end == sign.start and sign.end == number.start


def _read_columns(draft: StatementDraft) -> None:
    """Consume ``*``, or the list of a query over keys; raise at other lists."""
    cursor = draft.cursor
    if cursor.sees("DISTINCT"):
        raise cursor.fail("DISTINCT is not supported: each row is a separate object", "remove it")
    if cursor.sees("FROM") or cursor.peek() is None:
        raise cursor.unexpected("*", "answers contain whole rows: write SELECT *")
    if not cursor.take_symbol("*"):
        draft.places["selected"] = cursor.place
        draft.aggregation.selected = read_list(cursor, _LIST_ENDS)
        return
    if not (cursor.sees("FROM") or cursor.sees_symbol(",")):
        raise cursor.unexpected("FROM", known=("FROM",))
    if cursor.sees_symbol(",") and not _ranking_ahead(cursor):
        message = "nothing can follow *, because answers contain whole rows"
        raise cursor.fail(message, "compute further columns from the answers")


def _ranking_ahead(cursor: Cursor) -> bool:
    return cursor.sees_symbol("(", 2) and (token := cursor.peek(1)) is not None and token.keyword in flink.RANKINGS


_READERS: dict[str, Callable[[Cursor], StatementDraft]] = {"TOPK": short.read, "SELECT": _read_select}
