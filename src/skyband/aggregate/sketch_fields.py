"""The fields of queries with ``method="sketch"``: checks, and the number of counters that they determine."""

from __future__ import annotations

import math
from typing import Any

from skyband.errors import InvalidQueryError
from skyband.queries.fields import as_number, checked_choice, is_integer

__all__ = ["checked_sketch", "counters_of"]

_METHODS = {"exact": "all keys are held", "sketch": "bounds of the scores of the heaviest keys, in bounded memory"}
_ERROR = 0.001
_MOST = 1 << 24  # counters
# Fields that need more of a key than bounds of its total: the value without them, and the reason.
_UNFIT = {
    "order": ("desc", "the keys with the lowest totals are those that are not held"),
    "having": (None, "a condition needs the exact total of a key"),
    "others": (False, "the total of the other keys follows from exact totals only"),
    "share": (False, "a share needs an exact total"),
    "max_keys": (None, "its counters are limited already, and keys without a counter are not counted"),
    "half_life": (None, "bounds of weights that decay are not those of the error"),
}


def checked_sketch(query: Any) -> dict[str, Any]:
    """Return the fields of a sketch; reject fields that cannot be answered from bounds."""
    method = checked_choice("method", query.method, _METHODS)
    if method == "exact":
        for name in ("error", "counters"):
            if getattr(query, name) is not None:
                raise InvalidQueryError(
                    f"{name}={getattr(query, name)!r} is only for method='sketch', but method='exact', whose scores "
                    f"have no error. Omit {name}=, or set method='sketch'."
                )
        return {"method": method, "error": None, "counters": None}
    if query.aggregate not in ("sum", "count"):
        raise InvalidQueryError(
            f"method='sketch' adds up weights, but aggregate={query.aggregate!r} is not a total, so nothing is known "
            "about it from bounds. Use aggregate='sum' or 'count', or omit method=."
        )
    for name, (without, reason) in _UNFIT.items():
        if getattr(query, name) != without:
            raise InvalidQueryError(
                f"{name}={getattr(query, name)!r} is not supported with method='sketch': {reason}. Omit {name}=, or "
                "omit method=, which gives exact totals."
            )
    if query.size is None:
        raise InvalidQueryError(
            "size=None is not supported with method='sketch': such windows have more and more panes, and each adds up "
            "to counters= keys, so memory would not be bounded. Set size=, or omit method=."
        )
    return {"method": method, "error": _checked_error(query), "counters": _checked_counters(query)}


def counters_of(query: Any) -> int:
    """Return the number of counters of each pane and group."""
    if query.counters is not None:
        return int(query.counters)
    return max(int(query.k), math.ceil(1 / (_ERROR if query.error is None else query.error)) - 1)


def _checked_error(query: Any) -> float | None:
    if query.error is None:
        return None
    if query.counters is not None:
        raise InvalidQueryError(
            f"error={query.error!r} and counters={query.counters!r} are two forms of the same field: with m counters, "
            "no error is larger than 1 / (m + 1) of the total. Set one of them."
        )
    error = as_number(query.error)
    if not 1 / _MOST <= error <= 0.5:
        raise InvalidQueryError(
            f"error must be a share of the total of the window between {1 / _MOST:.2g} and 0.5, got {query.error!r}. "
            f"For example, error={_ERROR} holds {round(1 / _ERROR) - 1} keys of each pane."
        )
    return error


def _checked_counters(query: Any) -> int | None:
    if query.counters is None:
        return None
    if not is_integer(query.counters) or isinstance(query.counters, bool) or not query.k <= query.counters <= _MOST:
        raise InvalidQueryError(
            f"counters must be an integer from k={query.k} to {_MOST}, got {query.counters!r}: an answer has k keys, "
            "and only keys with a counter are known. Omit it to hold 1 / error keys of each pane."
        )
    return int(query.counters)
