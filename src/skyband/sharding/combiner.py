"""Combine the envelopes of many tasks before they reach their shards. Stateless, as the reducer.

What the reducer does to the rows of one task is correct for any set of rows, so it also applies to what several tasks
kept. A combiner joins the envelopes of each shard, and drops rows again: a shard then receives a few envelopes from
each combiner, instead of one from every task, and rows that are better than those of one combiner only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skyband.sharding.envelope import CHUNK_BYTES, CHUNK_ROWS, Envelope

__all__ = ["Reduce", "combine_envelopes", "joined"]

# Drops rows of an envelope that combines several. The plan comes first.
Reduce = Callable[[Any, Envelope], Envelope]


def joined(envelopes: Sequence[Envelope]) -> Envelope:
    """Return one envelope with the rows, facts and counts of several envelopes of one shard."""
    first = envelopes[0]
    tables = [envelope.rows for envelope in envelopes if envelope.rows.num_rows]
    return Envelope(
        first.shard,
        pa.concat_tables(tables, promote_options="default").combine_chunks() if tables else first.rows,
        type(first.note).joined([envelope.note for envelope in envelopes]),
        sum(envelope.taken for envelope in envelopes),
        sum(envelope.dropped_null for envelope in envelopes),
        sum(envelope.pruned for envelope in envelopes),
    )


def combine_envelopes(plan: Any, reduce_again: Reduce | None, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
    """Yield few envelopes for each shard: one, unless it would exceed the size of a chunk."""
    waiting: dict[int, list[Envelope]] = {}
    sizes: dict[int, tuple[int, int]] = {}

    def combined(shard: int) -> Envelope:
        found = waiting.pop(shard)
        together = joined(found) if len(found) > 1 else found[0]
        return together if reduce_again is None or len(found) == 1 else reduce_again(plan, together)

    for envelope in envelopes:
        shard = envelope.shard
        waiting.setdefault(shard, []).append(envelope)
        rows, size = sizes.get(shard, (0, 0))
        rows, size = sizes[shard] = rows + envelope.rows.num_rows, size + envelope.rows.nbytes
        if rows < CHUNK_ROWS and size < CHUNK_BYTES:
            continue
        one = combined(shard)
        # Most rows were dropped: there is space for more. Otherwise the envelope is large enough.
        if 2 * one.rows.num_rows < CHUNK_ROWS and 2 * one.rows.nbytes < CHUNK_BYTES:
            waiting[shard], sizes[shard] = [one], (one.rows.num_rows, one.rows.nbytes)
        else:
            del sizes[shard]
            yield one
    for shard in list(waiting):
        yield combined(shard)
