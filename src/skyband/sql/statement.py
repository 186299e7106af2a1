"""A statement while it is parsed, and the clauses that several dialects share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from skyband.errors import InvalidQueryError, InvalidSQLError
from skyband.queries import Query
from skyband.queries.families import FAMILIES, Family, Feature
from skyband.queries.fields import split_field
from skyband.sql.aggregation import Aggregation, aggregate_in, read_call
from skyband.sql.cursor import Cursor
from skyband.sql.expression import Expression
from skyband.sql.lexer import unquote

Spelling = Literal["topk", "cql", "flink"]
_WINDOW_CLAUSES = {
    "gap": "SESSION",
    "zone": "AT TIME ZONE",
    "week_start": "WEEK START",
    "cumulative": "CUMULATIVE (CUMULATE)",
}
_RULES = {"then_by": "an order by several columns", "distinct": "DISTINCT", "half_life": "HALF_LIFE"}
_K = "k is the number of objects in an answer, an integer"


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement: its query, and the clauses that are not part of the query."""

    query: Query
    spelling: Spelling
    named: bool
    """Whether the text contains the name of the query; if not, it is the default name."""
    stream: str | None = None
    """The stream of the query, as written after FROM."""
    time: str | None = None
    """The event-time column, as written in DESCRIPTOR."""
    line: int = 1
    """The line of the text on which the statement begins, from 1."""


@dataclass(slots=True)
class StatementDraft:
    """The clauses parsed so far, and their offsets in the text."""

    cursor: Cursor
    spelling: Spelling
    fields: dict[str, Any] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    family: Family = FAMILIES["topk"]  # set by its clauses
    score: Expression | None = None  # of rows; `aggregation` has the score of keys
    aggregation: Aggregation = field(default_factory=Aggregation)

    def put(self, name: str, value: object, at: int) -> None:
        """Store a field of the query and its offset."""
        self.fields[name] = value
        self.places[name] = at

    def once(self, name: str, clause: str) -> int:
        """Return the offset of the clause that begins here; raise if it is given twice."""
        at = self.cursor.place
        if name in self.places:
            raise self.cursor.fail(f"{clause} is given twice", "write each clause once")
        self.places[name] = at
        return at

    def read_score(self, stops: Collection[str], what: str, hint: str = "") -> None:
        """Parse a score: one aggregate, which makes a query over keys, or an expression over the row."""
        at = self.cursor.place
        call = read_call(self.cursor, stops)
        if call is None:
            self.score = self.cursor.expression(stops, what, hint)
            self.put("by", self.score.text, at)
            return
        self.aggregation.call = call
        self.places["aggregate"] = self.places["value"] = at
        self.rank_keys()

    def rank_keys(self) -> None:
        """Make this a query over keys, unless a clause of another family precedes."""
        if not self.family.clauses:
            self.family = FAMILIES["aggregate"]

    def choose(self, family: Family) -> None:
        """Make this a query of a family by one of its clauses; raise if a clause of another one precedes."""
        known = self.family
        if known is not family and known.name not in ("topk", "aggregate"):
            message = f"clauses of {known.query} and {family.query} queries cannot be combined"
            raise self.cursor.fail(message, "remove those of one of them")
        self.family = family

    def put_groups(self, groups: list[Expression]) -> None:
        """Store the groups; raise at one that is given twice."""
        seen: set[str] = set()
        for group in groups:
            if group.text in seen:
                message = f"group {group.text!r} is given twice"
                raise self.cursor.fail(message, at=group.start)
            seen.add(group.text)
        self.aggregation.groups = groups
        self.fields["partition_by"] = tuple(group.text for group in groups)

    def read_family_clause(self, stops: Collection[str]) -> bool:
        """Parse the clause that begins here if it belongs to a single family; return whether it does."""
        return any(family.part("sql").read(self, stops) for family in FAMILIES.values() if family.clauses)

    def query(self) -> Query:
        """Return the query; errors about a value point to its clause."""
        if self.family.clauses:
            self.family.part("sql").settle(self)
        self._refuse_aggregates()
        self._refuse_other_windows()
        try:
            found: Query = self.family.query_class(**self.fields)
        except InvalidQueryError as error:
            raise self._placed(error) from None
        return found

    def _refuse_other_windows(self) -> None:
        """Raise if the query's family does not have windows of this kind."""
        known = {item.name for item in fields(self.family.query_class)}
        for name, clause in (_WINDOW_CLAUSES | _RULES).items():
            if name in self.fields and name not in known:
                feature: Feature = "session windows" if name == "gap" else "calendar windows"
                hint = "use windows with one size and one slide"
                if name in _RULES:
                    feature, hint = "several columns", "remove it"
                reason = self.family.lacks[feature].rstrip(".")
                message = f"{clause} is not supported for {self.family.query} queries: {reason}"
                raise self.cursor.fail(message, hint, at=self.places.get(name))

    def _refuse_aggregates(self) -> None:
        """Raise if the score of rows contains an aggregate function, which has no value for a row."""
        if self.score is None or self.score.given or "by" not in self.fields:
            return
        found = aggregate_in(self.score.tokens)
        if found is not None:
            message = f"{found.text} is an aggregate function, so it has no value for a single row"
            hint = "to rank keys, make it the whole score: TOPK sum(bytes), 10 BY KEY client OVER 1 HOUR"
            raise self.cursor.fail(message, hint, at=found.start)

    def _placed(self, error: InvalidQueryError) -> InvalidSQLError:
        field_name, _ = split_field(str(error))
        at = self.places.get(field_name, self.cursor.tokens[0].start)
        if field_name == "size" and "different axes" in str(error):
            at = self.places.get("slide", self.places.get("every", at))
        return self.cursor.fail(str(error), at=at)


def read_k(draft: StatementDraft, *, what: str = "k") -> None:
    """Parse k, an integer."""
    at = draft.once("k", "k")
    draft.put("k", draft.cursor.integer(what, _K), at)


def read_ties(draft: StatementDraft) -> None:
    """Parse the optional clause ``WITH TIES``."""
    if draft.cursor.sees("WITH"):
        at = draft.cursor.place
        draft.cursor.expect("WITH", "TIES", why="WITH TIES includes objects equal to the k-th")
        draft.put("ties", "rank", at)


def read_origin(draft: StatementDraft) -> None:
    """Parse ``ORIGIN '2024-01-01'`` or ``ORIGIN -5``."""
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
    """Parse ``FULL WINDOWS ONLY``."""
    at = draft.once("full_only", "FULL WINDOWS ONLY")
    draft.cursor.expect("FULL", "WINDOWS", "ONLY", why="FULL WINDOWS ONLY skips windows that start before the stream")
    draft.put("full_only", True, at)


def direction(cursor: Cursor, *, default: str) -> str:
    """Parse ``ASC`` or ``DESC``; return the default if there is neither."""
    if cursor.sees("NULLS") or (cursor.sees("ASC", "NULLS") or cursor.sees("DESC", "NULLS")):
        cursor.at += 0 if cursor.sees("NULLS") else 1
        raise cursor.fail(
            "NULLS FIRST and NULLS LAST are not supported, because rows without a score are not ranked", "remove it"
        )
    if cursor.take("ASC"):
        return "asc"
    return "desc" if cursor.take("DESC") else default
