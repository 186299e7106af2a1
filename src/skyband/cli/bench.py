"""`skyband bench`: time the algorithms on this machine, on a seeded stream."""

from __future__ import annotations

import json
from time import perf_counter
from typing import NamedTuple

from rich.progress import Progress
from rich.table import Table

from skyband.cli.terminal import console
from skyband.errors import InvalidInputError
from skyband.kernels import _notice
from skyband.streams import Trades, trades
from skyband.topk.algorithms import algorithms
from skyband.topk.monitor import Monitor
from skyband.topk.query import TopK

__all__ = ["bench"]

WARM = 20_000  # objects pushed before timing, so that kernels are compiled or loaded
PUSH = 100_000
LEAST = 5 * PUSH
SLOW_LIMIT = 20.0  # seconds after which an algorithm is stopped and measured up to that point


class _Timed(NamedTuple):
    algorithm: str
    objects: int
    seconds: float
    candidates: int

    @property
    def per_second(self) -> float:
        return self.objects / self.seconds


def bench(*, rows: int, k: int, size: str, slide: str, only: list[str], as_json: bool) -> None:
    """Time every algorithm on the same seeded trades, best of two runs in this process, and print a table."""
    if rows < LEAST:
        raise InvalidInputError(f"--rows must be at least {LEAST:,}, got {rows}. Shorter runs are too noisy.")
    _notice.announce()
    query = TopK(name="bench", k=k, size=size, slide=slide)
    known = only or list(algorithms())
    stream = trades(rows, seed=1)
    talk, out = console(stderr=True), console()
    found = []
    with Progress(console=talk, transient=True, disable=not talk.is_terminal) as progress:
        task = progress.add_task("", total=len(known))
        for name in known:
            progress.update(task, description=name)
            found.append(max((_time(name, query, stream) for _ in range(2)), key=lambda timed: timed.per_second))
            progress.advance(task)
    if as_json:
        rates = [{**timed._asdict(), "per_second": timed.per_second} for timed in found]
        out.file.write(json.dumps({"query": query.to_dict(), "algorithms": rates}) + "\n")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name, justify in (("algorithm", "left"), ("objects/s", "right"), ("vs. slowest", "right"),
                          ("objects held", "right")):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    slowest = min(timed.per_second for timed in found)
    for timed in found:
        table.add_row(
            timed.algorithm,
            f"{timed.per_second:,.0f}",
            f"{timed.per_second / slowest:,.1f}x",
            f"{timed.candidates:,}",
        )
    out.print(f"top {query.k} of {rows:,} seeded trades over {query.size}, every {query.slide}; one core")
    out.print(table)


def _time(algorithm: str, query: TopK, stream: Trades) -> _Timed:
    """Time one run; the stream is pushed in batches, as from a broker."""
    warm = Monitor(query, algorithm)
    warm.push(stream.position[:WARM], stream.score[:WARM], stream.trade_id[:WARM])
    monitor = Monitor(query, algorithm)
    pushed, began = 0, perf_counter()
    while pushed < stream.position.size and perf_counter() - began < SLOW_LIMIT:
        batch = slice(pushed, pushed + PUSH)
        monitor.push(stream.position[batch], stream.score[batch], stream.trade_id[batch])
        monitor.answers()
        pushed = min(stream.position.size, pushed + PUSH)
    return _Timed(algorithm, pushed, perf_counter() - began, monitor.candidates)
