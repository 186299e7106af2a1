"""A plan as a timeline, for display."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Lane", "Timeline"]


@dataclass(frozen=True, slots=True)
class Lane:
    """An interval of the axis and the queries that it serves; `begin` and `end` in seconds or objects."""

    label: str
    kind: str  # "view" or "group"
    k: int
    begin: float
    end: float
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lanes, oldest first; `more` is the number of omitted lanes."""

    lanes: tuple[Lane, ...]
    more: int
    now: float
    cost: float | None = None  # tuples visited per second or per object
