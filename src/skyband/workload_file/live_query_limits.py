"""What a running workload takes: a query from outside is bounded, has a name of its own, and asks about rows only."""

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

# What comes from outside is bounded; who needs more writes it into the file.
MOST_K = 100_000
MOST_QUERIES = 10_000
_IN_SQL = ("by", "where", "partition_by", "key", "value", "object", "stream", "probability", "rule")


def read_query(sql: str, stream: str | None) -> tuple[Query, str | None]:
    """The one query that a message asks for, and the stream it names; else the one that was said besides."""
    from skyband.sql.reader import parse  # noqa: PLC0415 - only who is asked in SQL loads the parser

    refuse_comments(sql)
    statements = parse(sql)
    if len(statements) != 1:
        raise UnsupportedError(f"{len(statements)} statements came at once; each is a change of its own.")
    return statements[0].query, statements[0].stream or stream


def refuse_unfit(workloads: Mapping[str, Workload[Any]], query: Query) -> None:
    """Refuse a query that these running workloads, by stream, do not take."""
    names = [known.name for workload in workloads.values() for known in workload]
    if query.name in names:
        raise InvalidQueryError(
            f"{query.name!r} is the name of a query that runs; answers are told apart by it. Choose another name, "
            "or drop that one first."
        )
    if query.k > MOST_K or len(names) >= MOST_QUERIES:
        raise InvalidQueryError(
            f"k={query.k:,} of {query.name!r}, the {len(names) + 1:,}th query: a running workload takes k "
            f"up to {MOST_K:,} and {MOST_QUERIES:,} queries. Put what is larger into the file."
        )
    refuse_reaching_out(query)


def known_stream(workloads: Mapping[str, Workload[Any]], stream: str | None) -> str:
    """The stream that is meant, as it is spelled; it need not be named where there is one only."""
    if stream is None and len(workloads) == 1:
        return next(iter(workloads))
    if stream is None:
        raise UnsupportedError(f"several streams run ({', '.join(workloads)}); say which.")
    spelled = {name.lower(): name for name in workloads}
    if stream.lower() not in spelled:
        raise UnknownNameError.among("stream", stream, workloads)
    return spelled[stream.lower()]


def refuse_comments(text: str) -> None:
    """Refuse comments and hints: two parsers may disagree about where one ends, and so about what is asked."""
    mark = comment_in(text)
    if mark is not None:
        raise UnsupportedError(
            f"{mark!r} begins or ends a comment, and a running workload takes queries without comments and hints; "
            "nothing was changed. Leave the comment out."
        )


def refuse_reaching_out(query: Query) -> None:
    """A message asks about rows: who can write one is not thereby allowed to read files or to call Java.

    This is the check without Spark, by words. `skyband.jobs.expression_guard` decides, by what Spark reads.
    """
    for name, text in expressions_of(query):
        refuse_comments(text)
        reached = beyond_the_row(text)
        if reached is not None:
            raise UnsupportedError(
                f"{name}={text!r} of {query.name!r} reaches beyond the row ({reached}); a running workload takes "
                "expressions over the row's columns only. Put such a query into the file."
            )


def expressions_of(query: Query) -> Iterator[tuple[str, str]]:
    """The fields of a query that are SQL, and what they say."""
    for name in _IN_SQL:
        given = getattr(query, name, None) or ()
        for text in (given,) if isinstance(given, str) else given:
            yield name, text
