"""The demo on Spark: a seeded stream of trades in files, three questions, and their answers as they become final."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skyband.demo import WIDEST, clock
from skyband.query import TopK
from skyband.streams import OPENING, Trades, trades
from skyband.workload import Workload

__all__ = ["WORKLOAD", "run"]

FILES = 6
MINUTES = 6  # of the stream in each file
SHOWN = 5  # rows of an answer
MOST_CHECKS = 400

WORKLOAD = Workload(
    [
        TopK(name="largest trades", k=10, size="10 minutes", slide="1 minute", by="price * size"),
        TopK(name="largest in shares", k=5, size="5 minutes", slide="30 seconds", by="size"),
        TopK(name="by symbol", k=3, size="15 minutes", slide="3 minutes", by="price * size", partition_by=["symbol"]),
    ]
)


def run(*, seed: int) -> None:
    """Write the stream to files, let Spark read them one after another, and show what becomes final."""
    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    stream = trades(FILES * MINUTES * 60 * 420, seed)
    whole = np.searchsorted(stream.position, OPENING + FILES * MINUTES * 60_000_000)
    stream = Trades._make(column[:whole] for column in stream)
    with TemporaryDirectory(prefix="skyband-demo-") as folder:
        home = Path(folder)
        _write_files(stream, home / "trades")
        try:
            _run(console, stream, home)
        except KeyboardInterrupt:
            console.print("\nstopped", style="dim")


def _run(console: Console, stream: Trades, home: Path) -> None:
    from skyband.spark import session, start  # noqa: PLC0415 - what takes seconds to load is loaded with a word said

    with _said(console, "starting Spark, and compiling kernels the first time…"):
        warm = threading.Thread(target=_warm_up)
        warm.start()
        spark = session(app="skyband demo")
        warm.join()
    try:
        source = str(home / "trades")
        rows = (
            spark.readStream.schema(spark.read.parquet(source).schema).option("maxFilesPerTrigger", 1).parquet(source)
        )
        board = _Board(home / "answers")
        began = time.perf_counter()
        handle = start(
            rows,
            WORKLOAD,
            time="ts",
            id="trade_id",
            watermark="5 seconds",
            bounded=True,
            write=lambda out: out.writeStream.format("parquet").option("path", str(board.folder)),
            checkpoint=str(home / "checkpoint"),
        )
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                while not handle.await_end(0.3, progress=False):
                    board.read()
                    live.update(_screen(board, handle.metrics()), refresh=True)
                board.read()
                live.update(_screen(board, handle.metrics()), refresh=True)
        else:
            handle.await_end(progress=False)
            board.read()
            console.print(_screen(board, handle.metrics()))
        console.print(Padding(_summary(board, stream, handle.metrics(), time.perf_counter() - began), (0, 2)))
    finally:
        spark.stop()


class _Board:
    """The answers written so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[Path] = set()
        self.tables: list[pa.Table] = []

    def read(self) -> None:
        """Read the files that have come since the last time."""
        for path in sorted(self.folder.glob("part-*.parquet")) if self.folder.exists() else []:
            if path in self._known:
                continue
            try:
                self.tables.append(pq.read_table(path, partitioning=None))
            except (pa.ArrowException, OSError):  # still being written
                continue
            self._known.add(path)

    @property
    def answers(self) -> pa.Table | None:
        """All of them."""
        return pa.concat_tables(self.tables) if self.tables else None

    def newest(self, name: str) -> list[dict[str, Any]]:
        """The rows of a query's newest window; of a grouped one, the groups with the highest scores."""
        table = self.answers
        if table is None:
            return []
        mine = table.filter(pc.equal(table["query"], name))
        newest = mine.filter(pc.equal(mine["window_end"], pc.max(mine["window_end"])))
        best: list[dict[str, Any]] = newest.sort_by([("score", "descending")]).slice(0, SHOWN).to_pylist()
        return best


