"""Rank tuples that exist with a probability: possible-worlds semantics, and one shared plan for many queries.

>>> import skyband as sb
>>> sb.uncertain.topk_probabilities([80, 65, 50], [0.5, 0.4, 1.0], 1).tolist()
[0.5, 0.2, 0.3]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from skyband.uncertain.monitor import Monitor, replay
    from skyband.uncertain.probabilities import rank_probabilities, stream_probabilities, topk_probabilities
    from skyband.uncertain.scheduling import schedule
    from skyband.uncertain.semantics import rank

__all__ = [
    "Monitor",
    "rank",
    "rank_probabilities",
    "replay",
    "schedule",
    "stream_probabilities",
    "topk_probabilities",
]

# Compiled kernels and Arrow are imported on first use, as everywhere in `skyband`.
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "monitor": ["Monitor", "replay"],
        "probabilities": ["rank_probabilities", "stream_probabilities", "topk_probabilities"],
        "scheduling": ["schedule"],
        "semantics": ["rank"],
    },
)
