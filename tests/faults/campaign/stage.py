"""Everything that a campaign hits: master, workers, database, cache, tables, and a run that somebody starts again."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable

from tests.connectors.postgres.server import Postgres
from tests.connectors.redis.server import Redis
from tests.connectors.tables import places
from tests.faults import work
from tests.faults.process import Driver
from tests.servers import PASSWORD
from tests.spark.cluster import Cluster

WORKERS = ("first", "second")
SINKS = """sinks:
  - {type: parquet, path: out}
  - {type: jsonl, path: lines}
  - {type: postgres, table: '{stream}', url: '${DATABASE_URL}', retry: 1 minute}
  - {type: redis, url: '${CACHE_URL}', prefix: newest, member: id, queries: [all], retry: 1 minute}
  - {type: delta, path: 'lake/{stream}', compact: 1 minute}
  - {type: iceberg, table: 'db.{stream}', catalog: 'sqlite:///catalog.db', warehouse: .}
"""
FILES = ("parquet", "jsonl")
SETTINGS = {
    "spark.cores.max": 2,
    "spark.executor.cores": 1,
    "spark.executor.memory": "600m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": 2,
}
FEED = 1.0  # seconds between two files
STRETCH = 60  # files; then event time makes a leap, so that the definitions have no windows across it
LEAP = 40 * work.STEP
RESTART = 0.5  # seconds until a run that ended is started again
# 3: the run failed. 2: it could not begin, because a server was away. 0 and 130 are ends that somebody asked for.
CODES = (-9, 2, 3)


class Feeder:
    """Writes a file of rows every second, and what faults add to them."""

    def __init__(self, folder):
        self._folder = folder
        self._enough, self._lock = threading.Event(), threading.Lock()
        self.rows = []  # that count: neither late nor without a time
        self.files = 0
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def begin(self):
        self.write()
        self._thread.start()

    def write(self):
        with self._lock:
            rows = [row._replace(ts=row.ts + self.leap()) for row in work.rows_of(self.files)]
            self._put(rows)
            self.rows += rows

    def put(self, rows):
        """Write rows that answers must not see."""
        with self._lock:
            self._put(rows)

    def touch(self, random):
        """Give a file that was read another time, as a copy or a backup does."""
        with self._lock:
            path = self._folder / f"{random.randrange(self.files):05}.parquet"
            os.utime(path, (time.time(), time.time()))

    def leap(self):
        return self.files // STRETCH * LEAP

    def newest(self):
        return self.rows[-1].ts

    def finish(self):
        """No more rows, but one so late that everything before it becomes final."""
        self._enough.set()
        self._thread.join()
        self.put([work.last_row(self.newest() + 1000 * work.STEP)])

    def _put(self, rows):
        work.write_rows(self._folder, self.files, rows)
        self.files += 1

    def _feed(self):
        while not self._enough.wait(FEED):
            self.write()


class Stage:
    """The run and all that it needs. It is started again whenever it ends, as a service is."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "cluster").mkdir()
        self.postgres, self.redis = Postgres(), Redis()
        self.cluster = Cluster(folder / "cluster", restarts=True)
        self.cluster.add_workers(*WORKERS)
        self.file = work.write_workload(folder, files=25)
        text = self.file.read_text().replace('"local[2]"', f'"{self.cluster.url}"')
        text = text.replace("sinks: [{type: parquet, path: out}, {type: jsonl, path: lines}]", SINKS)
        settings = ", ".join(f"{name}: {value}" for name, value in SETTINGS.items())
        text = text.replace("trigger: 1 second", f"trigger: 1 second, settings: {{{settings}}}")
        assert "spark.cores.max" in text
        self.file.write_text(text)
        self.feeder = Feeder(folder / "in")
        self.variables = {"DATABASE_URL": self.postgres.url(), "CACHE_URL": self.redis.url()}
        self.driver = Driver(self.file, SPARK_LOCAL_IP="127.0.0.1", **self.variables)
        self.began = time.monotonic()
        self.extra, self.numbers = [], 0  # queries that joined while it ran, and how many ever did
        self.codes = []  # of each end: seconds since the beginning, exit code, last line
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._start_again, daemon=True)

    def begin(self):
        self.feeder.begin()
        self.driver.start()
        self._watcher.start()

    def seconds(self):
        return time.monotonic() - self.began

    def answered(self):
        """How many files of answers there are; more after each batch of any stream."""
        return sum(work.reached(self.folder).values())

    def finish(self, wanted):
        """Wait until all is answered, and end the run."""
        self.driver.await_answers(self.folder, wanted, alive=False)  # it may still end by the last fault
        self._ending.set()
        self._watcher.join()
        assert self.driver.stop() == 130, self.driver.told()

    def found(self):
        """The rows of answers by sink."""
        found = work.found_in(self.folder)
        catalog = places.catalog_of(self.folder)
        found["delta"] = [
            row
            for name in work.STREAMS
            for row in DeltaTable(self.folder / "lake" / name).to_pyarrow_table().to_pylist()
        ]
        found["iceberg"] = [
            row for name in work.STREAMS for row in catalog.load_table(f"db.{name}").scan().to_arrow().to_pylist()
        ]
        found["postgres"] = []
        with self.postgres.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name in work.STREAMS:
                cursor = connection.execute(f"SELECT * FROM {name}")
                names = [column.name for column in cursor.description]
                found["postgres"] += [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return {name: rows if name in FILES else list(map(work.plain_row, rows)) for name, rows in found.items()}

    def kept(self):
        """The ids that the cache has."""
        with self.redis.connect() as client:
            return sorted(map(int, client.zrange("newest:all", 0, -1)))

    def close(self):
        self._ending.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self.driver.end()
        with suppress(Exception):
            self.cluster.stop()
        self.postgres.remove()
        self.redis.remove()

    def _start_again(self):
        while not self._ending.wait(0.1):
            if self.driver.is_alive():
                continue
            code = self.driver.process.returncode
            said = [line for line in self.driver.told().splitlines() if line.startswith("skyband: ")]
            self.codes.append((self.seconds(), code, *said[-1:]))
            for pid in self.driver.members():  # Java below a driver that was killed ends a little later
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not self._ending.wait(RESTART):
                self.driver.start()

    def is_rejected(self):
        """Whether the run could not begin again and again, which no fault explains."""
        return [code for _, code, *_ in self.codes[-4:]] == [2, 2, 2, 2]

    def unexpected(self):
        """Ends that no fault explains, or of which the run did not tell the reason."""
        assert PASSWORD not in self.driver.log.read_text(errors="replace")
        return [one for one in self.codes if one[1] not in CODES or (one[1] != -9 and len(one) == 2)]


def python_workers(cluster):
    """The Python processes of the executors."""
    found = []
    for pid in cluster.members():
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"worker_daemon" in command or b"pyspark.daemon" in command:
                found.append(pid)
    return found
