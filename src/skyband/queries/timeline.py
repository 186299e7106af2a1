"""A plan on a time line: what a family that draws one gives to whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Lane", "Timeline"]


@dataclass(frozen=True, slots=True)
class Lane:
    """A stretch of the axis and the queries that it serves; places in seconds or objects."""

    label: str
    kind: str  # "view" or "group"
    k: int
    begin: float
    end: float
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lanes, oldest first; `more` were left out."""

    lanes: tuple[Lane, ...]
    more: int
    now: float
    cost: float | None = None  # tuples looked at in a second, or for an object
