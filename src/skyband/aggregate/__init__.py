"""Ranking keys by an aggregate of their values in a sliding window: the largest totals, counts, maxima, … right now.

>>> import skyband as sb
>>> query = sb.AggregateTopK(k=1, size=4, slide=2)
>>> sb.aggregate.replay(query, None, ["a", "b", "b", "a", "b", "b"], [5, 1, 2, 1, 4, 1])["key"].to_pylist()
['a', 'a', 'b']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.aggregate.monitor import Monitor, replay

__all__ = ["Monitor", "replay"]


def __getattr__(name: str) -> Any:
    # Compiled kernels and Arrow are loaded when first used, as everywhere in `skyband`.
    if name not in __all__:
        raise AttributeError(f"module 'skyband.aggregate' has no attribute {name!r}")
    from skyband.aggregate import monitor  # noqa: PLC0415

    value = getattr(monitor, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
