"""The streams that tuples come from: their labels as numbers, and since when every tuple has had one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.key_dictionary import KeyColumn, KeyDictionary, key_column, restored
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints

__all__ = ["StreamDictionary", "checked_labels"]


def checked_labels(column: Any, needed: Any = None) -> KeyColumn:
    """The streams of tuples; where the mask `needed` is True, or everywhere, a tuple must have one."""
    found = key_column(column, "streams")
    lacking = found.stored.is_null().to_numpy(zero_copy_only=False)
    if needed is not None:
        lacking &= needed
    if lacking.any():
        raise InvalidInputError(
            f"streams[{int(np.argmax(lacking))}]=null is no stream; where streams are ranked, a tuple adds to the one "
            "it comes from, and without one it would be lost. Name the stream of every tuple; nothing of these was "
            "taken in."
        )
    return found


class StreamDictionary:
    """Knows the streams of the tuples that are held. `in_use` tells which these are."""

    def __init__(self, in_use: Any) -> None:
        self._in_use = in_use
        self._kind: pa.DataType | None = None
        self._book = KeyDictionary(self._unused)
        self.unlabelled: int | None = None  # the position of the newest tuple that came without a stream

    @property
    def kind(self) -> pa.DataType:
        """The type that labels come back in."""
        return pa.string() if self._kind is None else self._kind

    def check(self, column: Any, needed: Any) -> KeyColumn | None:
        """The labels of tuples, or an error; nothing is entered yet. Tuples must have one where `needed` is True."""
        if column is None:
            if needed.any():
                raise InvalidInputError(
                    "streams=None, but a query ranks streams; a tuple adds to the stream it comes from, and without "
                    "one it would be lost. Pass streams=, a label for every tuple."
                )
            return None
        found = checked_labels(column, needed)
        if found.kind is not None and self._kind is not None and found.kind != self._kind:
            raise InvalidInputError(
                f"streams are of type {found.kind} and those of earlier pushes of type {self._kind}; a stream would "
                "be told apart from itself."
            )
        return found

    def enter(self, found: KeyColumn | None, kept: Ints | None, positions: Ints) -> Ints:
        """The streams of the tuples in `kept` as numbers, -1 for none."""
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
        """The labels of these numbers, in a form that has their order."""
        return self._book.values(codes)

    def labels(self, codes: Ints) -> pa.Array:
        """The labels of these numbers, as they came."""
        return restored(self._book.values(codes), self.kind)

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs."""
        book = self._book.state()
        return {
            "kind": pa.schema([] if self._kind is None else [("stream", self._kind)]).serialize().to_pybytes(),
            "book": book,
            "labels": to_bytes(pa.table({"stream": self._book.values(book["slots"])})),
            "unlabelled": self.unlabelled,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        kinds = pa.ipc.read_schema(pa.py_buffer(state["kind"]))
        self._kind = kinds.field(0).type if len(kinds) else None
        if self._kind is not None:
            self._book.load(state["book"], one(from_bytes(state["labels"])["stream"]))
        self.unlabelled = state["unlabelled"]

    def _unused(self, slots: int) -> Any:
        unused = np.ones(slots, bool)
        unused[self._in_use()] = False
        return unused
