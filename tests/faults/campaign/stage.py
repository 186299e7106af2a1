"""Everything that a campaign hits: master, workers, servers, disks, cables, and a run that somebody starts again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow.fs import FileSelector, S3FileSystem

from tests.class_archive import java_options
from tests.connectors.kafka.broker import Broker, broker_jars
from tests.connectors.postgres.server import Postgres
from tests.connectors.redis.server import Redis
from tests.connectors.s3.server import PASSWORD as SECRET
from tests.connectors.s3.server import S3, USER
from tests.connectors.tables import places
from tests.faults import work
from tests.faults.campaign.disks import Disk
from tests.faults.campaign.feeder import WATERMARK, Feeder
from tests.faults.machine import SlowDisk, WrongClock, together
from tests.faults.process import Driver
from tests.network import network
from tests.servers import PASSWORD
from tests.spark import bounded_run
from tests.spark.cluster import HOME, Cluster

WORKERS = ("first", "second")
CABLES = ("database", "cache", "store", "broker", *WORKERS)
SINKS = """sinks:
  - {{type: parquet, path: disks/out/answers}}
  - {{type: jsonl, path: lines}}
  - {{type: postgres, table: '{{stream}}', url: '${{DATABASE_URL}}', retry: 1 minute}}
  - {{type: redis, url: '${{CACHE_URL}}', prefix: newest, member: id, queries: [all], retry: 1 minute}}
  - {{type: delta, path: 'lake/{{stream}}', compact: 1 minute}}
  - {{type: iceberg, table: 'db.{{stream}}', catalog: 'sqlite:///catalog.db', warehouse: .}}
"""
STORE = """  - {{type: jsonl, path: 's3://answers/lines', retry: 1 minute, options: {{access_key: '${{STORE_USER}}',
      secret_key: '${{STORE_SECRET}}', endpoint_override: '{store}', scheme: http, region: us-east-1}}}}
