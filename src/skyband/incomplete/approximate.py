"""The approximate method: early aggregation that judges by what is likely to arrive, not by what is possible.

How likely an object appears in the streams where it has not been seen is estimated from sketches: of each stream which
objects it has had in the window (FM), and how often it repeats them (AMS). The best score of an instance is then the
highest that it comes to with some chance, and none at all if even that would not be among the k best of late.

Sketches are looked at anew after some tuples, more of them the more objects a window has; how many does not depend on
how the stream was cut into pushes, and so no answer does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.errors import UnsupportedError
from skyband.incomplete.early_aggregation import EarlyAggregation, Expected
from skyband.incomplete.engine import IncompleteShape, ObjectAnswers, joined
from skyband.incomplete.sketches import MOST_TABLED, AmsSketches, Sketches
from skyband.kernels.stream import Floats, Ints

__all__ = ["LikelyAggregation"]

MOST_STREAMS = 62
_LEAST_TUPLES = 64  # between two looks at the sketches
_LOOKS = 128  # looks while as many tuples come as there are objects, where these are many
_RISK = 0.55  # a score counts as likely if its chance is at least this share of the chance to be among the k best
_VALUES = 128  # of each stream, to know how they are distributed
_TAILS = np.linspace(1.0, 0.0, 65)
_SPANS = 18  # stretches up to now over which appearances are compared
_SPANS_TO_DOUBLE = 3
_SMOOTHING = 0.1  # the weight of a new look at them, against all before
_HURDLES = 8  # looks over which the lowest score of an answer is averaged
_NO_HASHES = np.empty(0, np.int64)


def still_to_come(seen: Floats, waited: Floats) -> Floats:
    """How likely a stream reports an object later, by the streams it was seen in and how long ago that was.

    `seen` are the chances that an object is in the stream as well, over the whole window. One half of those has been
    there before; so of the objects that have not, a share of ``half / (1 - half)`` is to come. `waited` is the share of
    those that come which have come by some age: the longer nothing came, the less likely it does.
    """
    half = seen / 2
    come = half / (1 - half)
    left = 1 - waited.reshape(-1, 1, 1)
    found: Floats = come * left / np.maximum(1 - come * (1 - left), 1e-12)
    return np.ascontiguousarray(np.clip(found, 0.0, 1.0))


def share_that_came(spans: Ints, pairs: Floats) -> Floats:
    """Of the objects that a second stream reports after a first one, which share it has reported by some age.

    `pairs` are the chances that an object is in a second stream within the same last span, for each span. Of an object
    seen at any moment of a span, the other has had the time since to follow, and the time before to be ahead; both are
    alike. So span times chance is twice the chance to have followed within some time, summed up over the span, and its
    steps tell that chance for each stretch. The share is that at the beginning of each stretch.
    """
    followed = np.diff(spans * pairs, prepend=0.0) / np.diff(spans, prepend=0)
    followed = np.maximum.accumulate(np.maximum(followed, 0.0))
    if followed[-1] <= 0.0:
        return np.zeros(spans.size)
    return np.concatenate([[0.0], followed[:-1] / followed[-1]])


class LikelyAggregation:
    """Keeps the instances that are likely to be in an answer."""

    def __init__(self, shape: IncompleteShape) -> None:
        if shape.d > MOST_STREAMS:
            raise UnsupportedError(
                f"method='approximate' supports at most {MOST_STREAMS} streams, got {shape.d} streams. Use "
                "method='exact'."
            )
        self.shape = shape
        self._early = EarlyAggregation(shape)
        self._seen = Sketches(shape.d)
        self._repeated = AmsSketches(shape.d, size=shape.size) if shape.occurrences > 1 else None
        self._recent = np.full((shape.d, _VALUES), shape.high)  # the last values of each stream; at first the best
        spans = shape.size * 2.0 ** (np.arange(1 - _SPANS, 1) / _SPANS_TO_DOUBLE)
        self._spans = np.unique(np.maximum(1, spans.astype(np.int64)))
        self._pairs = np.zeros(self._spans.size)
        self._hurdles = np.full(_HURDLES, -np.inf)
        self._tuples = 0
        # A look costs about as much as there are sets of streams.
        self._least = max(_LEAST_TUPLES, 4 << min(shape.d, MOST_TABLED))
        self._next = self._least  # the number of tuples at the next look

    @property
    def items(self) -> int:
        """Instances held."""
        return self._early.items

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> ObjectAnswers:
        """Take in tuples in stream order; answer every window that ends at or before the last of them, or `clock`."""
        parts = []
        low = 0
        while low < objects.size:
            high = min(objects.size, low + self._next - self._tuples)
            part = slice(low, high)
            parts.append(
                self._early.advance(positions[part], objects[part], streams[part], values[part], _NO_HASHES, None)
            )
            self._observe(positions[part], streams[part], hashes[part], values[part])
            low = high
        none = positions[:0]
        parts.append(self._early.advance(none, none, none, values[:0], _NO_HASHES, clock))
        return joined(parts)

    def _observe(self, positions: Ints, streams: Ints, hashes: Ints, values: Floats) -> None:
        self._tuples += positions.size
        for stream in range(self.shape.d):
            mine = values[streams == stream][-_VALUES:]
            self._recent[stream] = np.concatenate([self._recent[stream, mine.size :], mine])
        self._seen.observe(streams, hashes, positions)
        if self._repeated is not None:
            self._repeated.observe(streams, hashes, positions)
        if self._tuples == self._next:
            self._reconsider(int(positions[-1]))

    def _reconsider(self, now: int) -> None:
        """Look at the sketches, and judge what is held by them."""
        start = now - self.shape.size + 1
        masks = np.arange(1 << self.shape.d) if self.shape.d <= MOST_TABLED else self._early.masks_in_use()
        repeats = np.ones(self.shape.d) if self._repeated is None else self._repeated.reoccurrences(start)
        seen = self._chances(masks, start)
        objects = self._seen.distinct(start)
        self._next += max(self._least, int(objects) // _LOOKS)
        self._pairs += (self._seen.pairs(now + 1 - self._spans) - self._pairs) * _SMOOTHING
        self._hurdles = np.append(self._hurdles[1:], self._early.kth_score())
        hurdle = float(self._hurdles.mean())
        tails = np.quantile(self._recent, _TAILS, axis=1).T
        self._early.expect(
            Expected(
                masks,
                still_to_come(seen, share_that_came(self._spans, self._pairs)),
                self._spans[:-1].copy(),
                repeats,
                np.ascontiguousarray(tails),
                _RISK * self.shape.k / max(objects, self.shape.k),
                hurdle,
            )
        )
        self._early.reconsider(now)

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
            "recent": self._recent.copy(),
            "pairs": self._pairs.copy(),
            "hurdles": self._hurdles.copy(),
            "tuples": self._tuples,
            "next": self._next,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` was taken of."""
        self._early.load(state["early"])
        self._seen.load(state["seen"])
        if self._repeated is not None:
            self._repeated.load(state["repeated"])
        self._recent = state["recent"]
        self._pairs = state["pairs"]
        self._hurdles = state["hurdles"]
        self._tuples, self._next = state["tuples"], state["next"]
