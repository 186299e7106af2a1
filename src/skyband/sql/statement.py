"""A statement while it is read, and the clauses that several spellings share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from skyband.errors import InvalidQueryError, InvalidSQLError
from skyband.queries import Query
from skyband.queries.families import FAMILIES, Family
from skyband.sql.cursor import Cursor
from skyband.sql.expression import Expression
from skyband.sql.lexer import unquote

Spelling = Literal["topk", "cql", "flink"]
_K = "k is how many objects an answer ranks, a whole number"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its query, and what it says beside the query."""

    query: Query
    spelling: Spelling
    named: bool
    """Whether the text names the query; if not, the name is the default one."""
    stream: str | None = None
    """What the query reads, as written after FROM."""
    time: str | None = None
    """The column of event time, as written in DESCRIPTOR."""
    line: int = 1
    """The line of the text on which the statement begins, from 1."""


@dataclass(slots=True)
class StatementDraft:
    """The clauses read so far, and where in the text each of them stands."""

    cursor: Cursor
    spelling: Spelling
    fields: dict[str, Any] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    family: Family = FAMILIES["topk"]  # what its clauses make of it

    def put(self, name: str, value: object, at: int) -> None:
        """Keep a field of the query."""
        self.fields[name] = value
        self.places[name] = at

    def once(self, name: str, clause: str) -> int:
        """The place of a clause that may be given once; call it where the clause begins."""
        at = self.cursor.place
        if name in self.places:
            raise self.cursor.fail(f"{clause} is given twice", "each part of a query is said once")
        self.places[name] = at
        return at

    def put_groups(self, groups: list[Expression]) -> None:
        """Keep the groups; one that is given twice is pointed at."""
        seen: set[str] = set()
        for group in groups:
            if group.text in seen:
                message = f"{group.text!r} groups the stream twice; once is enough"
                raise self.cursor.fail(message, at=group.start)
            seen.add(group.text)
        self.fields["partition_by"] = tuple(group.text for group in groups)

    def read_family_clause(self, stops: Collection[str]) -> bool:
        """Read the clause that begins here, if it is one that only queries of some family have."""
        return any(family.part("sql").read(self, stops) for family in FAMILIES.values() if family.clauses)

    def query(self) -> Query:
        """The query; what is wrong with a value is said with the place of its clause."""
        if self.family.clauses:
            self.family.part("sql").settle(self)
        try:
            found: Query = self.family.query_class(**self.fields)
        except InvalidQueryError as error:
            raise self._placed(error) from None
        return found

    def _placed(self, error: InvalidQueryError) -> InvalidSQLError:
        field_name = str(error).partition("=")[0]
        at = self.places.get(field_name, self.cursor.tokens[0].start)
        if field_name == "size" and "different axes" in str(error):
            at = self.places.get("slide", self.places.get("every", at))
        return self.cursor.fail(str(error), at=at)


def read_k(draft: StatementDraft, *, what: str = "k") -> None:
    """A whole number: how many objects an answer ranks."""
    at = draft.once("k", "k")
    draft.put("k", draft.cursor.integer(what, _K), at)


def read_ties(draft: StatementDraft) -> None:
    """``WITH TIES``, if it is there."""
    if draft.cursor.sees("WITH"):
        at = draft.cursor.place
        draft.cursor.expect("WITH", "TIES", why="WITH TIES lets in all that equal the k-th")
        draft.put("ties", "rank", at)


def read_origin(draft: StatementDraft) -> None:
    """``ORIGIN '2024-01-01'`` or ``ORIGIN -5``."""
    cursor = draft.cursor
    draft.once("origin", "ORIGIN")
    cursor.expect("ORIGIN")
    at, token = cursor.place, cursor.peek()
    if token is not None and token.kind == "string" and token.text[0] in "'\"":
        cursor.at += 1
        draft.put("origin", unquote(token.text), at)
    else:
        hint = "write ORIGIN '2024-01-01' for a time, ORIGIN 100 for a sequence number"
        draft.put("origin", cursor.integer("the origin of the windows", hint), at)


def read_full(draft: StatementDraft) -> None:
    """``FULL WINDOWS ONLY``."""
    at = draft.once("full_only", "FULL WINDOWS ONLY")
    draft.cursor.expect("FULL", "WINDOWS", "ONLY", why="FULL WINDOWS ONLY leaves out windows that begin too early")
    draft.put("full_only", True, at)


def direction(cursor: Cursor, *, default: str) -> str:
    """``ASC`` or ``DESC``, or what holds without them."""
    if cursor.sees("NULLS") or (cursor.sees("ASC", "NULLS") or cursor.sees("DESC", "NULLS")):
        cursor.at += 0 if cursor.sees("NULLS") else 1
        raise cursor.fail("rows without a score are never ranked, first or last", "leave NULLS FIRST or NULLS LAST out")
    if cursor.take("ASC"):
        return "asc"
    return "desc" if cursor.take("DESC") else default
