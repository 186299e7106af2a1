"""Words that all pages have."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{number} {one if number == 1 else many or one + ('es' if one.endswith('s') else 's')}"
