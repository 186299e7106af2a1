"""Drop tuples of several tasks that can be in no answer, as the reducer does for one task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from skyband.data.arrow import one
from skyband.data.group_key import GROUP
from skyband.sharding.envelope import Envelope
from skyband.sharding.rows import positions_of
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.reducer import UncertainNote, newest_of_streams, possible_answers, separated
from skyband.windows import ALWAYS

__all__ = ["reduce_again"]


def reduce_again(plan: UncertainPlan, envelope: Envelope) -> Envelope:
    """Return the envelope without tuples that k certain ones of it beat."""
    table, note = envelope.rows, envelope.note
    assert isinstance(note, UncertainNote)
    if not table.num_rows:
        return envelope
    positions, classes = positions_of(table, "position"), one(table["class"]).to_numpy()
    scores, chances = (one(table[name]).to_numpy() for name in ("score", "probability"))
    ruled = one(table["rule"]).is_valid().to_numpy(zero_copy_only=False)
    kept = np.ones(table.num_rows, bool)
    newest_cut = list(note.newest_cut) or [ALWAYS] * len(plan.classes)
    for number, cut in enumerate(plan.cuts):
        rows = np.flatnonzero(classes == number)
        if cut is None or not rows.size:
            continue
        groups = one(table[GROUP]).take(pa.array(rows)) if plan.group_columns else None
        at, unit = separated(positions[rows], cut.unit, groups)
        found = possible_answers(cut._replace(unit=unit), at, scores[rows], chances[rows], ruled[rows])
        if plan.streams[number] is not None and not found.all():
            found |= newest_of_streams(unit, at, one(table["stream"]).take(pa.array(rows)))
        kept[rows] = found
        newest_cut[number] = max(newest_cut[number], int(positions[rows[~found]].max(initial=ALWAYS)))
    table = table if kept.all() else table.filter(pa.array(kept))
    return envelope._replace(rows=table, note=replace(note, newest_cut=tuple(newest_cut)))
