"""A page to look at without a run: `python -m tests.dashboard.serve --port 8765 [--control] [--folder DIR]`.

Seeded answers of all families grow by a window every so often; with --control, queries can be added and dropped.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import address_of
from skyband.dashboard.control import RunControl
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.history import History
from skyband.dashboard.server import PageServer
from skyband.errors import SkybandError
from skyband.jobs.journal import with_query, without_query
from skyband.jobs.mailbox import mailbox_of
from skyband.sql.reader import parse
from skyband.workload_file.live_query_limits import known_stream, refuse_unfit
from tests.dashboard.seeded import step, workload_file


class Pretended:
    """A run that only pretends: made-up answers of the queries of its file, which can be changed by its mailbox."""

    def __init__(self, home: Path, *, many: int = 1000, seed: int = 29) -> None:
        self.file = workload_file(home, many=many)
        self.box = mailbox_of(self.file)
        self.steps = 0
        self.changes = 0
        self._seed = seed
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._attend, daemon=True)

    def __enter__(self):
        self.box.open()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._closed.set()
        self._thread.join(10)
        self.box.close()

    def give(self, history: History, steps: int = 1) -> None:
        """Answer so many windows more."""
        for _ in range(steps):
            self.steps += 1
            for stream, rows in step(self.file, self.steps, self._seed).items():
                history.outlet(stream).take(self.steps, rows)

    def numbers(self):
        """Numbers as a run has them, made up."""
        return {
            stream: {
                "algorithm": "panes",
                "rows": self.steps * 5000,
                "late": self.steps // 7,
                "dropped_null": 3,
                "pruned": self.steps * 4900,
                "windows": self.steps * len(workload),
                "answers": self.steps * sum(query.k for query in workload),
                "batches": self.steps,
                "candidates": 900 + 100 * (self.steps % 5),
                "bound": 5000,
                "state_bytes": 250_000 + 1000 * (self.steps % 50),
                "emit_lag": 5.0 + self.steps % 3,
                "seconds": self.steps * 0.2,
                "queries": len(workload),
                "changes": self.changes,
                **({"lags": {"north": 0.0, "south": float(self.steps % 20)}} if stream == "flows" else {}),
            }
            for stream, workload in self.file.workloads.items()
        }

    def _attend(self):
        while not self._closed.wait(0.02):
            for name, message in self.box.requests():
                try:
                    reply = {"done": self._done(message)}
                except SkybandError as error:
                    reply = {"refused": str(error)}
                self.box.reply(name, reply)

    def _done(self, message):
        if message["kind"] == "drop":
            for stream, workload in self.file.workloads.items():
                if message["name"] in [query.name for query in workload]:
                    self.file = without_query(self.file, stream, message["name"])
                    self.changes += 1
                    return f"dropped {message['name']!r} from stream {stream!r}"
            raise SkybandError(f"query {message['name']!r} does not exist.")
        (one,) = parse(message["sql"])
        stream = known_stream(self.file.workloads, one.stream or message.get("stream"))
        refuse_unfit(self.file.workloads, one.query)
        self.file = with_query(self.file, stream, one.query)
        self.changes += 1
        return f"added {one.query.name!r} to stream {stream!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", default="8765", help="port, or host:port")
    parser.add_argument("--every", type=float, default=0.2, help="seconds between two windows; 0: none come")
    parser.add_argument("--windows", type=int, default=60, help="windows that are there from the start")
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--folder", type=Path, help="write the answers to this folder, and show the folder")
    given = parser.parse_args()
    with TemporaryDirectory() as home, Pretended(Path(home), many=given.many, seed=given.seed) as run:
        address = address_of(given.port, "--port")
        if given.folder is not None:
            given.folder.mkdir(parents=True, exist_ok=True)
            with FolderShow(given.folder) as show, PageServer(show, address) as server:
                _say(server.url)
                _write(run, given)
            return
        control = RunControl(run.box, lambda: run.file) if given.control else None
        show = LiveShow("seeded", control=control)
        show.begin(lambda: run.file, run.numbers)
        run.give(show.history, given.windows)
        with PageServer(show, address) as server:
            _say(server.url)
            while True:
                time.sleep(given.every or 3600)
                run.give(show.history)


def _say(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


def _write(run: Pretended, given) -> None:
    while True:
        run.steps += 1
        for stream, rows in step(run.file, run.steps, given.seed).items():
            hidden = given.folder / f".{stream}-{run.steps:08}.parquet"
            pq.write_table(rows, hidden)
            hidden.rename(given.folder / hidden.name[1:])
        if run.steps > given.windows:
            time.sleep(given.every or 3600)


if __name__ == "__main__":
    main()
