"""Writes sorted sets to Redis or Valkey: the newest answer of each query or group, replaced atomically."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from skyband.connectors.row_identity import (
    GROUP,
    PLACE,
    ends_of,
    groups_of,
    newest_answers,
    refuse_taken_names,
)
from skyband.connectors.row_identity import with_places as placed
from skyband.connectors.secrets import HIDDEN, secrets_of, shown_address
from skyband.connectors.server import GivenUpError, Patience
from skyband.data.json_lines import as_json, json_lines
from skyband.data.wide_timestamps import values_of
from skyband.errors import InvalidInputError, MissingDependencyError, PipelineError
from skyband.queries import Query
from skyband.queries.answer_schema import moment_of

try:
    import redis
    from redis import exceptions as wrong
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:
    raise MissingDependencyError(
        f"a sink of type redis needs redis-py ({error}). Install it with: pip install 'skyband[redis]'"
    ) from None

__all__ = ["SortedSets", "key_of"]

T = TypeVar("T")

# RESP2: RESP3 has no benefit here, and its error for a missing password is less clear.
_DEFAULTS: dict[str, Any] = {
    "client_name": "skyband",
    "socket_timeout": 10,
    "socket_connect_timeout": 10,
    "protocol": 2,
}
_AT_ONCE = 500  # answers in one transaction, which blocks the server
# Transient errors: restart, failover, concurrent writes, no memory left.
_TRANSIENT = (
    wrong.ConnectionError,
    wrong.TimeoutError,
    wrong.WatchError,
    wrong.ReadOnlyError,
    wrong.TryAgainError,
    wrong.ClusterDownError,
    wrong.OutOfMemoryError,
)
_PERMANENT = (wrong.AuthenticationError, wrong.AuthorizationError)


@dataclass
class _Answer:
    """The content of one key."""

    end: int
    members: dict[str, float]
    about: dict[str, str | int]


def key_of(prefix: str, query: str, group: str = "[]") -> str:
    """Return the unique key of the answers of a query, or of one of its groups.

    >>> key_of("skyband", "big"), key_of("skyband", "a:b", '["AAPL", null]')
    ('skyband:big', 'skyband:a%3Ab:["AAPL", null]')
    """
    name = f"{prefix}:{query.replace('%', '%25').replace(':', '%3A')}"
    return name if group == "[]" else f"{name}:{group}"


class SortedSets:
    """Stores the newest answer of each query, or of each of its groups, in a sorted set.

    Each set has a hash, ``<key>:about``, with the window and its ``end`` as a number. Both are replaced in one
    transaction, and never by an older window.

    Parameters
    ----------
    queries
        The queries whose answers are written.
    url, options
        The address of the server, and arguments of the redis-py client.
    prefix
        The prefix of keys.
    member
        The column to use as member; None: the whole row, as JSON.
    by_rank
        Use the place in the answer as score of members, instead of the row's score.
    expire
        After how many seconds an answer is deleted if no newer answer replaces it; None: never.
    retry
        How many seconds to retry while the server is unavailable.

    Examples
    --------
    >>> import skyband as sb
    >>> sink = SortedSets([sb.TopK(name="big", k=10, size="1 hour")], url="redis://127.0.0.1:6379/0")
    >>> sink.take(0, rows)  # doctest: +SKIP
    """

    def __init__(
        self,
        queries: Sequence[Query],
        *,
        url: str,
        options: Mapping[str, Any] | None = None,
        prefix: str = "skyband",
        member: str | None = None,
        by_rank: bool = False,
        expire: float | None = None,
        retry: float = 60,
    ) -> None:
        self._groups = groups_of(queries)
        self._orders = {query.name: str(getattr(query, "order", "desc")) for query in queries}
        self._url, self._options = url, dict(options or {})
        self._prefix, self._member, self._by_rank = prefix, member, by_rank
        self._expire = None if expire is None else round(expire * 1000)
        self._secrets = secrets_of(url, self._options)
        self._where = f"keys {prefix}:… of {shown_address(url)}"
        self._patience = Patience(retry, self._where)
        self._client: redis.Redis | None = None

    def __str__(self) -> str:
        return self._where

    def reach(self) -> None:
        """Connect to the server, without retries: at startup, a failure is likely to be a wrong configuration."""
        self._once(lambda: self._connected().ping())

    def check(self, rows: pa.Table) -> None:
        """Check that the rows have the member column, and that the user has the right to write keys."""
        self.prepare(rows)
        self._once(lambda: self._connected().zadd(f"{self._prefix}:", {"": 0}, xx=True))  # changes only what exists

    def prepare(self, rows: pa.Table) -> None:
        """Check that the rows have the member column. Keys are created by the first answers."""
        refuse_taken_names(rows, self._where)
        if self._member is not None and self._member.lower() not in map(str.lower, rows.column_names):
            raise InvalidInputError(
                f"member: {self._member!r} is not a column of the answers in {self._where}; columns: "
                f"{', '.join(rows.column_names)}."
            )

    def ask(self, queries: Iterable[Query]) -> None:
        """Set the queries whose answers follow."""
        self._groups = groups_of(queries)

    def holds_rows(self) -> bool:
        """Whether the server stores answers of these queries."""
        keys = [f"{key_of(self._prefix, name)}:about" for name in self._groups]
        return bool(keys and self._once(lambda: self._connected().exists(*keys)))

    def clear(self) -> None:
        """Remove the answers of these queries."""
        self._once(self._remove)

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write the newest answers of a micro-batch; newer stored answers are retained."""
        if not rows.num_rows:
            return
        answers = self._answers(rows)
        what_next = "The stream stopped; no answers are lost. Fix the problem and run it again."
        try:
            for part in _parts(answers, _AT_ONCE):
                self._patience.attempt(lambda part=part: self._write(part), self._transient_reason)  # type: ignore[misc]
        except GivenUpError as error:
            raise PipelineError(
                f"{self._where} could not be written for {self._patience.seconds:g} seconds ({error}). {what_next}"
            ) from None
        except wrong.RedisError as error:
            raise PipelineError(f"{self._where} cannot be written: {self._reason(error)}. {what_next}") from None

    def stop_waiting(self) -> None:
        """Stop retrying."""
        self._patience.end()

    def close(self) -> None:
        """Close the connection."""
        self._patience.end()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _answers(self, rows: pa.Table) -> dict[str, _Answer]:
        """Return the newest answer of each key. A query with groups also has a key with its newest window."""
        rows = newest_answers(placed(rows, self._groups), ["query", GROUP])
        moment, ends = moment_of(rows.column_names), ends_of(rows)
        bounds = [name for name in ("window_start", moment) if name in rows.column_names]
        windows = [
            dict(zip(bounds, row, strict=True)) for row in zip(*(values_of(rows[name]) for name in bounds), strict=True)
        ]
        found: dict[str, _Answer] = {}
        columns = (rows["query"].to_pylist(), rows[GROUP].to_pylist(), ends.tolist(), windows)
        values = zip(*columns, self._members(rows), self._scores(rows), strict=True)
        for query, group, end, window, member, score in values:
            about = {"query": query, "order": self._orders[query], "end": end}
            about |= {name: value if isinstance(value, int) else _text(value) for name, value in window.items()}
            if group != "[]":
                whole = found.setdefault(key_of(self._prefix, query), _Answer(end, {}, about))
                if end > whole.end:
                    whole.end, whole.about = end, about
            key = key_of(self._prefix, query, group)
            answer = found.setdefault(key, _Answer(end, {}, {**about, "group": group, "rows": 0}))
            answer.members.setdefault(member, score)  # for equal members, the first row ranks higher
            answer.about["rows"] = len(answer.members)
        return found

    def _members(self, rows: pa.Table) -> Iterator[str]:
        if self._member is None:
            return (line.rstrip("\n") for line in json_lines(rows.drop_columns([GROUP])))
        name = next(name for name in rows.column_names if name.lower() == str(self._member).lower())
        return (value if isinstance(value, str) else _text(value) for value in values_of(rows[name]))

    def _scores(self, rows: pa.Table) -> list[float]:
        return [float(value) for value in rows[PLACE if self._by_rank else "score"].to_pylist()]

    def _write(self, answers: Sequence[tuple[str, _Answer]]) -> None:
        """Replace stored answers that are not newer. A concurrent write raises WatchError, which is retried."""
        client = self._connected()
        with client.pipeline(transaction=True) as changes:
            changes.watch(*(f"{key}:about" for key, _ in answers))  # type: ignore[no-untyped-call]
            with client.pipeline(transaction=False) as lookup:
                for key, _ in answers:
                    lookup.hget(f"{key}:about", "end")
                ends = lookup.execute()
            changes.multi()
            for (key, answer), end in zip(answers, ends, strict=True):
                if end is None or int(end) <= answer.end:
                    self._replace(changes, key, answer)
            changes.execute()

    def _replace(self, changes: Any, key: str, answer: _Answer) -> None:
        about = f"{key}:about"
        changes.delete(key, about)
        if answer.members:
            changes.zadd(key, answer.members)
        changes.hset(about, mapping=answer.about)
        if self._expire is not None:
            changes.pexpire(key, self._expire)
            changes.pexpire(about, self._expire)

    def _remove(self) -> None:
        client = self._connected()
        for name, columns in self._groups.items():
            key = key_of(self._prefix, name)
            client.delete(key, f"{key}:about")
            if columns:
                pattern = "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in key)
                there = client.scan_iter(match=f"{pattern}:*", count=1000)
                while part := list(islice(there, _AT_ONCE)):
                    client.delete(*part)

    def _connected(self) -> redis.Redis:
        if self._client is None:
            given = {**_DEFAULTS, **self._options}
            if "password" not in given and os.environ.get("REDISCLI_AUTH"):
                given["password"] = os.environ["REDISCLI_AUTH"]
            # No retries in the client: this class retries the whole transaction.
            self._client = redis.Redis.from_url(self._url, decode_responses=True, retry=Retry(NoBackoff(), 0), **given)
        return self._client

    def _once(self, work: Callable[[], T]) -> T:
        """Run `work`; raise InvalidInputError if it fails. It is only repeated if an older connection was cut."""
        had_connection = self._client is not None
        try:
            return work()
        except (wrong.RedisError, ValueError, TypeError, OSError) as error:
            if had_connection and self._transient_reason(error) is not None:
                return self._once(work)  # disconnected now
            self._disconnect()
            raise InvalidInputError(f"{self._where} cannot be used: {self._reason(error)}.") from None

    def _transient_reason(self, error: Exception) -> str | None:
        """Return the reason of a transient error, or None. The next attempt opens a new connection."""
        said = self._reason(error)
        if not isinstance(error, _TRANSIENT) or isinstance(error, _PERMANENT) or "certificate" in said:
            return None
        self._disconnect()
        return said

    def _reason(self, error: Exception) -> str:
        """Return the server's message in one line, without secrets."""
        said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        for secret in sorted({self._url, *self._secrets, os.environ.get("REDISCLI_AUTH", "")} - {""}, key=len)[::-1]:
            said = said.replace(secret, shown_address(secret) if secret == self._url else HIDDEN)
        return said

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _parts(answers: Mapping[str, _Answer], size: int) -> Iterator[list[tuple[str, _Answer]]]:
    left = iter(answers.items())
    while part := list(islice(left, size)):
        yield part


def _text(value: Any) -> str:
    """Format a value as JSON, without the quotes of text."""
    text = as_json(value)
    return text[1:-1] if text.startswith('"') and "\\" not in text else text
