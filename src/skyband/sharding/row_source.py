"""The rows of a stream before they are reduced: columns by name, and expressions over them, checked for a query.

A source computes columns in its own way: Spark on the JVM, a local run on Arrow. The rules for what a query may rank,
filter and group by are the same for both, and are here. `C` is a column that the source computes, `K` its type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from skyband.errors import InvalidInputError, InvalidQueryError, UnknownNameError, brief
from skyband.queries import Query
from skyband.sharding.plan import COPY, HIDDEN, plain

__all__ = ["EXACT", "HIDDEN", "RowSource", "plain"]

EXACT = 2**53  # integers up to here are exact as scores

C = TypeVar("C")
K = TypeVar("K")


class RowSource(ABC, Generic[C, K]):
    """The columns of a stream. `taken` are the names of columns that every answer has."""

    conversion: ClassVar[str]  # how a column {name} is converted to a timestamp here

    def __init__(self, kinds: Iterable[tuple[str, K]], taken: tuple[str, ...]) -> None:
        self.kinds = list(kinds)
        self._taken = taken
        self._by_lower = {name.lower(): name for name, _ in self.kinds}
        self._kind = dict(self.kinds)
        names = [name for name, _ in self.kinds]
        again = {name for name in names if sum(name.lower() == other.lower() for other in names) > 1}
        if again:
            raise InvalidInputError(
                f"the stream has more than one column named {sorted(again)[0]!r}. Answers return whole rows, so column "
                "names must be unique. Rename one."
            )
        for name in names:
            if name.startswith(HIDDEN):
                raise InvalidInputError(
                    f"column {name!r} begins with {HIDDEN!r}, which is reserved for Skyband. Rename it."
                )

    @property
    def names(self) -> list[str]:
        """The names of the columns, in their order."""
        return [name for name, _ in self.kinds]

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._by_lower

    # How the source computes.

    @abstractmethod
    def type_of(self, query: Query, what: str, text: str) -> K:
        """Return the type of an expression; an expression that cannot be computed from a row is rejected."""

    @abstractmethod
    def column(self, name: str) -> C:
        """Return a column of the stream."""

    @abstractmethod
    def expression(self, text: str) -> C:
        """Return an expression that `type_of` has accepted."""

    @abstractmethod
    def identity(self) -> C:
        """Return a hash of the whole row: the id of rows that have none, whatever the batch they come in."""

    @abstractmethod
    def kind_of(self, column: C) -> K:
        """Return the type of a column."""

    @abstractmethod
    def as_number(self, column: C, error: str, keys: Sequence[C] = ()) -> C:
        """Return numbers as doubles: NaN for null, and `error` raised for an integer beyond 2**53.

        Errors of single rows name the row's `keys`, if there are any.
        """

    @abstractmethod
    def as_score(self, column: C) -> C:
        """Return values of any ordered type as doubles whose order is that of the values, or equal; NaN for null.

        Text is the number that its first six bytes in UTF-8 form; times are microseconds, dates days since 1970.
        """

    @abstractmethod
    def is_exact(self, kind: K) -> bool:
        """Return whether different values of this type are different as doubles."""

    @abstractmethod
    def is_integer(self, kind: K) -> bool:
        """Return whether values of this type are integers."""

    @abstractmethod
    def as_label(self, column: C) -> C:
        """Return labels as they are compared: integers as 64 bits, null for NaN, 0.0 for -0.0."""

    @abstractmethod
    def as_text(self, column: C) -> C:
        """Return values as text."""

    @abstractmethod
    def text(self, value: str | None) -> C:
        """Return a column with one text in every row."""

    @abstractmethod
    def without_nan(self, column: C) -> C:
        """Return the column with null for NaN and 0.0 for -0.0; other types are unchanged."""

    @abstractmethod
    def where(self, condition: C, column: C) -> C:
        """Return the column, null where the condition is not true."""

    @abstractmethod
    def replaced(self, condition: C, new: C | float, column: C) -> C:
        """Return the column, with `new` where the condition is true."""

    @abstractmethod
    def counts(self, keys: Sequence[C], value: C | None) -> C:
        """Return whether a row has all columns of a key, and a value."""

    @abstractmethod
    def with_zero(self, column: C) -> C:
        """Return numbers with 0.0 for -0.0."""

    @abstractmethod
    def home(self, columns: Iterable[C], shards: int) -> C:
        """Return the shard that a key with these columns belongs to."""

    # What the source knows about types.

    @abstractmethod
    def described(self, kind: K) -> str:
        """Return the name of a type, as Spark writes it."""

    @abstractmethod
    def is_time(self, kind: K) -> bool:
        """Return whether event time can be of this type."""

    @abstractmethod
    def is_instant(self, kind: K) -> bool:
        """Return whether times of this type are instants, with a time zone."""

    @abstractmethod
    def is_number(self, kind: K) -> bool:
        """Return whether scores and values can be of this type."""

    @abstractmethod
    def is_flag(self, kind: K) -> bool:
        """Return whether a filter can be of this type."""

    @abstractmethod
    def is_label(self, kind: K) -> bool:
        """Return whether objects and streams can be of this type."""

    @abstractmethod
    def is_key(self, kind: K) -> bool:
        """Return whether keys of aggregates can be of this type."""

    @abstractmethod
    def is_ordered(self, kind: K) -> bool:
        """Return whether values of this type can be sorted."""

    def check_returned(self, name: str, kind: K) -> None:
        """Reject a column that cannot be returned with an answer."""

    # The rules, the same for every source.

    def time(self, name: object) -> str:
        """Return the name of the column with the event time, as the stream spells it."""
        found = self._found("time", name, "it contains the event time")
        if not self.is_time(kind := self._kind[found]):
            raise InvalidInputError(
                f"time={name!r} must be a timestamp column, got type {self.described(kind)}. Convert it first, for "
                f"example with {self.conversion.format(name=name)}."
            )
        return found

    def id(self, name: object) -> str:
        """Return the name of the column with the id, as the stream spells it."""
        found = self._found("id", name, "it breaks ties")
        self._reject_orderless(f"id={name!r}", self._kind[found], "id breaks ties")
        return found

    def time_and_id(self, time: object, id_: object) -> tuple[C, C]:
        """Return the columns of time and id; a hash of the row where there is no id."""
        return self.column(self.time(time)), self.identity() if id_ is None else self.column(self.id(id_))

    def number(self, query: Query, what: str, text: str, rule: str, keys: Sequence[C] = ()) -> C:
        """Return a number as a double; NaN where a row has none. Errors of single rows name the row's `keys`."""
        kind = self.type_of(query, what, text)
        if not self.is_number(kind):
            example = self.wrong_value(text, keys)
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={text!r} has type {self.described(kind)}; {rule}.{example}"
            )
        error = (
            f"query {query.name!r}: a value of {what}={text!r} is beyond 2**53, where integers are not exact as "
            "double. Scale it down."
        )
        return self.as_number(self.expression(text), error, keys)

    def wrong_value(self, text: str, keys: Sequence[C]) -> str:
        """Return a sentence about the first value that is not a number, and its keys, if rows are known."""
        return ""

    def ranked(self, query: Query, what: str, text: str) -> tuple[C, C | None]:
        """Return a score as a double, NaN where a row has none; and its exact value, if doubles may be equal."""
        kind = self.type_of(query, what, text)
        if not self.is_ordered(kind):
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={text!r} has type {self.described(kind)}, which has no order. "
                "Rank rows by a number, text, a date or a timestamp."
            )
        column = self.expression(text)
        return self.as_score(column), None if self.is_exact(kind) else column

    def label(self, query: Query, what: str, text: str, rule: str) -> C:
        """Return what answers name things by: of a type that has an order, null where a row has none."""
        kind = self.type_of(query, what, text)
        if not self.is_label(kind):
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={text!r} has type {self.described(kind)}; {rule}, so it must be an "
                "integer, a string, a double, a date or a timestamp. Cast it, for example to a string."
            )
        return self.as_label(self.expression(text))

    def label_text(self, query: Query, what: str, text: str) -> C:
        """Return any expression as text."""
        self.type_of(query, what, text)
        return self.as_text(self.expression(text))

    def key(self, query: Query, text: str, what: str = "key") -> C:
        """Return the key of an aggregate, or a value that is counted; null where a row has none."""
        kind = self.type_of(query, what, text)
        if not self.is_key(kind):
            why = "ties are broken by the larger key" if what == "key" else "equal values count once"
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={text!r} is of type {self.described(kind)}. A {what} must be a number, "
                f"string, binary, date, timestamp or boolean, because {why}. Cast it, for example to a string."
            )
        return self.without_nan(self.expression(text))

    def filter(self, where: str, query: Query, what: str = "where") -> C:
        """Return a condition on a row: a filter, or another field of the query."""
        if not self.is_flag(kind := self.type_of(query, what, where)):
            raise InvalidQueryError(
                f"query {query.name!r}: {what}={where!r} must be Boolean, got type {self.described(kind)}."
            )
        return self.expression(where)

    def filtered(self, column: C, where: str | None, query: Query) -> C:
        """Return the column, null where the filter removes the row."""
        return column if where is None else self.where(self.filter(where, query), column)

    def groups(self, partition_by: Iterable[str], query: Query) -> dict[str, C]:
        """Return the group columns of a scan by the name they have in answers."""
        found = {}
        for text in partition_by:
            kind = self.type_of(query, "partition_by", text)
            what = f"query {query.name!r}: partition_by={text!r}"
            self._reject_orderless(what, kind, "it identifies groups")
            if text.lower() in self._taken:
                raise InvalidQueryError(f"{what} has the name of a column of every answer. Rename the stream's column.")
            found[plain(self._spelled(text))] = self.expression(text)
        return found

    def spelled(self, partition_by: Iterable[str]) -> list[str]:
        """Return the names of groups in answers."""
        return [self._spelled(text) for text in partition_by]

    def returned(self, queries: Iterable[Any], groups: set[str]) -> dict[str, str]:
        """Return the row's columns that come back besides those of groups, by the name they have in answers.

        A column with the name of one that every answer has comes back as ``row_<name>``. A column that is the score of
        every query does not come back twice.
        """
        grouped = {name.lower() for name in groups}
        scores_only = all((getattr(query, "by", None) or "").strip().lower() == "score" for query in queries)
        found = {}
        for column, kind in self.kinds:
            name = column
            if name.lower() in grouped or (name.lower() == "score" and scores_only):
                continue
            if name.lower() in self._taken:
                name = f"{COPY}{name}"
                if name.lower() in self._by_lower:
                    raise InvalidInputError(
                        f"column {column!r} has the name of a column of every answer and would be renamed to "
                        f"{name!r}, which the stream also has. Rename one."
                    )
            self.check_returned(column, kind)
            found[name] = column
        return found

    def _spelled(self, text: str) -> str:
        return self._by_lower.get(text.lower(), text)

    def _found(self, what: str, name: object, use: str) -> str:
        if isinstance(name, str) and name in self:
            return self._by_lower[name.lower()]
        if not isinstance(name, str):
            raise InvalidInputError(f"{what} must be the name of a column, got {brief(name)}; {use}.")
        raise UnknownNameError.among(f"{what}= column", name, self.names)

    def _reject_orderless(self, what: str, kind: K, use: str) -> None:
        if not self.is_ordered(kind):
            raise InvalidInputError(
                f"{what} has type {self.described(kind)}, which has no order, but {use}. Use a string, a number or a "
                "timestamp."
            )
