"""The engine of a job: this process for small files on this machine, Spark for everything else."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal, NamedTuple

from skyband import java
from skyband.connectors.arrow.delta_changes import stored_path
from skyband.connectors.arrow.paths import listed_files, refuse_options
from skyband.connectors.files import FilesSource
from skyband.connectors.table_source import TableSource
from skyband.errors import SkybandError, UnsupportedError
from skyband.expressions.failures import InvalidExpressionError
from skyband.jobs.local_tables import with_local_tables
from skyband.workload_file import WorkloadFile

__all__ = [
    "LARGEST_LOCAL_INPUT",
    "Engine",
    "EngineChoice",
    "choose_engine",
    "input_bytes",
    "needs_spark",
    "refuse_unsupported_file",
    "remote_of",
    "why_no_spark",
    "why_not_local",
    "without_advice",
]

Engine = Literal["local", "spark"]
# Bytes of input files up to which a run with --once took less time in this process than on Spark, at every size
# measured; docs/how-to/without_spark.md has them. The limit bounds the memory of queries whose rows cannot be
# reduced, and leaves larger inputs to Spark, which uses all cores of all machines.
LARGEST_LOCAL_INPUT = dict.fromkeys(("parquet", "csv", "json", "avro"), 200_000_000)


_SPARK_WITH_TABLES = (4, 2)  # whose data sources in Python limit a micro-batch


class EngineChoice(NamedTuple):
    """An engine, and the reason for it."""

    engine: Engine
    why: str

    def __str__(self) -> str:
        where = "in this process, without Spark" if self.engine == "local" else "on Spark"
        return f"runs {where}: {self.why}"


def choose_engine(file: WorkloadFile) -> EngineChoice:
    """Choose the engine for a bounded run of a file. Reads only the list of its files."""
    if why_no_spark() is not None:
        file = with_local_tables(file)
    reason = why_not_local(file)
    if reason is not None:
        return EngineChoice("spark", reason)
    needed, remote = _why_only_local(file), remote_of(file)
    if remote is not None and needed is None:
        return EngineChoice("spark", f"the Spark Connect server {remote!r} is named")
    missing = needed or why_no_spark()
    if missing is not None:
        return EngineChoice("local", missing)
    master = file.engine.master
    if master is not None and not master.startswith("local"):
        return EngineChoice("spark", f"the file names the Spark master {master!r}")
    for name in file.workloads:
        size, most = input_bytes(file, name), LARGEST_LOCAL_INPUT[str(file.streams[name].format)]  # type: ignore[attr-defined]
        if size > most:
            return EngineChoice(
                "spark",
                f"stream {name!r} has {_megabytes(size)} of input, more than the {_megabytes(most)} for --local",
            )
    total = sum(input_bytes(file, name) for name in file.workloads)
    return EngineChoice("local", f"the input is small, {_megabytes(total)} of files on this machine")


def _why_only_local(file: WorkloadFile) -> str | None:
    """Return why Spark cannot run a file: it can read tables in a session of this machine, since Spark 4.2."""
    for name in file.workloads:
        table = getattr(file.streams[name], "of_table", None)
        if table is None:
            continue
        master = file.engine.master or "local"
        if remote_of(file) is not None or not master.startswith("local") or _spark_version() < _SPARK_WITH_TABLES:
            article = "an" if table.startswith("I") else "a"
            return f"stream {name!r} is {article} {table}"
    return None


def _spark_version() -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version("pyspark").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return ()


def why_not_local(file: WorkloadFile) -> str | None:
    """Return why only Spark can run a file, else None. Reads the names of its data files, not their content."""
    try:
        refuse_unsupported_file(file)
        for name in file.workloads:
            stream = file.streams[name]
            assert isinstance(stream, FilesSource)  # others are rejected above
            refuse_options(name, stream)
            listed_files(name, stream)
    except UnsupportedError as error:
        return without_advice(error)
    return None


def refuse_unsupported_file(file: WorkloadFile) -> None:
    """Reject files with a source, a sink or a setting that needs Spark."""
    for name in file.workloads:
        source = file.streams[name]
        if isinstance(source, TableSource):
            raise UnsupportedError(
                f"stream {name!r} reads table {source.table!r} of Spark's catalog, which only Spark has. Run the file "
                "without --local."
            )
        if not isinstance(source, FilesSource):
            raise UnsupportedError(
                f"stream {name!r} has source {source.source!r}; without Spark only files and tables are supported. "
                "Run the file without --local."
            )
    for sink in file.sinks:
        if sink.needs_kafka:
            raise UnsupportedError(
                f"a sink of type {sink.type} is not supported without Spark, which sends the messages. Run the file "
                "without --local."
            )
    for key in file.engine.settings:
        if key.lower().startswith("spark.sql."):
            raise UnsupportedError(
                f"engine: {{settings: {{{key}: …}}}} can change the answers and is not supported without Spark. Run "
                "the file without --local."
            )


def remote_of(file: WorkloadFile) -> str | None:
    """Return the address of the Spark Connect server that a file or the environment names, else None."""
    found = dict(file.engine.settings).get("spark.remote", os.environ.get("SPARK_REMOTE"))
    return None if found is None else str(found)


def why_no_spark() -> str | None:
    """Return why Spark cannot run on this machine, None if it can: Java or the package is missing."""
    try:
        if find_spec("pyspark") is None:
            return "the package pyspark is not installed"
    except ImportError:
        return "the package pyspark cannot be imported"
    return None if java.find() is not None else "Java, which Spark needs, was not found"


def needs_spark(error: BaseException | None) -> bool:
    """Return whether a local run failed because of something that Spark may support: a text, a type, an expression."""
    while error is not None:
        if isinstance(error, UnsupportedError | InvalidExpressionError):
            return True
        error = error.__cause__
    return False


def without_advice(error: SkybandError) -> str:
    """Return the reason of an error without the advice to run on Spark."""
    plain = str(error).partition("; on Spark it may be.")[0]  # a list of functions follows
    return plain.replace(" Run the file without --local.", "").rstrip(".")


def input_bytes(file: WorkloadFile, name: str) -> int:
    """Return the size of a stream's files in bytes."""
    stream = file.streams[name]
    assert isinstance(stream, FilesSource)
    total = 0
    for path in listed_files(name, stream):
        try:
            total += stored_path(path).stat().st_size
        except OSError:
            continue  # the run reports a file that cannot be read
    return total


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 10_000_000 else f"{size / 1e6:.1f} MB"
