"""How good approximate answers are: what they have in common with the exact ones, and how far their scores lie off."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InvalidInputError

__all__ = ["by_answer", "precision", "relative_error"]

_ANSWER = ["query", "time"]
_COLUMNS = [*_ANSWER, "rank", "object", "score"]


def precision(exact: pa.Table, approximate: pa.Table) -> float:
    """The share of the exact answers' objects that the approximate answers have, in the mean of all exact answers.

    Both are tables as `skyband.incomplete.replay` returns them. Answers are matched by query name and time; one that is
    missing has nothing in common with the exact one.

    >>> import skyband as sb
    >>> tuples = [7, 8, 9], ["x", "x", "y"], [0.5, 0.75, 0.25]
    >>> exact = sb.incomplete.replay(sb.IncompleteTopK(k=2, size=3), None, *tuples)
    >>> sb.incomplete.precision(exact, exact.slice(0, 1))  # of two objects it has one
    0.5
    """
    return _mean(by_answer(exact, approximate)["precision"])


def relative_error(exact: pa.Table, approximate: pa.Table) -> float:
    """How far the score at each rank lies off, relative to the exact one, in the mean of all ranks and exact answers.

    A rank that the approximate answer does not have counts 1, as does a score that should be 0 and is not.

    >>> import skyband as sb
    >>> from skyband.incomplete import relative_error
    >>> tuples = [7, 8, 9], ["x", "x", "y"], [0.5, 0.75, 0.25]
    >>> exact, other = (sb.incomplete.replay(sb.IncompleteTopK(k=k, size=3), None, *tuples) for k in (1, 2))
    >>> relative_error(exact, exact), relative_error(exact, other.slice(1, 1)), relative_error(other, exact)
    (0.0, 1.0, 0.5)
    """
    return _mean(by_answer(exact, approximate)["relative_error"])


def by_answer(exact: pa.Table, approximate: pa.Table) -> pa.Table:
    """Precision and relative error of each exact answer: ``query, time, precision, relative_error``, by time and query.

    >>> import skyband as sb
    >>> from skyband.incomplete.measures import by_answer
    >>> exact = sb.incomplete.replay(sb.IncompleteTopK(k=1, size=1), None, [7, 8], ["x", "x"], [0.5, 0.75])
    >>> by_answer(exact, exact.slice(0, 1)).select(["time", "precision", "relative_error"]).to_pylist()
    [{'time': 1, 'precision': 1.0, 'relative_error': 0.0}, {'time': 2, 'precision': 0.0, 'relative_error': 1.0}]
    """
    true, found = _checked("exact", exact), _checked("approximate", approximate)
    same = true.select([*_ANSWER, "object"]).join(
        found.select([*_ANSWER, "object"]).append_column("hit", pa.repeat(1.0, found.num_rows)),
        keys=[*_ANSWER, "object"],
    )
    pairs = true.select([*_ANSWER, "rank", "score"]).join(
        found.select([*_ANSWER, "rank", "score"]).rename_columns([*_ANSWER, "rank", "other"]), keys=[*_ANSWER, "rank"]
    )
    off = pc.abs(pc.subtract(pairs["score"], pairs["other"]))
    size = pc.abs(pairs["score"])
    error = pc.if_else(pc.equal(size, 0.0), pc.ceil(pc.min_element_wise(off, 1.0)), pc.divide(off, size))
    hits = _means(same, "precision", pc.fill_null(same["hit"], 0.0))
    errors = _means(pairs, "relative_error", pc.fill_null(error, 1.0))
    return hits.join(errors, keys=_ANSWER).sort_by([("time", "ascending"), ("query", "ascending")])


def _means(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    """The mean of a value over the rows of each answer."""
    means = rows.select(_ANSWER).append_column("value", values).group_by(_ANSWER).aggregate([("value", "mean")])
    return means.select([*_ANSWER, "value_mean"]).rename_columns([*_ANSWER, name])


def _checked(name: str, answers: pa.Table) -> pa.Table:
    missing = [column for column in _COLUMNS if column not in getattr(answers, "column_names", ())]
    if missing:
        raise InvalidInputError(
            f"{name} has no column {', '.join(missing)}. Pass a table returned by skyband.incomplete.replay."
        )
    return answers.select(_COLUMNS)


def _mean(column: pa.ChunkedArray) -> float:
    if len(column) == 0:
        raise InvalidInputError("exact has no answers, so there is nothing to compare with.")
    return float(pc.mean(column).as_py())
