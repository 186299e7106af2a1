"""Ranking readings that are only probably true: possible worlds, and many queries answered by one shared plan.

>>> import skyband as sb
>>> sb.uncertain.topk_probabilities([80, 65, 50], [0.5, 0.4, 1.0], 1).tolist()
[0.5, 0.2, 0.3]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.planning import schedule
    from skyband.uncertain.monitor import Monitor, replay
    from skyband.uncertain.probabilities import rank_probabilities, stream_probabilities, topk_probabilities
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

# Compiled kernels and Arrow are loaded when first used, as everywhere in `skyband`.
_LATER = {
    "Monitor": "skyband.uncertain.monitor",
    "replay": "skyband.uncertain.monitor",
    "rank": "skyband.uncertain.semantics",
    "rank_probabilities": "skyband.uncertain.probabilities",
    "schedule": "skyband.planning",
    "stream_probabilities": "skyband.uncertain.probabilities",
    "topk_probabilities": "skyband.uncertain.probabilities",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'skyband.uncertain' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
