"""What comes in: columns are checked against the stream so far, and become rows that count as objects."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.columns import id_column, length, position_column, refuse_other_lengths, score_column
from skyband.data.group_dictionary import Coded, GroupDictionary
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Floats, Ints
from skyband.kernels.validation import count_nan, first_backwards
from skyband.queries import Axis
from skyband.windows import AXIS_LIMIT

__all__ = ["Batch", "Intake"]

NONE = np.empty(0, np.int64)


class Batch(NamedTuple):
    """A push that was accepted: its objects in stream order."""

    scores: Floats
    positions: Ints  # empty on a count axis
    ids: Ints  # empty: consecutive numbers from first_id on
    first_id: int
    named_ids: pa.Array | None  # ids that are no whole numbers, instead of `ids`
    groups: Coded | None
    rows: int  # pushed, those left out included
    newest: int | None  # the last position, of left-out rows too
    position_kind: pa.DataType | None


class Intake:
    """Knows what the stream has been like so far, and refuses what does not go on from there.

    `check` changes nothing; `adopt` then makes the batch part of the stream.
    """

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.rows = 0
        self.dropped_null = 0
        self.objects = 0
        self.newest: int | None = None  # the newest position, which is the watermark
        self.first: int | None = None  # the first object's position
        self.position_kind: pa.DataType | None = None
        self.id_kind: pa.DataType | None = None  # int64 for whole numbers and for row numbers
        self.groups: GroupDictionary | None = None

    def check(self, positions: Any, scores: Any, ids: Any, groups: Any) -> Batch:
        """The rows to take in, or an error that says what is wrong with them."""
        keys = score_column(scores)
        times = self._positions(positions, keys.size)
        identity = self._ids(ids, keys.size)
        coded = self._groups(groups, keys.size)
        newest = None if times is None or times.values.size == 0 else _last_valid(times.values, times.valid)
        keep = self._kept(keys, None if times is None else times.valid)
        if keep is not None:
            identity = (
                keep + self.rows
                if identity is None
                else identity.take(pa.array(keep))
                if isinstance(identity, pa.Array)
                else identity[keep]
            )
            keys = keys[keep]
            coded = coded and coded._replace(codes=coded.codes[keep])
        named = identity if isinstance(identity, pa.Array) else None
        return Batch(
            scores=keys,
            positions=NONE if times is None else times.values if keep is None else times.values[keep],
            ids=NONE if identity is None or named is not None else identity,
            first_id=self.rows,
            named_ids=named,
            groups=coded,
            rows=length(scores, "scores"),
            newest=newest,
            position_kind=times and times.kind,
        )

    def check_time(self, position: Any) -> tuple[int, pa.DataType]:
        """A single position that moves time forward."""
        if self.axis == "count":
            raise InvalidInputError(
                f"position={position!r} cannot move a stream of count windows; only objects do. Push them."
            )
        times = position_column([position])
        if times.valid is not None or times.kind is None:
            raise InvalidInputError("position=None cannot move time forward; pass microseconds or a timestamp.")
        self._refuse_other_kind(times.kind)
        if self.newest is not None and int(times.values[0]) < self.newest:
            raise InvalidInputError(
                f"position={int(times.values[0])} goes backwards (time has come to {self.newest}); windows up to there "
                "may be answered already, so time moves forward only."
            )
        return int(times.values[0]), times.kind

    def adopt(self, batch: Batch) -> None:
        """Make the batch part of the stream."""
        objects = batch.scores.size
        self.rows += batch.rows
        self.dropped_null += batch.rows - objects
        self.objects += objects
        if self.first is None and objects:
            self.first = int(batch.positions[0]) if self.axis == "time" else 0
        if batch.rows:
            self.id_kind = self.id_kind or (pa.int64() if batch.named_ids is None else batch.named_ids.type)
            self.position_kind = self.position_kind or batch.position_kind
        if batch.newest is not None:
            self.newest = batch.newest
        if batch.groups is not None:
            self.groups = self.groups or GroupDictionary()
            self.groups.adopt(batch.groups)

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs, groups apart."""
        kinds = {"position_kind": self.position_kind, "id_kind": self.id_kind}
        schema = pa.schema([(name, kind) for name, kind in kinds.items() if kind is not None])
        return {
            "axis": self.axis,
            "rows": self.rows,
            "left_out": self.dropped_null,
            "objects": self.objects,
            "newest": self.newest,
            "first": self.first,
            "kinds": schema.serialize().to_pybytes(),
        }

    @classmethod
    def load(cls, state: dict[str, Any], groups: GroupDictionary | None) -> Intake:
        """The intake that `state` was taken from."""
        intake = cls(state["axis"])
        for name in ("rows", "objects", "newest", "first"):
            setattr(intake, name, state[name])
        intake.dropped_null = state["left_out"]
        for item in pa.ipc.read_schema(pa.py_buffer(state["kinds"])):
            setattr(intake, item.name, item.type)
        intake.groups = groups
        return intake

    def _positions(self, positions: Any, rows: int) -> Any:
        if self.axis == "count":
            if positions is not None:
                raise InvalidInputError(
                    "positions= was given, but count windows number the objects as they come; pass None, "
                    "or ask for time windows (size='10 minutes')."
                )
            return None
        if positions is None:
            raise InvalidInputError("positions=None, but time windows need a position for every row.")
        refuse_other_lengths(rows, "scores", positions=positions)
        times = position_column(positions)
        if rows:
            self._refuse_other_kind(times.kind)
        self._refuse_backwards(times.values, times.valid)
        return times

    def _refuse_other_kind(self, kind: pa.DataType | None) -> None:
        if kind is not None and self.position_kind is not None and kind != self.position_kind:
            raise InvalidInputError(
                f"positions are of type {kind} and those of earlier pushes of type {self.position_kind}; "
                "a stream has one clock."
            )

    def _refuse_backwards(self, values: Ints, valid: Any) -> None:
        rows = None if valid is None else np.flatnonzero(valid)
        present = values if rows is None else values[rows]
        last = -AXIS_LIMIT if self.newest is None else self.newest
        at = int(first_backwards(present, last))
        if at >= 0:
            before = last if at == 0 else int(present[at - 1])
            row = at if rows is None else int(rows[at])
            raise InvalidInputError(
                f"positions[{row}]={int(present[at])} goes backwards (the one before it is {before}); windows up to "
                "there may be answered already. Sort the rows by position; nothing of this push was taken in."
            )

    def _ids(self, ids: Any, rows: int) -> Any:
        if ids is None:
            found = None
        else:
            refuse_other_lengths(rows, "scores", ids=ids)
            found = id_column(ids)
        kind = found.type if isinstance(found, pa.Array) else pa.int64()
        if rows and self.id_kind is not None and kind != self.id_kind:
            raise InvalidInputError(
                f"ids are of type {kind} and those of earlier pushes of type {self.id_kind}; they have no common order."
            )
        return found

    def _groups(self, groups: Any, rows: int) -> Coded | None:
        if groups is None:
            if self.groups is not None and rows:
                raise InvalidInputError("groups=None, but earlier pushes had groups; rows would belong to no group.")
            return None
        if self.groups is None and self.rows:
            raise InvalidInputError("groups= was given, but earlier pushes had none; their rows belong to no group.")
        refuse_other_lengths(rows, "scores", groups=groups)
        return (self.groups or GroupDictionary()).encode(groups)

    def _kept(self, keys: Floats, valid: Any) -> Any:
        """The rows that count as objects, None for all of them."""
        if valid is None and count_nan(keys) == 0:
            return None
        present = ~np.isnan(keys)
        return np.flatnonzero(present if valid is None else present & valid)


def _last_valid(values: Ints, valid: Any) -> int | None:
    if valid is not None:
        values = values[valid]
    return int(values[-1]) if values.size else None
