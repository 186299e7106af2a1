"""The approximate methods: early aggregation with likely or expected scores instead of best possible scores.

Sketches per stream estimate the probability that an object appears in streams where it has not been seen: which objects
the stream had in the window (FM), and how often it repeats them (AMS).

`ExpectedAggregation` is the published algorithm: a missing value counts as its upper bound times that probability.
`LikelyAggregation` also considers how long an object has waited, and the distribution of values: the best score of an
instance is the highest score that it reaches with some probability. It is the current score if that would not have been
in recent top-k answers.

The estimates are updated after a number of tuples that grows with the number of objects in a window. This number does
not depend on how the stream is split into pushes, so answers do not depend on it either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.errors import UnsupportedError
from skyband.incomplete.early_aggregation import EarlyAggregation, Expected
from skyband.incomplete.engine import IncompleteShape, ObjectAnswers, joined
from skyband.incomplete.kernels import prospects
from skyband.incomplete.kernels.attributes import AVG, score_of
from skyband.incomplete.sketches import MOST_TABLED, AmsSketches, Sketches
from skyband.kernels.stream import Floats, Ints

__all__ = ["ExpectedAggregation", "LikelyAggregation"]

MOST_STREAMS = 62
_LEAST_TUPLES = 64  # minimum tuples between two updates of the estimates
_LOOKS = 128  # with many objects: number of updates per as many tuples as there are objects
_MOST_AWAITED = 5  # streams up to which this keeps fewer instances than the published form, at the same precision
_PRICE = 0.55  # an instance is worth its place if it serves this share of what the average object serves
_MEMORY = 4  # windows over which delays are remembered
_DOUBT = 0.1  # windows of waiting that it takes to replace half of a rate that was assumed
_MOST_FOLLOWED = 2  # streams up to which likely scores are measured to be better than expected ones
_MOST_AGED = 4  # streams up to which expected scores by age are better than the published ones
_OPTIMISM = 7.0  # factor of the probability that a stream follows, in expected scores by age
_RISK = 0.55  # a score is likely if its probability is at least this share of the probability to be in the top k
_VALUES = 128  # recent values per stream, to estimate their distribution
_TAILS = np.linspace(1.0, 0.0, 65)
_SPANS = 18  # number of time spans up to now over which appearances are compared
_SPANS_TO_DOUBLE = 3  # spans double in length every so many
_SMOOTHING = 0.1  # weight of a new estimate in the moving average
_HURDLES = 8  # updates over which the k-th best score is averaged
_NO_HASHES = np.empty(0, np.int64)


def still_to_come(seen: Floats, waited: Floats) -> Floats:
    """Return the probability that a stream will still report an object, by mask of streams and time since last seen.

    `seen` are the probabilities that an object is also in the stream, over the complete window. For half of these
    objects, the stream reported first. So of the objects that the stream has not reported, a share of
    ``half / (1 - half)`` is still to come. `waited` is the share of these that have arrived by some age: the longer the
    wait, the smaller the probability.
    """
    half = seen / 2
    come = half / (1 - half)
    left = 1 - waited.reshape(-1, 1, 1)
    found: Floats = come * left / np.maximum(1 - come * (1 - left), 1e-12)
    return np.ascontiguousarray(np.clip(found, 0.0, 1.0))


def share_that_came(spans: Ints, pairs: Floats) -> Floats:
    """Return, per span, the share of reports of a second stream that have arrived by the start of the span.

    `pairs` has, for each span, the probability that an object of one stream is in a second one within the same span.
    For an object seen at some time of a span, the second report can come before or after it, with equal probability. So
    ``span * pairs`` is twice the probability of a report within a given delay, integrated over the span. Its
    differences give that probability for each interval between two spans. The result is the value at the start of each
    interval.
    """
    followed = np.diff(spans * pairs, prepend=0.0) / np.diff(spans, prepend=0)
    followed = np.maximum.accumulate(np.maximum(followed, 0.0))
    if followed[-1] <= 0.0:
        return np.zeros(spans.size)
    return np.concatenate([[0.0], followed[:-1] / followed[-1]])


class ExpectedAggregation:
    """Keep the instances that may be in an answer if missing values come as expected: the published algorithm.

    The best score of an instance takes ``low + Pr * (high - low)`` for a stream that has not reported the object, where
    Pr is the probability that it does, given the streams that have. With ``low = 0`` this is probability times bound.

    References
    ----------
    P. Haghani, S. Michel, K. Aberer: Evaluating top-k queries over incomplete data streams, CIKM 2009, sections 4 and
    5. Differences: the number of distinct objects of a stream is estimated like that of a union, because both errors
    mostly cancel; the estimates are updated at regular intervals, and with them the best scores of all instances.
    """

    def __init__(self, shape: IncompleteShape) -> None:
        if shape.d > MOST_STREAMS:
            raise UnsupportedError(
                f"approximate methods support at most {MOST_STREAMS} streams, got {shape.d} streams. Use "
                "method='exact'."
            )
        self.shape = shape
        self._early = EarlyAggregation(shape, lossy=True)
        self._seen = Sketches(shape.d)
        self._repeated = AmsSketches(shape.d, size=shape.size) if shape.occurrences > 1 else None
        self._tuples = 0
        self._then: int | None = None  # position of the last update, at first of the first tuple
        # The cost of an update grows with the number of sets of streams.
        self._least = max(_LEAST_TUPLES, 4 << min(shape.d, MOST_TABLED))
        self._next = self._least  # number of tuples at the next update

    @property
    def items(self) -> int:
        """Number of instances held."""
        return self._early.items

    @property
    def repeated(self) -> int:
        """Number of tuples dropped because their stream had reported the object before, if declared once."""
        return self._early.repeated

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> ObjectAnswers:
        """Process tuples in stream order and answer every window that ends at or before the last one, or `clock`."""
        parts = []
        low = 0
        while low < objects.size:
            high = min(objects.size, low + self._next - self._tuples)
            part = slice(low, high)
            parts.append(
                self._early.advance(positions[part], objects[part], streams[part], values[part], hashes[part], None)
            )
            self._observe(positions[part], streams[part], hashes[part], values[part])
            low = high
        none = positions[:0]
        parts.append(self._early.advance(none, none, none, values[:0], _NO_HASHES, clock))
        return joined(parts)

    def _observe(self, positions: Ints, streams: Ints, hashes: Ints, values: Floats) -> None:
        self._tuples += positions.size
        if self._then is None:
            self._then = int(positions[0])
        self._seen.observe(streams, hashes, positions)
        if self._repeated is not None:
            self._repeated.observe(streams, hashes, positions)
        if self._tuples == self._next:
            self._reconsider(int(positions[-1]))

    def _reconsider(self, now: int) -> None:
        """Update the estimates from the sketches and recompute the best scores of all instances."""
        start = now - self.shape.size + 1
        masks = np.arange(1 << self.shape.d) if self.shape.d <= MOST_TABLED else self._early.masks_in_use()
        repeats = np.ones(self.shape.d) if self._repeated is None else self._repeated.reoccurrences(start)
        seen = self._chances(masks, start)
        objects = self._seen.distinct(start)
        self._next += max(self._least, int(objects) // _LOOKS)
        self._early.expect(self._expected(now, masks, seen, repeats, objects))
        self._early.reconsider(now, now - (now if self._then is None else self._then))
        self._then = now

    def _expected(self, now: int, masks: Ints, seen: Floats, repeats: Floats, objects: float) -> Expected:
        """Return what the engine expects, given the probabilities `seen` over the window."""
        tails = np.empty((self.shape.d, 0))
        return Expected(masks, np.ascontiguousarray(seen[None]), _NO_HASHES, repeats, tails, 0.0, -np.inf)

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
        """Return the keys of the objects that have an instance."""
        return self._early.objects_in_use()

    def metrics(self) -> dict[str, int]:
        """Return counters of the work done, and the size of the sketches in bytes."""
        sketches = self._seen.bytes + (0 if self._repeated is None else self._repeated.bytes)
        return {**self._early.metrics(), "sketch_bytes": sketches}

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {
            "early": self._early.state(),
            "seen": self._seen.state(),
            "repeated": None if self._repeated is None else self._repeated.state(),
            "tuples": self._tuples,
            "next": self._next,
            "then": self._then,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self._early.load(state["early"])
        self._seen.load(state["seen"])
        if self._repeated is not None:
            self._repeated.load(state["repeated"])
        self._tuples, self._next, self._then = state["tuples"], state["next"], state["then"]


class LikelyAggregation(ExpectedAggregation):
    """Keep only the instances that are likely to be in an answer.

    Sums and means over up to five streams that report an object once per window: an instance is kept while what it is
    expected to add to answers is worth its place, see `skyband.incomplete.kernels.prospects`.

    Otherwise, probabilities decrease with the time since an object was last seen, and instances that do not reach
    recent answers get no upper bound above their current score. Over two streams, the best score is a likely one; over
    three and four, an expected one, with a probability that is several times higher; over more, the published one.
    Decisions 73, 89 and 110 have the measurements.
    """

    def __init__(self, shape: IncompleteShape) -> None:
        super().__init__(shape)
        self._recent = np.repeat(shape.highs, _VALUES).reshape(shape.d, _VALUES)  # recent values, at first the bound
        spans = shape.size * 2.0 ** (np.arange(1 - _SPANS, 1) / _SPANS_TO_DOUBLE)
        self._spans = np.unique(np.maximum(1, spans.astype(np.int64)))
        self._pairs = np.zeros(self._spans.size)
        self._hurdles = np.full(_HURDLES, -np.inf)
        self._awaits = shape.d <= _MOST_AWAITED and shape.scoring.aggregate <= AVG and shape.occurrences == 1
        self._edges = np.append(0.0, self._spans)  # limits of the ages
        ages = self._spans.size if self._awaits else 0
        self._prospects = prospects.no_prospects(shape.d, ages)
        self._rates = np.zeros((shape.d + 1, ages))
        self._tails, self._cell, self._price = np.zeros((0, 0)), 1.0, 0.0
        if self._awaits:
            self._early.await_followers(self._prospects, self._spans[:-1].copy())

    def _observe(self, positions: Ints, streams: Ints, hashes: Ints, values: Floats) -> None:
        for stream in range(self.shape.d):
            mine = values[streams == stream][-_VALUES:]
            self._recent[stream] = np.concatenate([self._recent[stream, mine.size :], mine])
        super()._observe(positions, streams, hashes, values)

    def _expected(self, now: int, masks: Ints, seen: Floats, repeats: Floats, objects: float) -> Expected:
        if self._awaits:
            return self._awaited(now, masks, repeats, objects)
        if self.shape.d > _MOST_AGED:
            return super()._expected(now, masks, seen, repeats, objects)
        self._pairs += (self._seen.pairs(now + 1 - self._spans) - self._pairs) * _SMOOTHING
        self._hurdles = np.append(self._hurdles[1:], self._early.kth_score())
        chances = still_to_come(seen, share_that_came(self._spans, self._pairs))
        tails = np.ascontiguousarray(np.quantile(self._recent, _TAILS, axis=1).T)
        if self.shape.d > _MOST_FOLLOWED:
            chances, tails = np.minimum(_OPTIMISM * chances, 1.0), tails[:, :0].copy()
        return Expected(
            masks,
            chances,
            self._spans[:-1].copy(),
            repeats,
            tails,
            _RISK * self.shape.k / max(objects, self.shape.k),
            float(self._hurdles.mean()),
        )

    def _awaited(self, now: int, masks: Ints, repeats: Floats, objects: float) -> Expected:
        """Update the estimates from the delays between reports, and from recent values."""
        elapsed = 0 if self._then is None else now - self._then
        self._prospects.follows[:] *= np.exp(-elapsed / (_MEMORY * self.shape.size))
        came, waited = self._prospects.follows
        doubt = _DOUBT * self.shape.size
        rate = np.full(self.shape.d + 1, 1.0 / self.shape.size)
        for age in range(self._spans.size):
            # At ages that hardly any object was held for, the rate is assumed to be that of the age before.
            rate = self._rates[:, age] = (came[:, age] + doubt * rate) / (waited[:, age] + doubt)
        self._hurdles = np.append(self._hurdles[1:], self._early.kth_score())
        weights = self.shape.scoring.weights / (self.shape.d if self.shape.scoring.aggregate == AVG else 1)
        contributions = (self._recent - self.shape.lows[:, None]) * weights[:, None]
        self._tails, self._cell = prospects.tails_of(contributions)
        self._price = _PRICE * self.shape.k / max(objects, self.shape.k)
        self._await(now)
        none = np.zeros((1, masks.size, self.shape.d))
        hurdle = float(self._hurdles.mean())
        return Expected(masks, none, self._spans[:-1].copy(), repeats, np.empty((self.shape.d, 0)), self._price, hurdle)

    def _await(self, now: int) -> None:
        """Pass the estimates to the engine."""
        rise = float(self._hurdles.mean()) - float(score_of(self.shape.lows, self.shape.scoring, False))
        gains = prospects.highest_gains(self._rates, self._edges, self._tails, self._cell, rise, self._price)
        self._prospects = self._prospects._replace(gains=gains, then=now)
        self._early.await_followers(self._prospects, self._spans[:-1].copy())

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {
            **super().state(),
            "recent": self._recent.copy(),
            "pairs": self._pairs.copy(),
            "hurdles": self._hurdles.copy(),
            "prospects": self._prospects_state(),
        }

    def _prospects_state(self) -> dict[str, Any] | None:
        if not self._awaits:
            return None
        return {
            "follows": self._prospects.follows.copy(),
            "rates": self._rates.copy(),
            "tails": self._tails,
            "cell": self._cell,
            "price": self._price,
            "then": self._prospects.then,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        super().load(state)
        self._recent, self._pairs, self._hurdles = state["recent"], state["pairs"], state["hurdles"]
        found = state["prospects"]
        if self._awaits and found is not None:
            self._prospects.follows[:] = found["follows"]
            self._rates, self._tails, self._cell = found["rates"], found["tails"], found["cell"]
            self._price = found["price"]
            if self._tails.size:
                self._await(found["then"])
