"""The algorithms by name, with a line each."""

from __future__ import annotations

from skyband.algorithms import ENGINES

__all__ = ["algorithms"]


def algorithms() -> dict[str, str]:
    """Every algorithm that `Monitor` and `replay` take by name, with a line on what it does.

    >>> import skyband as sb
    >>> "mintopk" in sb.algorithms()
    True
    """
    return {name: engine.summary for name, engine in ENGINES.items()}
