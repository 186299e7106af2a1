"""The SQL clauses of queries over uncertain streams, used by the short grammar and by CQL.

``PROBABILITY`` or ``FREQUENCY`` marks such a query. The papers write only ``FREQUENCY``; the probability is then the
column named ``probability``. In CQL they omit ``ORDER BY`` too; the score is then the column named ``score``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from skyband.queries.families import FAMILIES
from skyband.sql.cursor import Cursor
from skyband.sql.intervals import span
from skyband.sql.statement import StatementDraft
from skyband.sql.writer import UNCERTAIN
from skyband.uncertain.query import SEMANTICS, UncertainTopK

__all__ = ["CLAUSES", "read", "settle"]

CLAUSES = UNCERTAIN
_WHAT = {
    "PROBABILITY": "the probability of a row",
    "RULE": "the label of rows that exclude each other",
    "STREAM": "the label of a row's stream",
}
_NUMBERS = {
    "THRESHOLD": "the minimum probability, in (0, 1]",
    "WEIGHTS": "the weights of the ranks 1, 2, …, as in WEIGHTS (1, 0.5, 0.25)",
    "ALPHA": "a number in (0, 1]; rank i has the weight alpha ** i",
}
_FOREIGN = {
    "slide": ("a slide", "set the maximum time between two answers with FREQUENCY"),
    "origin": ("ORIGIN", "time starts with the first row"),
    "full_only": ("FULL WINDOWS ONLY", "remove it"),
    "ties": ("WITH TIES", "of equal probabilities the row with the higher score ranks first"),
}


def read(draft: StatementDraft, stops: Collection[str]) -> bool:
    """Parse the next clause if it is one of `CLAUSES`. `stops` are the words that end an expression."""
    clause = next((word for word in CLAUSES if draft.cursor.sees(word)), None)
    if clause is None:
        return False
    draft.once(clause, clause)
    draft.cursor.expect(clause)
    at = draft.cursor.place
    draft.choose(FAMILIES[UncertainTopK.family])
    draft.put(_FIELDS.get(clause, clause.lower()), _READERS[clause](draft.cursor, clause, stops), at)
    return True


def settle(draft: StatementDraft) -> None:
    """Reject clauses that are not supported for uncertain streams, and set defaults."""
    if draft.aggregation.call is not None or draft.aggregation.keys:
        message = "a query over an uncertain stream ranks rows, so it does not support aggregates and keys"
        hint = "remove PROBABILITY and FREQUENCY to rank keys, or give a score of rows"
        raise draft.cursor.fail(message, hint, at=draft.places.get("aggregate", draft.places.get("key")))
    for field, (what, instead) in _FOREIGN.items():
        if field in draft.fields:
            message = f"a query over an uncertain stream does not support {what}"
            raise draft.cursor.fail(message, instead, at=draft.places.get(field))
    if draft.fields.get("semantics") == "pt-k" and "threshold" not in draft.fields:
        hint = "the minimum probability of being in the top k, such as THRESHOLD 0.5"
        raise draft.cursor.fail("SEMANTICS PT-K needs a THRESHOLD", hint, at=draft.places["semantics"])
    if draft.fields.get("semantics") == "prf" and not {"weights", "alpha"} & draft.fields.keys():
        hint = "the weights of the ranks, such as WEIGHTS (1, 0.5, 0.25) or ALPHA 0.9"
        raise draft.cursor.fail("SEMANTICS PRF needs WEIGHTS or ALPHA", hint, at=draft.places["semantics"])
    if draft.spelling == "cql":
        draft.fields.setdefault("by", "score")
    if "by" in draft.fields:
        draft.fields.setdefault("probability", "probability")


def _expression(cursor: Cursor, clause: str, stops: Collection[str]) -> str:
    return cursor.expression(stops, f"{_WHAT[clause]} after {clause}").text


def _frequency(cursor: Cursor, _: str, stops: Collection[str]) -> str | int:
    return span(cursor, "the frequency", stops)


def _semantics(cursor: Cursor, clause: str, _: Collection[str]) -> str:
    return cursor.hyphenated(clause, SEMANTICS)


def _number(cursor: Cursor, clause: str, _: Collection[str] = ()) -> float:
    return cursor.number(f"a number after {clause}", _NUMBERS[clause])


def _weights(cursor: Cursor, clause: str, _: Collection[str]) -> list[float]:
    """Parse numbers in parentheses, separated by commas."""
    cursor.expect_symbol("(", _NUMBERS[clause])
    found = [_number(cursor, clause)]
    while cursor.take_symbol(","):
        found.append(_number(cursor, clause))
    cursor.expect_symbol(")", _NUMBERS[clause])
    return found


_FIELDS = {"FREQUENCY": "every"}
_READERS: dict[str, Callable[[Cursor, str, Collection[str]], object]] = {
    "PROBABILITY": _expression,
    "RULE": _expression,
    "STREAM": _expression,
    "FREQUENCY": _frequency,
    "SEMANTICS": _semantics,
    "THRESHOLD": _number,
    "WEIGHTS": _weights,
    "ALPHA": _number,
}
