"""`skyband demo --in-process`: the largest trades of each window of a seeded stream."""

from __future__ import annotations

from datetime import UTC, datetime
from time import perf_counter, sleep
from typing import NamedTuple

import numpy as np
from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skyband.errors import InvalidInputError
from skyband.kernels import _notice
from skyband.streams import OPENING, Ints, Trades, trades
from skyband.topk.monitor import Monitor
from skyband.topk.query import TopK

__all__ = ["WIDEST", "Leaderboard", "ShownWindow", "clock", "run"]

FRAMES = 20  # per second
PUSHES = 4  # per second, and one at each window's end: small batches, as from a broker
WIDEST = 104
PLAIN_TABLES = 3
MOST_CHECKS = 300
MOST_TRADES = 20_000_000  # about 2 GB as columns
PER_SECOND = 400  # trades per second of event time in `streams.trades`, roughly


class ShownWindow(NamedTuple):
    """One window's answer, for display."""

    end: int
    ids: Ints  # best first
    moves: list[int | None]  # ranks gained since the previous window; None: new
    objects: int  # in the window
    candidates: int  # held just after the answer


class Leaderboard:
    """Push trades to a monitor and record the time in the engine, the candidates held, and rank changes."""

    def __init__(self, query: TopK, stream: Trades) -> None:
        self.query, self.stream = query, stream
        self.pushed = 0  # trades
        self.pushes = 0
        self.busy = 0.0  # seconds inside push and advance_to
        self.most_held = 0
        self.windows: list[ShownWindow] = []
        self._monitor = Monitor(query)
        self._places: dict[int, int] = {}

    def feed(self, until: int) -> None:
        """Push the trades before `until`, and store the answers that become final."""
        low, high = self.pushed, int(np.searchsorted(self.stream.position, until))
        mine = slice(low, high)
        newest = int(self.stream.position[high - 1]) if high else OPENING
        end = self.query.sliding.last_end_at(until)
        began = perf_counter()
        self._monitor.push(self.stream.position[mine], self.stream.score[mine], self.stream.trade_id[mine])
        if end > newest:  # no trade since then: advance the time to close the window
            self._monitor.advance_to(end)
        self.busy += perf_counter() - began
        self.pushed, self.pushes = high, self.pushes + 1
        self.most_held = max(self.most_held, self._monitor.candidates)
        answers = self._monitor.answers()
        ends, ids = answers["window_end"].to_numpy(), answers["id"].to_numpy()
        begins = np.flatnonzero(answers["rank"].to_numpy() == 1)
        for begin, ranked in zip(begins, np.split(ids, begins[1:]), strict=False):
            self._add(int(ends[begin]), ranked)

    @property
    def held(self) -> int:
        """Number of objects that the monitor holds now."""
        return self._monitor.candidates

    @property
    def per_second(self) -> float:
        """Objects per second of time in the engine."""
        return self.pushed / self.busy if self.busy else 0.0

    def check(self) -> tuple[int, int]:
        """Return how many answers equal a full sort of their window, and how many were checked (a few hundred)."""
        position, score, ids, k = self.stream.position, self.stream.score, self.stream.trade_id, self.query.k
        looked_at = self.windows[:: 1 + len(self.windows) // MOST_CHECKS]
        good = 0
        for window in looked_at:
            low, high = np.searchsorted(position, [window.end - self.query.sliding.size, window.end])
            bar = np.partition(score[low:high], -k)[-k] if high - low > k else -np.inf
            best = low + np.flatnonzero(score[low:high] >= bar)
            order = np.lexsort((ids[best], position[best], score[best]))[::-1]
            good += np.array_equal(ids[best[order[:k]]], window.ids)
        return good, len(looked_at)

    def _add(self, end: int, ids: Ints) -> None:
        places = {int(id_): place for place, id_ in enumerate(ids)}
        moves = [self._places[id_] - place if id_ in self._places else None for id_, place in places.items()]
        low, high = np.searchsorted(self.stream.position, [end - self.query.sliding.size, end])
        self.windows.append(ShownWindow(end, ids, moves, int(high - low), self.held))
        self._places = places


def run(*, seconds: float, speed: float, k: int, size: str, slide: str, seed: int) -> None:
    """Show the largest trades live in a terminal, or as a few plain tables if stdout is not a terminal."""
    query = TopK(name="largest trades", k=k, size=size, slide=slide)
    stream = _stream(seconds, speed, seed)
    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    board = Leaderboard(query, stream)
    stop = OPENING + round(seconds * speed * 1e6)
    try:
        _warm_up(console, query)
        if console.is_terminal:
            _run_live(console, board, stop, speed)
        else:
            _run_plain(console, board, stop)
    except KeyboardInterrupt:
        console.print("\nstopped", style="dim")
    if console.is_terminal:
        console.print(Padding(_summary(board), (0, 2)))
    else:
        console.print(_summary(board), soft_wrap=True)


def _run_live(console: Console, board: Leaderboard, stop: int, speed: float) -> None:
    """Replay the stream at `speed` and redraw FRAMES times per second."""
    with Live(console=console, auto_refresh=False) as live:
        began, now, due = perf_counter(), OPENING, OPENING
        while now < stop:
            frame = perf_counter()
            now = min(stop, OPENING + int((frame - began) * speed * 1e6))
            if now >= due or now == stop:
                board.feed(now)
                due = min(now + int(speed * 1e6 / PUSHES), board.query.sliding.first_end_after(now))
            live.update(_screen(console, board, now), refresh=True)
            sleep(max(0.0, frame + 1 / FRAMES - perf_counter()))


def _run_plain(console: Console, board: Leaderboard, stop: int) -> None:
    """Replay the stream at full speed and print its last windows."""
    step = max(board.query.sliding.slide, 1_000_000)
    for now in (*range(OPENING + step, stop, step), stop):
        board.feed(now)
    console.print(_title(board.query))
    for window in board.windows[-PLAIN_TABLES:]:
        heading = Text.assemble(f"\n{_span(board.query, window)}, {window.objects:,} objects; held: ")
        console.print(heading.append_text(_holding(window.candidates, window)))
        console.print()
        console.print(_ranking(board, window, most=20))
    console.print()


def _stream(seconds: float, speed: float, seed: int) -> Trades:
    """Generate at least the trades of the first `seconds * speed` seconds."""
    for name, value in (("seconds", seconds), ("speed", speed)):
        if not value > 0:
            raise InvalidInputError(f"--{name} must be greater than 0, got {value:g}.")
    wanted = seconds * speed * PER_SECOND
    if wanted > MOST_TRADES:
        raise InvalidInputError(
            f"--seconds {seconds:g} at --speed {speed:g} needs about {wanted:,.0f} trades, and the demo generates at "
            f"most {MOST_TRADES:,}. Use a shorter time or a lower speed."
        )
    return trades(int(1.2 * wanted) + 10_000, seed)


def _warm_up(console: Console, query: TopK) -> None:
    """Compile or load the kernels before timing, and show the progress if it takes long."""
    with console.status("starting…") as status, _notice.following(lambda text: status.update(f"starting: {text}")):
        board = Leaderboard(query, trades(2_000, seed=0))
        board.feed(OPENING + 2_000_000)
        board.feed(OPENING + 2_000_000 + query.sliding.size)


def _screen(console: Console, board: Leaderboard, now: int) -> RenderableType:
    window = board.windows[-1] if board.windows else None
    parts: list[RenderableType] = [Text(), _title(board.query), Text(), _progress(board.query, now), Text()]
    if window:
        parts += [_ranking(board, window, most=max(1, console.height - len(parts) - 7)), Text(), _gauges(board, window)]
    else:
        parts += [Text("the first window is filling…", "dim italic")]
    return Padding(Group(*parts, Text()), (0, 2))


def _title(query: TopK) -> Text:
    what = f"the {query.k} largest trades" if query.k > 1 else "the largest trade"
    return Text.assemble(
        ("Skyband", "bold cyan"),
        f"  {what} of the last ",
        (str(query.size), "bold"),
        ", every ",
        (str(query.slide), "bold"),
    )


def _progress(query: TopK, now: int) -> Table:
    """Event time and the progress of the next window."""
    begun = query.sliding.last_end_at(now)
    line = Table.grid(padding=(0, 2, 0, 0), expand=True)
    line.add_column(no_wrap=True)
    line.add_column(ratio=1)
    line.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(total=query.sliding.slide, completed=now - begun, complete_style="cyan", finished_style="cyan")
    line.add_row(Text(clock(now), "bold"), bar, Text(f"next window ends {clock(begun + query.sliding.slide)}", "dim"))
    return line


def _ranking(board: Leaderboard, window: ShownWindow, *, most: int) -> Table:
    """The answer as a table of at most `most` rows."""
    stream = board.stream
    top = stream.score[window.ids[0]]
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right", style="bold", no_wrap=True)
    table.add_column("move", justify="right", no_wrap=True)
    table.add_column("symbol", no_wrap=True)
    table.add_column("amount", justify="right", no_wrap=True)
    table.add_column("", ratio=1, min_width=6)
    table.add_column("price × size", justify="right", style="dim", no_wrap=True)
    table.add_column("traded at", style="dim", no_wrap=True)
    for place, (id_, move) in enumerate(zip(window.ids[:most], window.moves, strict=False)):
        table.add_row(
            str(place + 1),
            _move(move),
            Text(str(stream.symbol[id_]), "bold" if move is None else ""),
            f"${stream.score[id_]:,.0f}",
            Bar(float(top), 0.0, float(stream.score[id_]), color="green" if move is None else "cyan"),
            f"{stream.price[id_]:,.2f} × {stream.size[id_]:,}",
            clock(int(stream.position[id_]), milliseconds=True),
        )
    if window.ids.size > most:
        table.add_row("…", "", Text(f"{window.ids.size - most} more", "dim"))
    return table


def _move(places: int | None) -> Text:
    """An object's rank change since the previous window."""
    if places is None:
        return Text("new", "bold green")
    if places == 0:
        return Text("=", "dim")
    return Text(f"▲{places}", "green") if places > 0 else Text(f"▼{-places}", "red")


def _gauges(board: Leaderboard, window: ShownWindow) -> Table:
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(style="dim")
    lines.add_column()
    lines.add_row("window", f"{_span(board.query, window)}, {window.objects:,} objects")
    lines.add_row("held", _holding(board.held, window))
    lines.add_row("engine", f"{_rate(board)}; {board.pushed:,} trades read")
    return lines


def _span(query: TopK, window: ShownWindow) -> str:
    return f"{clock(window.end - query.sliding.size)} – {clock(window.end)}"


def _holding(candidates: int, window: ShownWindow) -> Text:
    share = f", one per {window.objects // candidates:,} objects of the window" if candidates else ""
    return Text.assemble((f"{candidates:,} candidates", "bold"), share)


def _rate(board: Leaderboard) -> str:
    batch = board.pushed // max(1, board.pushes)
    return f"{board.per_second / 1e6:,.1f} million objects/s in pushes of {batch:,}"


def _summary(board: Leaderboard) -> Text:
    if not board.windows:
        return Text("No window has ended yet. Increase --seconds or reduce --slide.")
    good, checked = board.check()
    return Text.assemble(
        (f"{board.pushed:,} trades, {len(board.windows):,} windows", "bold"),
        f"; at most {board.most_held:,} candidates held; engine {_rate(board)}; ",
        (f"{good} of {checked} answers", "bold green" if good == checked else "bold red"),
        " checked are equal to a full sort of their window.",
    )


def clock(position: int, *, milliseconds: bool = False) -> str:
    """Time of day at a position.

    >>> clock(1_704_205_800_250_000, milliseconds=True)
    '14:30:00.250'
    """
    moment = datetime.fromtimestamp(position // 1_000_000, UTC).strftime("%H:%M:%S")
    return f"{moment}.{position // 1000 % 1000:03}" if milliseconds else moment
