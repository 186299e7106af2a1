"""The order of rows by several expressions: ``["price desc", "size desc", "symbol asc nulls first"]``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from skyband.errors import InvalidQueryError

__all__ = ["SortColumn", "checked_ordering", "sort_column"]

Direction = Literal["desc", "asc"]
_COLUMN = re.compile(r"\s*(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE | re.DOTALL)


class SortColumn(NamedTuple):
    """One expression of an order."""

    text: str
    order: Direction
    nulls_first: bool = False  # whether rows without a value are better than all others

    def __str__(self) -> str:
        """Return the column as users write it."""
        return f"{self.text} {self.order}{' nulls first' if self.nulls_first else ''}"


def sort_column(text: object, default: Direction = "desc") -> tuple[SortColumn, bool]:
    """Return the parts of a column of an order, and whether its direction is written.

    >>> column, written = sort_column("price * size ASC nulls first")
    >>> column, written, str(column)
    (SortColumn(text='price * size', order='asc', nulls_first=True), True, 'price * size asc nulls first')
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidQueryError(
            f"by must be an SQL expression, or a list of expressions such as 'price desc', got {text!r} in it."
        )
    found = _COLUMN.fullmatch(text)
    assert found is not None  # any text with a letter matches
    order: Direction = default if found[2] is None else "asc" if found[2].lower() == "asc" else "desc"
    return SortColumn(found[1], order, (found[3] or "last").lower() == "first"), found[2] is not None


def checked_ordering(by: object, order: Direction, then_by: object) -> tuple[str | None, Direction, tuple[str, ...]]:
    """Return the first expression of an order, its direction, and the other columns in their canonical form.

    >>> checked_ordering(["price desc", "symbol asc"], "desc", ())
    ('price', 'desc', ('symbol asc',))
    """
    if by is None or isinstance(by, str):
        if by is not None and not by.strip():
            raise InvalidQueryError(f"by must be an SQL expression as text, or None, got {by!r}.")
        return by, order, _later(then_by, order)
    if not isinstance(by, Iterable) or not (columns := list(by)):
        raise InvalidQueryError(f"by must be an SQL expression as text, or None, got {by!r}.")
    first, written = sort_column(columns[0], order)
    if written and order == "asc" and first.order == "desc":
        raise InvalidQueryError(f"order='asc' contradicts by={columns[0]!r}. Write the direction once.")
    if first.nulls_first:
        raise InvalidQueryError(
            f"by={columns[0]!r} has NULLS FIRST, but rows without the first value are not ranked. Replace nulls, for "
            "example with coalesce()."
        )
    later = _later(then_by, order)
    if later and len(columns) > 1:
        raise InvalidQueryError(f"by={columns!r} and then_by={list(later)!r} both list later columns. Use one of them.")
    return first.text, first.order, later or _later(columns[1:], order)


def _later(columns: object, default: Direction) -> tuple[str, ...]:
    if isinstance(columns, str):
        columns = (columns,)
    if not isinstance(columns, Iterable):
        raise InvalidQueryError(f"then_by must be a list of columns such as 'size desc', got {columns!r}.")
    return tuple(str(sort_column(column, default)[0]) for column in columns)
