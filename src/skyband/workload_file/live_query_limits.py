"""Limits of queries that are added to a running job: size, unique name, expressions over the row only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skyband.errors import InvalidQueryError, UnknownNameError, UnsupportedError
from skyband.queries import Query
from skyband.queries.workload import Workload
from skyband.sql.safety import beyond_the_row, comment_in

__all__ = [
    "MOST_K",
    "MOST_QUERIES",
    "expressions_of",
    "known_stream",
    "read_query",
    "refuse_comments",
    "refuse_reaching_out",
    "refuse_unfit",
]

# Queries in the file are not limited.
MOST_K = 100_000
MOST_QUERIES = 10_000
_IN_SQL = (
    *("by", "then_by", "distinct", "where", "partition_by"),
    *("key", "value", "delete", "object", "stream", "probability", "rule"),
)


def read_query(sql: str, stream: str | None) -> tuple[Query, str | None]:
    """Parse the single query of a request; return it with the stream in its FROM, else `stream`."""
    from skyband.sql.reader import parse  # noqa: PLC0415 - loaded when a query is added

    refuse_comments(sql)
    statements = parse(sql)
    if len(statements) != 1:
        raise UnsupportedError(f"a request must contain one statement, got {len(statements)}. Send them one by one.")
    return statements[0].query, statements[0].stream or stream


def refuse_unfit(workloads: Mapping[str, Workload[Any]], query: Query, *, has_past: bool = False) -> None:
    """Reject a query that cannot be added to these running workloads, by stream.

    `has_past`: rows that were read before are read again for it.
    """
    names = [known.name for workload in workloads.values() for known in workload]
    if query.name in names:
        raise InvalidQueryError(
            f"a query named {query.name!r} already runs, and names must be unique. Choose another name, or drop that "
            "query first."
        )
    if query.k > MOST_K or len(names) >= MOST_QUERIES:
        raise InvalidQueryError(
            f"a running job accepts k up to {MOST_K:,} and {MOST_QUERIES:,} queries, got k={query.k:,} for "
            f"{query.name!r} as query number {len(names) + 1:,}. Add larger queries to the file instead."
        )
    if getattr(query, "window_kind", "") == "landmark" and not has_past:
        raise InvalidQueryError(
            f"size=None: query {query.name!r} ranks {query.window_text}, and rows that were read before it is added "
            "are not stored for it. Add it with --since, which reads them again; or add it to "
            "the file, and start with a new state or an origin after the rows read so far."
        )
    refuse_reaching_out(query)


def known_stream(workloads: Mapping[str, Workload[Any]], stream: str | None) -> str:
    """Return the name of a stream as spelled in the file; None selects the only stream."""
    if stream is None and len(workloads) == 1:
        return next(iter(workloads))
    if stream is None:
        raise UnsupportedError(f"the job has several streams ({', '.join(workloads)}). Name one of them.")
    spelled = {name.lower(): name for name in workloads}
    if stream.lower() not in spelled:
        raise UnknownNameError.among("stream", stream, workloads)
    return spelled[stream.lower()]


def refuse_comments(text: str) -> None:
    """Reject comments and hints: two parsers can disagree about where one ends, and so about the query."""
    mark = comment_in(text)
    if mark is not None:
        raise UnsupportedError(
            f"{mark!r} begins or ends a comment, and queries for a running job cannot contain comments or hints. "
            "Remove the comment; nothing was changed."
        )


def refuse_reaching_out(query: Query) -> None:
    """Reject expressions that use more than the row: a request must not read files or call Java.

    This check works on the text, without Spark. `skyband.jobs.expression_guard` makes the final check on Spark's parse
    tree.
    """
    for name, text in expressions_of(query):
        refuse_comments(text)
        reached = beyond_the_row(text)
        if reached is not None:
            raise UnsupportedError(
                f"{name}={text!r} of {query.name!r} uses {reached}, which is not allowed in a running job: expressions "
                "can use only the row's columns. Add the query to the file instead."
            )


def expressions_of(query: Query) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a query's SQL expressions."""
    for name in _IN_SQL:
        given = getattr(query, name, None) or ()
        for text in (given,) if isinstance(given, str) else given:
            yield name, text
