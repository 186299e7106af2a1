"""What a fault of a campaign is: a function of the stage and a random source that returns what it hit, or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

BLOWS = {}  # by kind


class Blow(NamedTuple):
    """A kind of fault. Two of one target are never injected at the same moment."""

    kind: str
    strike: Callable
    weight: int
    target: str
    ends_run: bool  # so that Spark must start again, which takes long
    possible: Callable  # whether the stage has what it takes


def blow(target, weight=4, *, ends_run=False, possible=lambda _: True):
    """Register a fault; its name is its kind."""

    def register(strike):
        kind = strike.__name__.replace("_", " ")
        BLOWS[kind] = Blow(kind, strike, weight, target, ends_run, possible)
        return strike

    return register
