"""Drop rows of several tasks that can be in no answer, as the reducer does for one task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from skyband.sharding.envelope import Envelope
from skyband.sharding.rows import positions_of, scores_of
from skyband.topk.plan import TopKPlan
from skyband.topk.reducer import TopKNote, first_positions, needed_rows

__all__ = ["reduce_again"]


def reduce_again(plan: TopKPlan, envelope: Envelope) -> Envelope:
    """Return the envelope without rows that k others of it beat."""
    table, note = envelope.rows, envelope.note
    assert isinstance(note, TopKNote)
    firsts = {
        scan.identity: first_positions(at, np.arange(at.size), [plan.queries[place] for place in scan.places])
        for scan in plan.scans
        if (at := note.firsts.get(scan.identity)) is not None
    }
    if table.num_rows and plan.axis == "time":
        positions = positions_of(table, plan.time)
        kept = np.zeros(table.num_rows, bool)
        for number in range(len(plan.scans)):
            kept |= needed_rows(plan, number, table, positions, scores_of(table, plan.scores[number]))
        table = table if kept.all() else table.filter(pa.array(kept))
    return envelope._replace(rows=table, note=replace(note, firsts=firsts))