"""
BROKER = """  - {{type: kafka, servers: '{broker}', topic: answers, delivery: exactly_once}}
"""
ANSWERS = "disks/out/answers"
SETTINGS = {
    "spark.cores.max": 2,
    "spark.executor.cores": 1,
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": java_options(),
    "spark.sql.shuffle.partitions": 2,
}
LAST = 5  # attempts to catch up at the end: on a busy machine, a server may not respond in time
RESTART = 0.5  # seconds until a run that ended is started again
# 3: the run failed. 2: it could not begin, because a server was away. 0 and 130 are ends that somebody asked for.
CODES = (-9, 2, 3)
MEGABYTES = {"state": 256, "out": 256, "temp": 256}


class Stage:
    """The run and all that it needs. It is started again whenever it ends, as a service is."""

    def __init__(self, folder, programs, older=()):
        """`programs` says whether there are those of an object store and of a broker, which are fetched.

        `older` are folders with the packages of earlier versions of Spark, the first of which it begins with.
        """
        self.folder = folder
        self._sparks = [*(Path(one).resolve() / "pyspark" for one in older), HOME]
        (folder / "disks").mkdir()
        self.disks = {name: Disk(folder / "disks" / name, size) for name, size in MEGABYTES.items()}
        self.clock, self.slow = WrongClock(folder), SlowDisk(folder)
        machine = together(self.clock, self.slow)
        self.network = network(*CABLES)
        address = self.network.address
        with self.network.inside("database"):
            self.postgres = Postgres(address("database"))
        self.postgres.execute(f"CREATE ROLE writer LOGIN PASSWORD '{PASSWORD}'")
        self.postgres.execute("GRANT CREATE, USAGE ON SCHEMA public TO writer")
        with self.network.inside("cache"):
            self.redis = Redis(address("cache"))
        self.store = self.broker = None
        if programs["store"]:
            (folder / "store").mkdir()
            with self.network.inside("store"):
                self.store = S3(folder / "store", host=address("store"), variables=machine)
            self.store.make_bucket("answers")
        if programs["broker"]:
            (folder / "broker").mkdir()
            with self.network.inside("broker"):
                self.broker = Broker(folder / "broker", broker_jars(), address("broker"), machine)
        (folder / "cluster").mkdir()
        self._temp = self.disks["temp"].folder / "run"
        self._temp.mkdir()
        self.cluster = Cluster(
            folder / "cluster",
            restarts=True,
            network=self.network,
            variables=machine,
            spark=self._sparks[0],
            temp=self.disks["temp"].folder,
        )
        self.cluster.add_workers(*WORKERS)
        self.file = self._write_workload()
        self.feeder = Feeder(folder / "in")
        self.variables = {
            "DATABASE_URL": self.postgres.url("writer"),
            "CACHE_URL": self.redis.url(),
            "STORE_USER": USER,
            "STORE_SECRET": SECRET,
        }
        environment = {
            "SPARK_LOCAL_IP": address("here"),
            "TMPDIR": str(self._temp),
            "SPARK_LOCAL_DIRS": str(self._temp),
            **machine,
            **self.variables,
        }
        self.driver = Driver(self.file, **environment)
        self._use_spark()
        self.began = time.monotonic()
        self.extra, self.numbers = [], 0  # queries that joined while it ran, and how many ever did
        self.codes = []  # of each end: seconds since the beginning, exit code, last line
        self._moments = {}  # of the newest file of answers of a stream: its name and its newest window
        self._ending, self._held = threading.Event(), threading.Lock()
        self._watcher = threading.Thread(target=self._start_again, daemon=True)

    def _write_workload(self):
        file = work.write_workload(
            self.folder,
            files=25,
            watermark=f"{WATERMARK // work.SECOND} seconds",
            checkpoint="disks/state/checkpoint",
            sink=ANSWERS,
        )
        here, text = self.network.address("here"), file.read_text()
        sinks = SINKS.format()
        if self.store is not None:
            sinks += STORE.format(store=f"{self.store.host}:{self.store.port}")
        if self.broker is not None:
            sinks += BROKER.format(broker=self.broker.servers)
        settings = {**SETTINGS, "spark.driver.host": here, "spark.driver.bindAddress": here}
        listed = ", ".join(f'{name}: "{value}"' for name, value in settings.items())
        for before, after in {
            '"local[2]"': f'"{self.cluster.url}"',
            f"sinks: [{{type: parquet, path: {ANSWERS}}}, {{type: jsonl, path: lines}}]": sinks,
            "trigger: 1 second": f"trigger: 1 second, settings: {{{listed}}}",
        }.items():
            assert before in text, before
            text = text.replace(before, after)
        file.write_text(text)
        return file

    def begin(self):
        self.feeder.begin()
        self.driver.start()
        self._watcher.start()

    def upgrades(self):
        """How many newer versions of Spark are left."""
        return len(self._sparks) - 1

    def upgrade(self):
        """Stop the run, and start it and the cluster with the next version of Spark."""
        before = version_of(self._sparks.pop(0))
        with self._held:
            if self.driver.is_alive():
                self.driver.stop()
            self.driver.end()
            self.cluster.switch(self._sparks[0])
            self._use_spark()
            self.driver.start()
        return f"from {before} to {version_of(self._sparks[0])}"

    def _use_spark(self):
        paths = bounded_run.environment()["PYTHONPATH"]
        if self._sparks[0] != HOME:
            paths = os.pathsep.join((str(self._sparks[0].parent), paths))
        self.driver.set("PYTHONPATH", paths)

    def seconds(self):
        return time.monotonic() - self.began

    def needed(self):
        """A time that no answer reaches without rows that come from now on."""
        return self.feeder.newest() - WATERMARK

    def answered(self):
        """The newest window's end among the answers of the stream that is behind the others; -1 if one has none."""
        newest = dict.fromkeys(work.STREAMS, "")
        with os.scandir(self.folder / ANSWERS) if (self.folder / ANSWERS).is_dir() else _Nothing() as found:
            for entry in found:
                stream = entry.name.partition("-")[0]
                if entry.name.endswith(".parquet") and entry.name > newest.get(stream, "~"):
                    newest[stream] = entry.name
        return min(self._moment(stream, name) for stream, name in newest.items())

    def _moment(self, stream, name):
        if not name:
            return -1
        before, moment = self._moments.get(stream, ("", -1))
        if before != name:
            try:
                read = pq.read_table(self.folder / ANSWERS / name)
            except (OSError, ValueError):  # it is being replaced
                return moment
            column = "window_end" if "window_end" in read.column_names else "time"
            moment = pc.max(read[column].cast(pa.timestamp("us", "UTC"))).value
            self._moments[stream] = name, moment
        return moment

    def finish(self):
        """Let the run answer all there is, and end it; one that only catches up completes what was cut short."""
        last = self.feeder.newest()
        until = time.monotonic() + 1200
        while self.answered() <= last:  # the windows that have the newest row
            assert time.monotonic() < until, f"the last windows are not answered\n{self.driver.told()}"
            time.sleep(0.5)
        self._ending.set()
        self._watcher.join()
        assert self.driver.stop() == 130, self.driver.told()
        last = self.driver.with_options("--catch-up")
        for _ in range(LAST):
            last.start()
            if last.ended(900) == 0:
                return
        raise AssertionError(f"the last run ended with an error {LAST} times\n{last.told()}")

    def found(self, spark):
        """The rows of answers by sink; `spark` returns a session that can read messages."""
        found = work.found_in(self.folder, ANSWERS)
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
        if self.broker is not None:
            found["kafka"] = list(self._messages(spark()))
        plain = {
            name: rows if name in ("parquet", "jsonl") else list(map(work.plain_row, rows))
            for name, rows in found.items()
        }
        return plain if self.store is None else {**plain, "s3": list(map(work.plain_row, self._objects()))}

    def _messages(self, spark):
        """The rows of all messages that are committed; a message has those of one answer."""
        frame = spark.read.format("kafka").option("kafka.bootstrap.servers", self.broker.servers)
        frame = frame.option("kafka.isolation.level", "read_committed").option("subscribe", "answers").load()
        for record in frame.select(frame.value.cast("string").alias("value")).toLocalIterator():
            answer = json.loads(record["value"])
            shared = {name: value for name, value in answer.items() if name != "rows"}
            yield from ({**shared, **row} for row in answer["rows"])

    def _objects(self):
        files = S3FileSystem(**self.store.options())
        for one in files.get_file_info(FileSelector("answers/lines")):
            for line in files.open_input_stream(one.path).readall().decode().splitlines():
                yield json.loads(line)

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
        if self.store is not None:
            self.store.kill()
        if self.broker is not None:
            self.broker.stop(hard=True)
        self.network.remove()
        for disk in self.disks.values():
            disk.remove()

    def _start_again(self):
        while not self._ending.wait(0.1):
            with self._held:
                self._start_again_if_ended()

    def _start_again_if_ended(self):
        if not self.driver.is_alive():
            code = self.driver.process.returncode
            said = [line for line in self.driver.told().splitlines() if line.startswith("skyband: ")]
            self.codes.append((self.seconds(), code, *said[-1:]))
            for pid in self.driver.members():  # Java below a driver that was killed ends a little later
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for entry in self._temp.iterdir():  # as service managers do, who give each start a folder of its own
                shutil.rmtree(entry, ignore_errors=True)
            if not self._ending.wait(RESTART):
                self.driver.start()

    def is_rejected(self):
        """Whether the run could not begin again and again, which no fault explains."""
        return [code for _, code, *_ in self.codes[-6:]] == [2] * 6

    def unexpected(self):
        """Ends that no fault explains, or of which the run did not tell the reason."""
        assert PASSWORD not in self.driver.log.read_text(errors="replace")
        return [one for one in self.codes if one[1] not in CODES or (one[1] != -9 and len(one) == 2)]


def version_of(spark):
    """The version of a package of Spark."""
    return re.search(r"__version__: str = ['\"](.+)['\"]", (spark / "version.py").read_text())[1]


class _Nothing:
    """What a folder that is not there has."""

    def __enter__(self):
        return ()

    def __exit__(self, *_):
        pass


def python_workers(cluster):
    """The Python processes of the executors."""
    found = []
    for pid in cluster.members():
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"worker_daemon" in command or b"pyspark.daemon" in command:
                found.append(pid)
    return found


def set_writable(folder, *, allowed):
    """Allow or forbid everybody, also root, to create files in a folder; returns whether that is possible here."""
    done = subprocess.run(["chattr", "-i" if allowed else "+i", folder], check=False, capture_output=True)
    return done.returncode == 0
