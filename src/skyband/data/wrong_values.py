"""Which value of a column is not a number that can be aggregated, and the key of its row, for error messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from skyband.errors import brief

__all__ = ["key_text", "wrong_value"]

_EXACT = 2**53  # integers up to here are exact as float64


def wrong_value(values: Any, keys: Any, name: str = "values") -> str:
    """Return a sentence about the first value that is not an exact number, or nothing if all are.

    `keys` are a column, or a mapping of names to columns. Text that could be cast to a number is wrong, too, if there
    is nothing else.

    >>> wrong_value([1.0, "n/a"], ["ann", "bob"])
    " The first one is values[1]='n/a', with key 'bob'."
    """
    listed = list(_plain(values))
    found = next((at for at, value in enumerate(listed) if not _is_number(value, texts=True)), None)
    if found is None:
        found = next((at for at, value in enumerate(listed) if not _is_number(value, texts=False)), None)
    if found is None:
        return ""
    columns = list(keys.values()) if isinstance(keys, Mapping) else [keys]
    key = [list(_plain(column))[found] for column in columns]
    return f" The first one is {name}[{found}]={brief(listed[found])}, with key {key_text(key)}."


def key_text(parts: list[Any]) -> str:
    """Return a key of one or several values as messages show it.

    >>> key_text(["bob"]), key_text(["bob", 7])
    ("'bob'", "('bob', 7)")
    """
    return brief(parts[0]) if len(parts) == 1 else f"({', '.join(map(brief, parts))})"


def _plain(column: Any) -> Iterable[Any]:
    """Return the values of a column as Python values."""
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            found: Iterable[Any] = getattr(column, method)()
            return found
    return column  # type: ignore[no-any-return]


def _is_number(value: Any, *, texts: bool) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | np.integer):
        return abs(int(value)) <= _EXACT
    if texts and isinstance(value, str):
        try:
            return not math.isnan(float(value))
        except ValueError:
            return False
    is_missing = value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType")
    return is_missing or isinstance(value, float | np.floating | Decimal)
