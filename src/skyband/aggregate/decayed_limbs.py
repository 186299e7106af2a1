"""The limbs of decayed totals in an engine: a limb moves by one from epoch to epoch, and old limbs are dropped.

Kernels know neither weights nor epochs. They process the rows and the window ends of one epoch at a time, and count
limbs from that epoch, the *base*. Totals of earlier epochs then are small numbers, in lower limbs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.aggregate.addends import Addends
from skyband.aggregate.decay import Decay
from skyband.aggregate.decayed_sums import add_decayed, limbs_needed
from skyband.aggregate.kernels.partials import FIRST_LIMB, State
from skyband.aggregate.kernels.totals import Partials
from skyband.aggregate.shape import AggregateShape
from skyband.kernels.stream import Ints
from skyband.windows import NEVER

if TYPE_CHECKING:
    from skyband.aggregate.engine import KeyRows

__all__ = ["DecayedLimbs"]


class DecayedLimbs:
    """The base of an engine, and which limbs it needs. `Addends` have absolute limbs, which no base changes."""

    def __init__(self, shape: AggregateShape, decay: Decay) -> None:
        self._shape, self._decay = shape, decay
        self.base: int | None = None  # the epoch that kernels count limbs from; None before the first row
        self._lowest: int | None = None  # the lowest limb of any value, relative to its epoch; None: not known

    @property
    def has_weights(self) -> bool:
        """Whether weights are summed beside weighted values."""
        return self._decay.mean

    @property
    def epoch_end(self) -> int:
        """The last window end whose scores are relative to the base."""
        return self.begin_of((self.base or 0) + 1)

    def begin_of(self, epoch: int) -> int:
        """Return the first position of an epoch."""
        return epoch * self._decay.epoch

    def epoch_of(self, end: int) -> int:
        """Return the epoch of a window end."""
        return (end - 1) // self._decay.epoch

    def by_epoch(self, rows: KeyRows) -> Iterator[tuple[int, KeyRows]]:
        """Yield rows with weighted values, by epoch."""
        values = np.ones(rows.slots.size) if self._shape.counts_decayed else rows.values
        weighted, epochs = self._decay.weighted(values, rows.positions)
        for epoch, mine in _runs(epochs):
            part = rows._replace(slots=rows.slots[mine], positions=rows.positions[mine], values=weighted[mine])
            yield epoch, part._replace(ids=rows.ids[mine] if rows.ids.size else rows.ids)

    def runs(self, positions: Ints) -> Iterator[tuple[int, slice]]:
        """Yield the epochs of ascending positions, and the range of each."""
        yield from _runs(positions // self._decay.epoch)

    def holding(self, addends: Addends, bits: Ints) -> Addends:
        """Return the addends extended by the limbs of weighted values of the base's epoch."""
        return addends.joined(self._noted(Addends(addends.powers).holding(bits)))

    def partials(self, rows: KeyRows) -> tuple[Partials, Addends]:
        """Return a partial for each row with a weighted value of the base's epoch, with its weight; for a mean."""
        addends, count = limbs_needed(self._decay, rows.values, rows.positions), rows.slots.size
        adds, lasts = np.zeros((count, addends.width), np.int64), rows.positions.copy()
        add_decayed(self._decay, np.arange(count), rows.positions, rows.values, addends, adds, lasts)
        none = np.empty((count, 0), np.int64)
        found = Partials(rows.slots, rows.positions, rows.positions, adds, np.empty((count, 0)), none, none)
        return found, self._noted(addends)

    def _noted(self, addends: Addends) -> Addends:
        """Take note of limbs relative to the base; return the absolute ones."""
        if not addends.limbs:
            return addends
        self._lowest = addends.low if self._lowest is None else min(self._lowest, addends.low)
        return addends._replace(low=addends.low + (self.base or 0))

    def note(self, rows: Partials, addends: Addends) -> None:
        """Take note of the limbs of partials."""
        if rows.positions.size and addends.limbs:
            low = addends.low - int(rows.positions.max()) // self._decay.epoch
            self._lowest = low if self._lowest is None else min(self._lowest, low)

    def trimmed(self, addends: Addends, state: State) -> Addends:
        """Return the addends without the limbs that only rows of past windows could have."""
        if not addends.limbs or self._lowest is None:
            return addends
        ends = [int(end) for end in state.next_end if end != NEVER]
        moment = min([self.begin_of(self.base or 0), *ends])
        windows = [query.window for query in self._shape.queries]
        oldest = min(window.start(window.first_end_after(moment - 1)) for window in windows)
        first = min(oldest // self._decay.epoch + self._lowest, addends.low + addends.limbs)
        dropped = 0
        while addends.low + dropped < first and not any(_holds(state, column) for column in _limb(addends, dropped)):
            dropped += 1
        if dropped == addends.limbs:
            return Addends(addends.powers)
        return addends._replace(low=addends.low + dropped, limbs=addends.limbs - dropped)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`. The base follows from the next rows."""
        return {"lowest": self._lowest}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self._lowest, self.base = state.get("lowest"), None


def _limb(addends: Addends, number: int) -> Iterator[int]:
    """Yield the columns of a limb: of values, and of weights if there are sums of them."""
    yield FIRST_LIMB + number
    if addends.powers > 1:
        yield FIRST_LIMB + addends.limbs + 2 * number


def _holds(state: State, column: int) -> bool:
    """Return whether a column of the totals of any window is not 0."""
    return bool((state.added[:, column] != state.left[:, :, column]).any())


def _runs(numbers: Ints) -> Iterator[tuple[int, slice]]:
    """Yield equal numbers that follow each other, and the range of each."""
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), numbers.size], strict=True):
        if low < high:
            yield int(numbers[low]), slice(low, high)
