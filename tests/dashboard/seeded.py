"""Seeded answers of all families, a step at a time: what a run would give, without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from skyband.workload_file import read_workload

OPENING = 1_704_101_400_000_000  # 2024-01-01T09:30:00 UTC
STEP = 60_000_000
HOSTILE = [
    "<script>document.title='hit'</script>",
    "<img src=x onerror=alert(1)>",
    "\u202eenola dna tfel",
    "x" * 10_240,
]
SYMBOLS = [f"S{number:03}" for number in range(300)]

YAML = """\
streams:
  trades: {{path: trades, format: parquet, time: ts, id: trade_id}}
  many: {{path: many, format: parquet, time: ts, id: id}}
  clients: {{path: clients, format: parquet, time: ts}}
  flows: {{path: flows, format: parquet, time: ts}}
  cars: {{path: cars, format: parquet, time: ts, id: id}}
engine: {{checkpoint: state}}
queries:
  - {{stream: trades, sql: "largest: TOPK price * size, 10 OVER 10 MINUTES EVERY 1 MINUTE"}}
  - {{stream: trades, sql: "'by symbol': TOPK price, 3 BY symbol OVER 15 MINUTES EVERY 1 MINUTE"}}
  - {{stream: trades, sql: "thousand: TOPK size, 1000 OVER 1 HOUR EVERY 1 MINUTE"}}
  - {{stream: clients, type: aggregate, name: busiest, k: 20, size: 1 hour, slide: 1 minute, key: client, value: bytes}}
  - stream: flows
    type: incomplete
    name: flows
    k: 15
    size: 5 minutes
    every: 1 minute
    object: flow
    stream_by: router
    value: bytes
    streams: [north, south]
    bounds: [0, 1000]
    intervals: true
  - {{stream: cars, sql: "fast: TOPK speed, 8 PROBABILITY p OVER 20 MINUTES FREQUENCY 2 MINUTES"}}
  - {{stream: cars, sql: "faster: TOPK speed, 4 PROBABILITY p OVER 20 MINUTES FREQUENCY 3 MINUTES"}}
{many}
sinks: [{{type: parquet, path: answers}}]
"""


def workload_file(home: Path, *, many: int = 1000):
    """A workload file whose answers `step` makes up."""
    lines = [
        f'  - {{stream: many, sql: "q{number:04}: TOPK value, 5 OVER {1 + number % 30} MINUTES EVERY 1 MINUTE"}}'
        for number in range(many)
    ]
    path = home / "seeded.yaml"
    path.write_text(YAML.format(many="\n".join(lines)), encoding="utf-8")
    return read_workload(path)


def step(file, number: int, seed: int = 29) -> dict[str, pa.Table]:
    """The answers of the window that ends after so many steps, by stream."""
    found = {}
    for stream, workload in file.workloads.items():
        alike: dict[tuple, list] = {}
        for query in workload:
            alike.setdefault((query.k, bool(query.groups), "" if stream == "many" else query.name), []).append(query)
        rng = np.random.default_rng([seed, number, len(stream)])
        parts = [_windows(queries, number, rng) for queries in alike.values()]
        found[stream] = pa.concat_tables(parts, promote_options="permissive")
    return found


def _windows(queries, number, rng):
    """The windows of queries that are alike, or of all groups of one."""
    query = queries[0]
    k, groups = query.k, SYMBOLS if query.groups else [None] * len(queries)
    count = len(groups)
    end = OPENING + number * STEP
    # Scores drift slowly and ids are few more than k, so that neighbours change places and some come and go.
    ids = np.argsort(rng.random((count, k + max(2, k // 5))), axis=1)[:, :k].ravel()
    drift = 50 * np.sin(ids * 1.7 + number / 9)
    scores = np.round(1000 + 10 * ids % 997 + drift + rng.normal(0, 20, ids.size), 2)
    scores = -np.sort(-scores.reshape(count, k), axis=1).ravel()
    names = [one.name for one in queries] if len(queries) > 1 else [query.name] * count
    columns = {"query": pa.array(names).take(pa.array(np.repeat(np.arange(count), k)))}
    if query.groups:
        columns["symbol"] = pa.array(groups).take(pa.array(np.repeat(np.arange(count), k)))
    elif query.name in ("largest", "thousand"):
        columns["symbol"] = pa.array(SYMBOLS).take(pa.array(ids % 300))
    if query.moment == "window_end":
        sizes = [one.window.size for one in queries] if len(queries) > 1 else [query.window.size] * count
        columns["window_start"] = _times(end - np.repeat(sizes, k))
    columns[query.moment] = _times(np.full(ids.size, end))
    columns["rank"] = pa.array(np.tile(np.arange(1, k + 1), count), pa.int32())
    if query.family == "aggregate":
        columns["key"] = pa.array([f"client-{id_}" for id_ in ids])
    elif query.family == "incomplete":
        columns["object"] = pa.array([HOSTILE[id_] if id_ < len(HOSTILE) else f"flow {id_}" for id_ in ids])
        columns |= {"best": pa.array(scores + 100), "sure": pa.array([place < k // 2 for place in range(k)])}
    elif query.family == "uncertain":
        columns["id"] = pa.array(2**60 + ids)
        columns["probability"] = pa.array(np.round(rng.uniform(0, 1, ids.size), 6))
    elif len(queries) > 1 or query.name.startswith("q0"):
        columns["id"] = pa.array(ids)
    else:
        columns |= _of_trades(ids, rng)
    columns["score"] = pa.array(scores)
    return pa.table(columns)


def _of_trades(ids, rng):
    notes = pa.array([HOSTILE[id_ % 4] if id_ % 13 == 0 else None for id_ in ids], pa.string())
    return {
        "trade_id": pa.array(ids),
        "price": pa.array(np.round(rng.uniform(1, 500, ids.size), 2)),
        "note": notes,
    }


def _times(values):
    return pa.array(np.asarray(values), pa.int64()).cast(pa.timestamp("us", "UTC"))
