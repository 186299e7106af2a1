"""Who writes the files of a campaign: one every second, and what faults add to them, hold up or spoil."""

from __future__ import annotations

import os
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults import work

EVERY = 1.0  # seconds between two files
STRETCH = 60  # files; then event time makes a leap, so that the definitions have no windows across it
LEAP = 40 * work.STEP
WATERMARK = 3 * work.STEP  # no row that counts is held up for longer
FAR = 2000 * work.STEP  # behind all windows
BROKEN = pa.scalar(b"\xff\xfe\xff", pa.binary())  # is no text
TEXTS = ("g", "client", "router", "car")
WRONG_TIME = 1_700_000_000_000_000_000  # microseconds: the year 55840, as of nanoseconds read as microseconds


def rows_of(number):
    """The rows of a file. A rule's probabilities sum to at most a half, so that a file can come twice."""
    leap = number // STRETCH * LEAP
    return [row._replace(ts=row.ts + leap, p=row.p / 2) for row in work.rows_of(number)]


class Feeder:
    """Files are read in the order of their numbers; their rows are those of `contents`, which faults reorder."""

    def __init__(self, folder):
        self._folder = folder
        self._enough, self._lock = threading.Event(), threading.RLock()
        self.rows = []  # that count: neither late nor without a time
        self.files = self.contents = 0
        self._newest = 0
        self._twice = -1  # the newest content that came twice
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def begin(self):
        self.write()
        self._thread.start()

    def newest(self):
        """The newest time of all rows that count."""
        return self._newest

    def write(self):
        with self._lock:
            self._count(self._next())

    def put(self, rows):
        """Write rows that answers must not see."""
        with self._lock:
            self._put(rows)

    def swap(self, random):
        """The next file comes after the one after it; rows within each are in any order."""
        with self._lock:
            both = [self._next(), self._next()]
            if both[1][0].ts - both[0][0].ts > 2 * work.STEP:  # event time leaps between them: the first would be late
                both.reverse()
            for rows in reversed(both):
                self._count(random.sample(rows, len(rows)))

    def repeat(self):
        """One of the newest files comes again, before any of its rows can be late."""
        with self._lock:
            if self.contents - 1 == self._twice or self.contents % STRETCH < 2:
                return False
            self._twice = self.contents - 1
            self._count(rows_of(self._twice))
            return True

    def drift(self, random):
        """The next file, as another version of its writer writes it."""
        with self._lock:
            rows = self._next()
            kind = random.choice(["more columns, in another order", "without a column", "compressed otherwise"])
            if kind == "without a column":
                rows = [row._replace(car=None) for row in rows]
            self.files += 1
            self._spoilt(rows, kind, random).rename(self._path(self.files - 1))
            self._counted(rows)
            return kind

    def break_text(self, random):
        """Rows of which no text is one, in a file of their own."""
        with self._lock:
            rows = work.rows_of(random.randrange(1000))
            unfinished = self._folder / f".{self.files:05}.parquet"
            table = work.table_of([row._replace(ts=self._newest) for row in rows])
            for name in TEXTS:
                raw = pa.array([BROKEN.as_py()] * len(rows), pa.binary())
                broken = pa.Array.from_buffers(pa.string(), len(rows), raw.buffers())
                table = table.set_column(table.schema.get_field_index(name), name, broken)
            pq.write_table(table, unfinished)
            self._show(unfinished)
            return len(rows)

    def spoil(self, random):
        """The next file, truncated or with garbage; returns what makes it whole again."""
        with self._lock:
            rows = self._next()
            number = self.files
            self.files += 1
            unfinished = self._folder / f".{number:05}.parquet"
            pq.write_table(work.table_of(rows), unfinished)
            whole = unfinished.read_bytes()
            bad = random.choice(
                [whole[: random.randint(1, len(whole) - 1)], random.randbytes(300), whole[:-4] + b"PAR2"]
            )
            unfinished.write_bytes(bad)
            self._stamp(unfinished, number)
            unfinished.rename(self._path(number))
            self._counted(rows)

        def mend():
            unfinished.write_bytes(whole)
            self._stamp(unfinished, number)
            unfinished.rename(self._path(number))

        return mend

    def touch(self, answered, random):
        """Give a file that was read another time, as a copy or a backup does; one that was not would come late by it.

        All streams have answered up to `answered`: at least as many files were read as contents lie before it.
        """
        with self._lock:
            read = sum(rows_of(number)[-1].ts < answered - WATERMARK for number in range(self.contents))
            if read:
                os.utime(self._path(random.randrange(read)), (time.time(), time.time()))
            return read > 0

    def finish(self):
        """No more rows, but one so late that everything before it becomes final."""
        self._enough.set()
        self._thread.join()
        self.put([work.last_row(self._newest + 1000 * work.STEP)])

    def _next(self):
        rows = rows_of(self.contents)
        self.contents += 1
        return rows

    def _count(self, rows):
        self._put(rows)
        self._counted(rows)

    def _counted(self, rows):
        self.rows += rows
        self._newest = max(self._newest, *(row.ts for row in rows))

    def _put(self, rows):
        work.write_rows(self._folder, self.files, rows)
        self.files += 1

    def _path(self, number):
        return self._folder / f"{number:05}.parquet"

    def _show(self, unfinished):
        self._stamp(unfinished, self.files)
        unfinished.rename(self._path(self.files))
        self.files += 1

    def _stamp(self, path, number):
        at = work.BEGIN + number
        os.utime(path, (at, at))

    def _spoilt(self, rows, kind, random):
        table, number = work.table_of(rows), self.files - 1
        unfinished = self._folder / f".{number:05}.parquet"
        if kind == "without a column":
            table = table.drop_columns("car")
        elif kind == "compressed otherwise":
            pq.write_table(table, unfinished, compression=random.choice(["zstd", "gzip", "none"]), row_group_size=5)
        else:
            table = table.append_column("colour", pa.array(["red"] * len(rows)))
            table = table.select(random.sample(table.column_names, table.num_columns))
        if kind != "compressed otherwise":
            pq.write_table(table, unfinished)
        self._stamp(unfinished, number)
        return unfinished

    def _feed(self):
        while not self._enough.wait(EVERY):
            self.write()
