"""All faults of a campaign, and how they are drawn."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.faults.campaign import on_input, on_machine, on_processes, on_servers
from tests.faults.campaign.blow import BLOWS, Blow

MODULES = (on_input, on_machine, on_processes, on_servers)
SIZES = (1, 8, 16, 32, 64, 64)  # faults of a burst
AT_ONCE = (1, 1, 2, 3)  # faults at the same moment
GAP = 0.7  # seconds, the most between two moments of a burst
ENDS = 0.3  # of all bursts may end the run, which takes a start of Spark
OFTEN = 5  # times the weight of what ends the run, in these bursts


class Drawn(NamedTuple):
    """A fault that was drawn: its kind, and the source of whatever it draws."""

    blow: Blow
    seed: int


class Moment(NamedTuple):
    """Faults that are injected at once, and how many seconds follow."""

    drawn: list[Drawn]
    pause: float


def bursts(seed, kinds):
    """Bursts of faults without end: the same for the same seed and kinds, however long each takes."""
    source = random.Random(seed)
    while True:
        left, burst = source.choice(SIZES), []
        ends = OFTEN if source.random() < ENDS else 0
        weights = [BLOWS[kind].weight * (ends if BLOWS[kind].ends_run else 1) for kind in kinds]
        while left > 0:
            drawn = []
            for _ in range(min(left, source.choice(AT_ONCE))):
                name = source.choices(kinds, weights)[0]
                number, found = source.getrandbits(32), BLOWS[name]
                if found.target not in {one.blow.target for one in drawn}:
                    drawn.append(Drawn(found, number))
            left -= len(drawn)
            if drawn:
                burst.append(Moment(drawn, source.uniform(0, GAP)))
        yield burst
