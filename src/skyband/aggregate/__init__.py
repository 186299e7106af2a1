"""Rank keys by an aggregate of their values in a sliding window: the largest totals, counts, maxima and so on.

>>> import skyband as sb
>>> query = sb.AggregateTopK(k=1, size=4, slide=2)
>>> sb.aggregate.replay(query, None, ["a", "b", "b", "a", "b", "b"], [5, 1, 2, 1, 4, 1])["key"].to_pylist()
['a', 'a', 'b']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from skyband.aggregate.monitor import Monitor, replay

__all__ = ["Monitor", "replay"]

# Compiled kernels and Arrow are imported on first use, as everywhere in `skyband`.
__getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs={"monitor": __all__})