def _write_files(stream: Trades, folder: Path) -> None:
    folder.mkdir()
    table = pa.table(
        {
            "ts": pa.array(stream.position).cast(pa.timestamp("us", "UTC")),
            "trade_id": stream.trade_id,
            "symbol": pa.array(stream.symbol.tolist()),
            "stock": pa.array(stream.symbol.tolist()),  # `symbol` tells the group, and is null where there is none
            "price": stream.price,
            "size": stream.size,
        }
    )
    ends = OPENING + np.arange(1, FILES + 1) * MINUTES * 60_000_000
    low = 0
    for number, high in enumerate(np.searchsorted(stream.position, ends)):
        pq.write_table(table.slice(low, high - low), folder / f"{number:03}.parquet")
        low = int(high)


def _warm_up() -> None:
    """Have the kernels compiled once, and stored where Spark's workers find them."""
    from skyband.sharding.warming import warm_up  # noqa: PLC0415

    warm_up()


@contextmanager
def _said(console: Console, message: str) -> Iterator[None]:
    if console.is_terminal:
        with console.status(message):
            yield
    else:
        console.print(message)
        yield


def _screen(board: _Board, metrics: dict[str, Any]) -> RenderableType:
    parts: list[RenderableType] = [
        Text(),
        Text.assemble(("Skyband on Spark", "bold cyan"), "  one pass, three questions"),
    ]
    for query in WORKLOAD:
        rows = board.newest(query.name)
        grouped = f", for each of {', '.join(query.partition_by)}" if query.partition_by else ""
        title = Text.assemble(
            "\n", (query.name, "bold"), f": the {query.k} best of {query.size}, every {query.slide}{grouped}"
        )
        parts.append(title)
        parts.append(_table(rows) if rows else Text("the first window is filling…", "dim italic"))
    parts.append(
        Text(
            f"\n{metrics['rows']:,} trades read in {metrics['batches']} batches, {metrics['windows']:,} windows final, "
            f"{metrics['candidates']:,} rows held, {metrics['reduced']:,} dropped before the shuffle",
            "dim",
        )
    )
    return Padding(Group(*parts), (0, 2))


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in (("window ends", "left"), ("#", "right"), ("stock", "left"), ("score", "right"),
                          ("price × size", "right"), ("traded at", "left")):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(
            f"{row['window_end']:%H:%M:%S}",
            str(row["rank"]),
            row["stock"],
            f"{row['score']:,.0f}",
            f"{row['price']:,.2f} × {row['size']:,}",
            clock(int(row["ts"].timestamp() * 1e6), milliseconds=True),
        )
    return table


def _summary(board: _Board, stream: Trades, metrics: dict[str, Any], seconds: float) -> Text:
    good, looked_at = _check(board, stream)
    return Text.assemble(
        "\n",
        (f"{metrics['rows']:,} trades, {metrics['windows']:,} windows", "bold"),
        f" in {seconds:.1f} s, start of the stream included; ",
        (f"{good} of {looked_at} answers", "bold green" if good == looked_at else "bold red"),
        " checked equal a full sort of their window.",
    )


def _check(board: _Board, stream: Trades) -> tuple[int, int]:
    """How many answers equal a full sort of their window, and how many were looked at."""
    table = board.answers
    if table is None:
        return 0, 0
    found: dict[tuple[str, Any, Any], list[tuple[int, int]]] = {}
    columns = (table[name].to_pylist() for name in ("query", "symbol", "window_end", "rank", "trade_id"))
    for query, symbol, end, rank, id_ in zip(*columns, strict=True):
        found.setdefault((query, symbol, end), []).append((rank, id_))
    keys = sorted(found, key=str)
    picked = keys[:: 1 + len(keys) // MOST_CHECKS]
    good = 0
    for name, symbol, end in picked:
        query = WORKLOAD[name]
        stop = int(end.timestamp()) * 1_000_000
        low, high = np.searchsorted(stream.position, [stop - query.window.size, stop])
        rows = np.arange(low, high)
        if query.partition_by:
            rows = rows[stream.symbol[rows] == symbol]
        score = (stream.size if query.by == "size" else stream.score)[rows]
        order = np.lexsort((stream.trade_id[rows], stream.position[rows], score))[::-1][: query.k]
        good += [id_ for _, id_ in sorted(found[name, symbol, end])] == stream.trade_id[rows[order]].tolist()
    return good, len(picked)
