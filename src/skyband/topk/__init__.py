"""Rank single rows by a score: the k best of a sliding window, for one query or thousands of them.

>>> import skyband as sb
>>> sb.topk.replay(sb.TopK(k=1, size=3, slide=1), None, [4.0, 8.0, 6.0, 2.0])["score"].to_pylist()
[4.0, 8.0, 8.0, 8.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from skyband.topk.monitor import Monitor, replay

__all__ = ["Monitor", "replay"]

# Compiled kernels and Arrow are imported when first used, as everywhere in `skyband`.
__getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs={"monitor": __all__})
