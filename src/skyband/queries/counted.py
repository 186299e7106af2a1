"""Numbers with nouns."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{number} {one if number == 1 else many or one + ('es' if one.endswith('s') else 's')}"
