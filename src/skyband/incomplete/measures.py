"""Quality of approximate answers: precision and relative error against the exact answers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InvalidInputError

__all__ = ["by_answer", "precision", "relative_error"]

_ANSWER = ["query", "time"]
_COLUMNS = [*_ANSWER, "rank", "object", "score"]


def precision(exact: pa.Table, approximate: pa.Table) -> float:
    """Return the share of the exact answers' objects in the approximate answers, averaged over all exact answers.

    Both are tables returned by `skyband.incomplete.replay`. Answers are matched by query name and time. A missing
    approximate answer has precision 0.

    >>> import skyband as sb
    >>> tuples = [7, 8, 9], ["x", "x", "y"], [0.5, 0.75, 0.25]
    >>> exact = sb.incomplete.replay(sb.IncompleteTopK(k=2, size=3), None, *tuples)
    >>> sb.incomplete.precision(exact, exact.slice(0, 1))  # one of two objects
    0.5
    """
    return _mean(by_answer(exact, approximate)["precision"])


def relative_error(exact: pa.Table, approximate: pa.Table) -> float:
    """Return the relative error of the score at each rank, averaged over all ranks and exact answers.

    The error is 1 for a rank that is missing in the approximate answer, and for a nonzero score if the exact one is 0.

    >>> import skyband as sb
    >>> from skyband.incomplete import relative_error
    >>> tuples = [7, 8, 9], ["x", "x", "y"], [0.5, 0.75, 0.25]
    >>> exact, other = (sb.incomplete.replay(sb.IncompleteTopK(k=k, size=3), None, *tuples) for k in (1, 2))
    >>> relative_error(exact, exact), relative_error(exact, other.slice(1, 1)), relative_error(other, exact)
    (0.0, 1.0, 0.5)
    """
    return _mean(by_answer(exact, approximate)["relative_error"])


def by_answer(exact: pa.Table, approximate: pa.Table) -> pa.Table:
    """Return precision and relative error per exact answer, sorted by time and query.

    The columns are ``query, time, precision, relative_error``.

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
    """Return the mean of a value over the rows of each answer."""
    means = rows.select(_ANSWER).append_column("value", values).group_by(_ANSWER).aggregate([("value", "mean")])
    return means.select([*_ANSWER, "value_mean"]).rename_columns([*_ANSWER, name])


def _checked(name: str, answers: pa.Table) -> pa.Table:
    if "group" in getattr(answers, "column_names", ()):
        raise InvalidInputError(
            f"{name} has the column group, so ranks of several groups would be compared with each other. Filter the "
            "answers of one group, and drop the column."
        )
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
