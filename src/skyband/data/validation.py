"""Validation of pushed columns against the stream so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.columns import Positions, id_column, length, position_column, refuse_other_lengths, score_column
from skyband.data.group_dictionary import Coded, GroupDictionary
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Floats, Ints
from skyband.kernels.validation import count_nan, first_backwards
from skyband.queries import Axis
from skyband.windows import AXIS_LIMIT

__all__ = ["Batch", "Intake"]

NONE = np.empty(0, np.int64)
_YEARS = (946_684_800, 4_102_444_800)  # 2000 and 2100, in seconds since 1970


class Batch(NamedTuple):
    """A validated push: its objects in stream order."""

    scores: Floats
    positions: Ints  # empty on a count axis
    ids: Ints  # empty: consecutive numbers from first_id on
    first_id: int
    named_ids: pa.Array | None  # ids that are not integers, instead of `ids`
    groups: Coded | None
    rows: int  # pushed, including dropped rows
    newest: int | None  # the last position, dropped rows included
    position_kind: pa.DataType | None


class Intake:
    """Validate pushed columns against the stream so far: types, order of positions, ids and groups.

    `check` changes nothing; `adopt` then makes the batch part of the stream. With `rejects_epoch`, integers of the
    first push that look like seconds or milliseconds since 1970 are rejected.
    """

    def __init__(self, axis: Axis, *, rejects_epoch: bool = False) -> None:
        self.axis = axis
        self.rows = 0
        self.dropped_null = 0
        self.objects = 0
        self.newest: int | None = None  # the newest position, which is the watermark
        self.first: int | None = None  # the first object's position
        self.position_kind: pa.DataType | None = None
        self.id_kind: pa.DataType | None = None  # int64 for integers and for row numbers
        self.groups: GroupDictionary | None = None
        self.rejects_epoch = rejects_epoch

    def check(self, positions: Any, scores: Any, ids: Any, groups: Any) -> Batch:
        """Return the validated batch, or raise InvalidInputError."""
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
        """Return a valid position for `advance_to` in microseconds, and its type."""
        if self.axis == "count":
            raise InvalidInputError(
                f"position={position!r} was given, but count windows advance only with pushed objects. Push rows "
                "instead."
            )
        times = position_column([position])
        if times.valid is not None or times.kind is None:
            raise InvalidInputError("position must be microseconds or a timestamp, got None.")
        self._refuse_other_kind(times.kind)
        if self.newest is not None and int(times.values[0]) < self.newest:
            raise InvalidInputError(
                f"position must not be before the newest position {self.newest}, got {int(times.values[0])}. Windows "
                "up to there may already be answered."
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
        """Return the state for `load`, without the groups."""
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
        """Restore an intake from its `state`."""
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
                    "positions must be None for count windows, which number the objects in push order. Pass None, or "
                    "use time windows (size='10 minutes')."
                )
            return None
        if positions is None:
            raise InvalidInputError("positions must not be None for time windows. Pass the event time of every row.")
        refuse_other_lengths(rows, "scores", positions=positions)
        times = position_column(positions)
        if rows:
            self._refuse_other_kind(times.kind)
            self._refuse_epoch(times)
        self._refuse_backwards(times.values, times.valid)
        return times

    def _refuse_other_kind(self, kind: pa.DataType | None) -> None:
        if kind is not None and self.position_kind is not None and kind != self.position_kind:
            raise InvalidInputError(
                f"positions changed type from {self.position_kind} to {kind}; this push was rejected. Cast the column "
                "to one type."
            )

    def _refuse_epoch(self, times: Positions) -> None:
        """Reject integers that are seconds or milliseconds of the years 2000 to 2100, because positions are in us."""
        if not self.rejects_epoch or self.rows or self.newest is not None or times.kind != pa.int64():
            return
        found = times.values if times.valid is None else times.values[times.valid]
        for unit, name, factor in (("s", "seconds", 10**6), ("ms", "milliseconds", 1000)):
            low, high = (moment * 10**6 // factor for moment in _YEARS)
            if found.size and low <= found.min() and found.max() < high:
                raise InvalidInputError(
                    f"positions must be microseconds, got positions[0]={int(found[0])}, and all positions of this push "
                    f"look like {name} since 1970. Windows would contain {factor:,} times as many rows. Convert them: "
                    f"np.asarray(positions).astype('datetime64[{unit}]'). If they are microseconds, pass "
                    "np.asarray(positions, np.int64).view('datetime64[us]'). This push was rejected."
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
                f"positions must not decrease, got positions[{row}]={int(present[at])} after {before}. Windows up to "
                "there may already be answered, so this push was rejected. Sort the rows by position."
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
                f"ids changed type from {self.id_kind} to {kind}, so ties could not be ordered by id; this push was "
                "rejected. Cast the column to one type."
            )
        return found

    def _groups(self, groups: Any, rows: int) -> Coded | None:
        if groups is None:
            if self.groups is not None and rows:
                raise InvalidInputError(
                    "groups= is missing, but earlier pushes had groups. Pass the group of every row."
                )
            return None
        if self.groups is None and self.rows:
            raise InvalidInputError(
                "groups= was given, but earlier pushes had none, so their rows have no group. Use another monitor."
            )
        refuse_other_lengths(rows, "scores", groups=groups)
        return (self.groups or GroupDictionary()).encode(groups)

    def _kept(self, keys: Floats, valid: Any) -> Any:
        """Return the rows with a score and a position; None for all rows."""
        if valid is None and count_nan(keys) == 0:
            return None
        present = ~np.isnan(keys)
        return np.flatnonzero(present if valid is None else present & valid)


def _last_valid(values: Ints, valid: Any) -> int | None:
    if valid is not None:
        values = values[valid]
    return int(values[-1]) if values.size else None
