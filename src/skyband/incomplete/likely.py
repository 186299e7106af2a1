"""The approximate method: early aggregation that judges by what is likely to arrive, not by what is possible.

How likely an object appears in the streams where it has not been seen is estimated from sketches: of each stream which
objects it has had in the window (FM), and how often it repeats them (AMS). They are looked at anew after a fixed
number of tuples, so that answers do not depend on how the stream was cut into pushes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.incomplete.answers import Answers, joined
from skyband.incomplete.early import EarlyAggregation
from skyband.incomplete.shape import Shape
from skyband.incomplete.sketches import MOST_TABLED, AmsSketches, Sketches
from skyband.kernels.stream import Floats, Ints

__all__ = ["LikelyAggregation"]

_LEAST_TUPLES = 64  # between two looks at the sketches
_NO_HASHES = np.empty(0, np.int64)


class LikelyAggregation:
    """Keeps the instances that are likely to be in an answer."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._early = EarlyAggregation(shape)
        self._seen = Sketches(shape.d)
        self._repeated = AmsSketches(shape.d, size=shape.size) if shape.occurrences > 1 else None
        self._tuples = 0
        # A look costs about as much as there are sets of streams.
        self._between = max(_LEAST_TUPLES, 4 << min(shape.d, MOST_TABLED))

    @property
    def items(self) -> int:
        """Instances held."""
        return self._early.items

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> Answers:
        """Take in tuples in stream order; answer every window that ends at or before the last of them, or `clock`."""
        parts = []
        low = 0
        while low < objects.size:
            high = min(objects.size, low + self._between - self._tuples % self._between)
            part = slice(low, high)
            parts.append(
                self._early.advance(positions[part], objects[part], streams[part], values[part], _NO_HASHES, None)
            )
            self._observe(positions[part], streams[part], hashes[part])
            low = high
        none = positions[:0]
        parts.append(self._early.advance(none, none, none, values[:0], _NO_HASHES, clock))
        return joined(parts)

    def _observe(self, positions: Ints, streams: Ints, hashes: Ints) -> None:
        self._tuples += positions.size
        self._seen.observe(streams, hashes, positions)
        if self._repeated is not None:
            self._repeated.observe(streams, hashes, positions)
        if self._tuples % self._between == 0:
            start = int(positions[-1]) - self.shape.size + 1
            masks = np.arange(1 << self.shape.d) if self.shape.d <= MOST_TABLED else self._early.masks_in_use()
            repeats = np.ones(self.shape.d) if self._repeated is None else self._repeated.reoccurrences(start)
            self._early.expect(masks, self._chances(masks, start), repeats)

    def _chances(self, masks: Ints, start: int) -> Floats:
        if self.shape.d <= MOST_TABLED:
            return self._seen.chances(start)
        streams = range(self.shape.d)
        rows = [
            self._seen.chances_given([stream for stream in streams if mask >> stream & 1], start)
            for mask in masks.tolist()
        ]
        return np.array(rows).reshape(len(rows), self.shape.d)

    def objects_in_use(self) -> Ints:
        """The keys of the objects that have an instance."""
        return self._early.objects_in_use()

    def metrics(self) -> dict[str, int]:
        """What was done so far, and the memory of the sketches."""
        sketches = self._seen.bytes + (0 if self._repeated is None else self._repeated.bytes)
        return {**self._early.metrics(), "sketch_bytes": sketches}

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs."""
        return {
            "early": self._early.state(),
            "seen": self._seen.state(),
            "repeated": None if self._repeated is None else self._repeated.state(),
            "tuples": self._tuples,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` was taken of."""
        self._early.load(state["early"])
        self._seen.load(state["seen"])
        if self._repeated is not None:
            self._repeated.load(state["repeated"])
        self._tuples = state["tuples"]
