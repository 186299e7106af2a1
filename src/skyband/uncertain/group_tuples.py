"""The tuples of one group, and the probability sums of its rules.

On a time axis, all groups are answered at the moments of one timetable. A group on a count axis has its own, because
its tuples are numbered separately.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.label_dictionaries import RuleDictionary
from skyband.uncertain.timetable import Timetable
from skyband.uncertain.tuple_store import TupleStore
from skyband.windows import ALWAYS

__all__ = ["GroupTuples"]


class GroupTuples:
    """The tuples of a group. Rules exclude tuples of their group only."""

    def __init__(self, size: int, times: Timetable | None) -> None:
        self.store = TupleStore(few=True)
        self.times = times  # None on a time axis
        self.objects = 0  # number of its tuples so far
        self.newest = ALWAYS  # position of its newest tuple
        self._size = size
        self._rules: RuleDictionary | None = None

    @property
    def remembered(self) -> int:
        """Number of tuples kept to compute the probability sums of rules."""
        return 0 if self._rules is None else len(self._rules)

    def enter_rules(self, rules: pa.Array, places: Ints, chances: Floats, kind: pa.DataType | None) -> Ints:
        """Store the rules of tuples and return their codes, -1 for none; raise if a sum of probabilities exceeds 1."""
        if self._rules is None and rules.null_count == len(rules):
            return np.full(places.size, -1)
        if self._rules is None:
            self._rules = RuleDictionary(self._size, lambda: self.store.rules_in_use, few=True)
        return self._rules.enter(rules, None, places, chances, kind)

    def withdraw_rules(self) -> None:
        """Undo the last call of `enter_rules`."""
        if self._rules is not None:
            self._rules.withdraw()

    def is_over(self, now: int) -> bool:
        """Whether no window that ends after `now` contains one of its tuples, on a time axis."""
        return self.newest <= now - self._size

    def state(self, id_kind: pa.DataType) -> dict[str, Any]:
        """Return the state for `load`."""
        return {
            "store": self.store.state(id_kind),
            "rules": None if self._rules is None else self._rules.state(),
            "times": None if self.times is None else self.times.state(),
            "objects": self.objects,
            "newest": self.newest,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self.store.load(state["store"])
        self.objects, self.newest = state["objects"], state["newest"]
        if self.times is not None:
            self.times.load(state["times"])
        if state["rules"] is not None:
            self._rules = RuleDictionary(self._size, lambda: self.store.rules_in_use, few=True)
            self._rules.load(state["rules"])
