"""Rank objects whose attributes arrive in several streams at different times, or not at all.

>>> import skyband as sb
>>> query = sb.IncompleteTopK(k=1, size=3, every=1)
>>> answers = sb.incomplete.replay(query, None, ["a", "b", "a"], ["x", "x", "y"], [0.5, 0.6, 0.4])
>>> answers["object"].to_pylist(), answers["score"].to_pylist()
(['a', 'b', 'a'], [0.5, 0.6, 0.9])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from skyband.incomplete.measures import precision, relative_error
    from skyband.incomplete.monitor import Monitor, replay

__all__ = ["Monitor", "precision", "relative_error", "replay"]

# Compiled kernels and Arrow are imported on first use, as everywhere in `skyband`.
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={"measures": ["precision", "relative_error"], "monitor": ["Monitor", "replay"]},
)
