"""Dictionaries of stream and rule labels, and the probability sums of rules per window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.key_dictionary import KeyColumn, KeyDictionary, key_column, restored
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.columns import SLACK, labels
from skyband.uncertain.kernels import rule_sums
from skyband.uncertain.kernels.rule_sums import HEAD, TAIL, UNITS, RuleLedger

__all__ = ["RuleDictionary", "StreamDictionary", "checked_labels"]

_FEW = 1024
_LEAST = 16  # of the rules of a group
_LIMIT = int((1 + SLACK) * UNITS)


def checked_labels(column: Any, needed: Any = None) -> KeyColumn:
    """Return validated stream labels. Null is rejected where the mask `needed` is True, or everywhere without it."""
    found = key_column(column, "streams")
    lacking = found.stored.is_null().to_numpy(zero_copy_only=False)
    if needed is not None:
        lacking &= needed
    if lacking.any():
        raise InvalidInputError(
            f"stream must not be null, got null at row {int(np.argmax(lacking))}. Streams are ranked by their tuples, "
            "so each tuple needs a stream; this batch was rejected."
        )
    return found


class StreamDictionary:
    """Dictionary of the stream labels of held tuples. `in_use` returns the codes of held tuples."""

    def __init__(self, in_use: Any) -> None:
        self._in_use = in_use
        self._kind: pa.DataType | None = None
        self._book = KeyDictionary(self._unused)
        self.unlabelled: int | None = None  # position of the newest tuple without a stream

    @property
    def kind(self) -> pa.DataType:
        """Type of the labels in answers."""
        return pa.string() if self._kind is None else self._kind

    def check(self, column: Any, needed: Any) -> KeyColumn | None:
        """Return validated labels without storing them. A label is required where `needed` is True."""
        if column is None:
            if needed.any():
                raise InvalidInputError(
                    "streams=None, but a query ranks streams. Pass streams= with a label for every tuple; this batch "
                    "was rejected."
                )
            return None
        found = checked_labels(column, needed)
        if found.kind is not None and self._kind is not None and found.kind != self._kind:
            raise InvalidInputError(
                f"streams changed type from {self._kind} to {found.kind}, so one stream would be counted as two. Cast "
                "the column to one type; this batch was rejected."
            )
        return found

    def enter(self, found: KeyColumn | None, kept: Ints | None, positions: Ints) -> Ints:
        """Store the labels of the tuples in `kept` and return their codes, -1 for none."""
        codes = np.full(positions.size, -1)
        if found is not None and found.kind is not None:
            self._kind = self._kind or found.kind
            stored = found.stored if kept is None else found.stored.take(pa.array(kept))
            there = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False))
            codes[there] = self._book.slots_of(stored.take(pa.array(there)))
        lacking = np.flatnonzero(codes < 0)
        if lacking.size:
            self.unlabelled = int(positions[lacking[-1]])
        return codes

    def stored(self, codes: Ints) -> pa.Array:
        """Return the labels of codes, in a form with the same order."""
        return self._book.values(codes)

    def labels(self, codes: Ints) -> pa.Array:
        """Return the labels of codes, in the type of the input."""
        return restored(self._book.values(codes), self.kind)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        book = self._book.state()
        return {
            "kind": pa.schema([] if self._kind is None else [("stream", self._kind)]).serialize().to_pybytes(),
            "book": book,
            "labels": to_bytes(pa.table({"stream": self._book.values(book["slots"])})),
            "unlabelled": self.unlabelled,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        kinds = pa.ipc.read_schema(pa.py_buffer(state["kind"]))
        self._kind = kinds.field(0).type if len(kinds) else None
        if self._kind is not None:
            self._book.load(state["book"], one(from_bytes(state["labels"])["stream"]))
        self.unlabelled = state["unlabelled"]

    def _unused(self, slots: int) -> Any:
        unused = np.ones(slots, bool)
        unused[self._in_use()] = False
        return unused


class RuleDictionary:
    """Dictionary of the rule labels of the newest window. `in_use` returns the codes of held tuples."""

    def __init__(self, size: int, in_use: Any, *, few: bool = False) -> None:
        self._room = _LEAST if few else _FEW
        self._before = (0, 0)  # the bounds of the ledger before the last call of `enter`
        self._size = size
        self._in_use = in_use
        self._kind: pa.DataType | None = None
        self._book = KeyDictionary(self._unused)
        self._ledger: RuleLedger = rule_sums.empty_ledger(self._room, self._room)

    def __len__(self) -> int:
        """Return the number of tuples kept to compute the probability sums of rules."""
        return int(self._ledger.registers[TAIL] - self._ledger.registers[HEAD])

    def enter(
        self, column: Any, kept: Ints | None, positions: Ints, probabilities: Floats, kind: pa.DataType | None
    ) -> Ints:
        """Store the rules of the tuples in `kept` and return their codes, -1 for none.

        If a rule's probabilities exceed 1, an error is raised and nothing is stored. `kind` is the type in which the
        message shows positions, None for count windows.
        """
        rows = positions.size
        codes = np.full(rows, -1)
        self._before = self._bounds
        if column is None:
            return codes
        found = labels(column)
        if found.kind is not None and self._kind is not None and found.kind != self._kind:
            raise InvalidInputError(
                f"rules changed type from {self._kind} to {found.kind}, so one rule would be counted as two. Cast the "
                "column to one type; this batch was rejected."
            )
        stored = found.stored if kept is None else found.stored.take(pa.array(kept))
        ruled = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False))
        if not ruled.size:
            return codes
        mine = stored.take(pa.array(ruled))
        codes[ruled] = self._book.slots_of(mine)
        self._reserve(ruled.size)
        self._before = self._bounds
        units = np.rint(probabilities[ruled] * UNITS).astype(np.int64)
        wrong = int(rule_sums.admit(self._ledger, self._size, positions[ruled], codes[ruled], units, _LIMIT))
        if wrong >= 0:
            self._reject(wrong, mine, codes[ruled], positions[ruled], probabilities[ruled], kind)
        self._kind = self._kind or found.kind
        return codes

    def withdraw(self) -> None:
        """Undo the last call of `enter`."""
        rule_sums.withdraw(self._ledger, *self._before)

    @property
    def _bounds(self) -> tuple[int, int]:
        return int(self._ledger.registers[HEAD]), int(self._ledger.registers[TAIL])

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        book = self._book.state()
        live = slice(int(self._ledger.registers[HEAD]), int(self._ledger.registers[TAIL]))
        return {
            "kind": pa.schema([] if self._kind is None else [("rule", self._kind)]).serialize().to_pybytes(),
            "book": book,
            "labels": to_bytes(pa.table({"rule": self._book.values(book["slots"])})),
            "entries": [column[live] for column in self._ledger[:3]],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        kinds = pa.ipc.read_schema(pa.py_buffer(state["kind"]))
        self._kind = kinds.field(0).type if len(kinds) else None
        if self._kind is not None:
            self._book.load(state["book"], one(from_bytes(state["labels"])["rule"]))
        positions, codes, units = state["entries"]
        self._reserve(positions.size)
        rule_sums.admit(self._ledger, self._size, positions, codes, units, np.iinfo(np.int64).max)

    def _reject(
        self, row: int, mine: pa.Array, codes: Ints, positions: Ints, probabilities: Floats, kind: pa.DataType | None
    ) -> None:
        live = slice(int(self._ledger.registers[HEAD]), int(self._ledger.registers[TAIL]))
        start = int(positions[row]) - self._size  # no longer in the window
        before = (self._ledger.rules[live] == codes[row]) & (self._ledger.positions[live] > start)
        now = (codes[: row + 1] == codes[row]) & (positions[: row + 1] > start)
        total = self._ledger.units[live][before].sum() / UNITS + probabilities[: row + 1][now].sum()
        first = start + 1 if kind is not None else max(0, start + 1)  # tuples are numbered from 0
        begin, end = pa.array([first, int(positions[row]) + 1]).cast(kind or pa.int64()).to_pylist()
        raise InvalidInputError(
            f"the probabilities of rule {mine[row].as_py()!r} add up to {total:.12g} in the window "
            f"[{begin}, {end}), but must add up to at most 1, because tuples of one rule exclude each other. This "
            "batch was rejected."
        )

    def _unused(self, slots: int) -> Any:
        self._reserve(0)
        unused = self._ledger.counts[:slots] == 0
        unused[self._in_use()] = False
        return unused

    def _reserve(self, more: int) -> None:
        """Grow the ledger for `more` entries and for all rules."""
        ledger, rules = self._ledger, self._book.slots
        if int(ledger.registers[TAIL]) + more > ledger.positions.size:
            live = slice(int(ledger.registers[HEAD]), int(ledger.registers[TAIL]))
            fresh = rule_sums.empty_ledger(2 * (len(self) + more) + self._room, 0)
            for new, old in zip(fresh[:3], ledger[:3], strict=True):
                new[: len(self)] = old[live]
            fresh.registers[TAIL] = len(self)
            ledger = fresh._replace(sums=ledger.sums, counts=ledger.counts)
        if rules > ledger.sums.size:
            grown = [np.concatenate([old, np.zeros(2 * rules - old.size, np.int64)]) for old in ledger[3:5]]
            ledger = ledger._replace(sums=grown[0], counts=grown[1])
        self._ledger = ledger
