"""One step of a shard inside a Spark task: bytes and envelopes in, bytes, a timer and rows for the sink out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.data.arrow import to_bytes
from skyband.incomplete.plan import GatheringPlan
from skyband.incomplete.shard import Gathering
from skyband.sharding.envelope import MILLISECOND, foreseen
from skyband.sharding.tally import Tally
from skyband.spark.tasks import opened
from skyband.topk.plan import Plan
from skyband.topk.shard import Shard
from skyband.uncertain.plan import WeighingPlan
from skyband.uncertain.shard import Weighing
from skyband.windows import ALWAYS

__all__ = ["Done", "step"]


AnyPlan = Plan | GatheringPlan | WeighingPlan


class Done(NamedTuple):
    """What a step leaves behind."""

    blob: bytes  # the shard
    next_timer: int | None  # in milliseconds
    out: list[tuple[Any, ...]]  # the columns of the processor's output


def step(
    plan: AnyPlan,
    number: int,
    saved: bytes | None,
    rows: Iterable[Any],
    watermark: int,
    delay: int | None,
    *,
    held: bool = False,
) -> Done:
    """Wake the shard up, show it the envelopes and the watermark (in milliseconds), and put it to sleep again.

    `delay` is how far the watermark stands behind the newest row, in microseconds; None where others have a say in it.
    `held`: the watermark makes nothing final, and no row late; it only tells how far the stream has come.
    """
    tables, notes, controls = opened(rows)
    shard = _awake(plan, number, saved)
    # Spark's watermark stands at 0 until it has seen a row.
    at = watermark * MILLISECOND or None
    if held:
        shard.settle(at)
        at = None
    parts = [shard.step(tables, notes, at, soon=foreseen(notes, delay))]
    parts += [shard.step([], [], told.get("at", at), end=told["kind"] == "end") for told in controls]
    blob, held = shard.state(), parts[-1][1].candidates
    return Done(
        blob,
        _timer(plan, shard.next_end),
        [
            values
            for answers, tally in parts
            for values in _values(answers, tally._replace(candidates=held), number, len(blob))
        ],
    )


_SHARDS: dict[type, Any] = {Plan: Shard, GatheringPlan: Gathering, WeighingPlan: Weighing}


def _awake(plan: AnyPlan, number: int, saved: bytes | None) -> Any:
    kind = _SHARDS[type(plan)]
    return kind(plan, number) if saved is None else kind.resume(plan, number, saved)


def _timer(plan: AnyPlan, end: int | None) -> int | None:
    """When to wake the shard for a window that ends at `end`, in milliseconds; Spark does when time is beyond that.

    Where answers of shards are merged, it must be as soon as time reaches the end: others, which get rows, answer then.
    """
    if end is None:
        return None
    return max(1, -(-end // MILLISECOND)) - (1 if isinstance(plan, GatheringPlan) else 0)


def _values(answers: list[pa.Table], tally: Tally, number: int, size: int) -> Iterator[tuple[Any, ...]]:
    newest = None if tally.newest == ALWAYS else tally.newest
    last_end = None if tally.last_end == ALWAYS else tally.last_end
    counts, too_often = (tally.late, tally.windows, tally.answers), tally.too_often
    for data in (None, *map(to_bytes, answers)):
        yield data, number, *counts, tally.candidates, size, newest, last_end, too_often
        counts, too_often = (0, 0, 0), 0  # they are told once
