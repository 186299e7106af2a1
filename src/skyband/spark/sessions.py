"""Create a local Spark session with the required settings, and check the settings of other sessions."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from skyband import java
from skyband.errors import UnsupportedError
from skyband.spark.jars import kafka_jars
from skyband.spark.versions import has_processors

__all__ = ["RECOMMENDED", "REQUIRED", "Setting", "configure", "cores_of", "lacking", "require", "session"]

_LOG = logging.getLogger(__name__)
_QUIET = Path(__file__).with_name("log4j2.properties")
_STARTUP = Path(__file__).with_name("startup")
# By default Arrow's Java checks the bounds of a buffer at each access to a value. Spark's own rows are not checked.
_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"


class Setting(NamedTuple):
    """A Spark setting, its required value, and the reason.

    >>> Setting("spark.ui.enabled", "false", "not needed").line
    '.config("spark.ui.enabled", "false")  # not needed'
    """

    name: str
    value: str
    why: str

    @property
    def line(self) -> str:
        """The line to add to the builder of the session."""
        return f'.config("{self.name}", "{self.value}")  # {self.why}'


REQUIRED = (
    Setting(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "the only state store of Spark that supports transformWithState",
    ),
)
RECOMMENDED = (
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "a micro-batch saves only changes, not the whole state",
    ),
    Setting(
        "spark.sql.execution.arrow.maxBytesPerBatch",
        "2147483647",
        "with any smaller value Spark computes the batch size after every row it passes to Python",
    ),
)


def session(
    app: str = "skyband",
    master: str | None = None,
    memory: str | None = None,
    settings: Mapping[str, object] | None = None,
    verbose: bool = False,
    kafka: bool = False,
) -> SparkSession:
    """Start a local Spark session with the settings for Skyband; return a running session unchanged.

    In a program that spark-submit has started, the session has the master and the settings of spark-submit instead.

    Parameters
    ----------
    app
        The application name in Spark.
    master
        The Spark master. `local[*]`, the default, uses all cores, `local[2]` two cores.
    memory
        The maximum heap of the JVM. Default: a quarter of the machine's memory, between 1 and 8 GB. Applies only to the
        first session of a process, because the JVM outlives that session.
    settings
        Spark settings by name. They override the settings made here. With `spark.remote`, or SPARK_REMOTE in the
        environment, the session uses Spark Connect.
    verbose
        Let the JVM and its workers write to this process's stderr. Otherwise their output goes to a file named
        ``spark.log`` in a new temporary folder ``skyband-spark-<process id>-…``, which only this user can read.
    kafka
        Add the Kafka connector to the class path: the jars that ``skyband jars`` downloaded, unless the settings name
        Kafka jars or packages.

    Raises
    ------
    MissingDependencyError
        If Spark must start Java and no supported Java is found; or if `kafka` is true and its jars have not been
        downloaded.

    Examples
    --------
    >>> spark = session(master="local[2]", settings={"spark.ui.enabled": True})  # doctest: +SKIP
    """
    running = _running()
    if running is not None:
        # A missing Kafka connector is reported when it is used.
        _warn_if_lacking(running, ignored=bool(master or memory or settings))
        return running
    given = {**_submitted(), **{name: _text(value) for name, value in (settings or {}).items()}}
    if kafka and not any("kafka" in given.get(name, "") for name in ("spark.jars", "spark.jars.packages")):
        given["spark.jars"] = ",".join(filter(None, (given.get("spark.jars"), kafka_jars().paths)))
    remote = given.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if remote is not None and not remote.startswith("local"):
        return _build({"spark.app.name": app, **_for_queries(), **given})
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # otherwise spark-submit has already started Java
        java.check()
    master = remote or given.get("spark.master") or master or "local[*]"
    wanted = {"spark.app.name": app, **_for_queries(), **_for_machine(master, memory or _quarter()), **given}
    if remote is None and ("PYSPARK_GATEWAY_PORT" not in os.environ or "spark.master" in given):
        wanted["spark.master"] = master  # spark-submit has its own
    if wanted.get("spark.pyspark.python") == sys.executable:  # another Python may not have Skyband installed
        wanted.setdefault("spark.python.daemon.module", "skyband.spark.worker_daemon")
    with _workers_run(wanted.get("spark.pyspark.python")), _stderr_to_file(not verbose):
        return _build(wanted)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the settings that Skyband requires and recommends to a session builder, and return it.

    Use it for a session of your own. Settings that you add afterwards override these.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> spark = configure(SparkSession.builder.master("yarn")).getOrCreate()  # doctest: +SKIP
    """
    for setting in REQUIRED + RECOMMENDED:
        builder = builder.config(setting.name, setting.value)
    return builder


def lacking(spark: SparkSession, among: Sequence[Setting] = REQUIRED + RECOMMENDED) -> list[Setting]:
    """Return the missing settings of a session, each with its value and the reason; required settings first.

    Examples
    --------
    >>> for name, value, why in lacking(spark):  # doctest: +SKIP
    ...     spark.conf.set(name, value)
    """
    return [setting for setting in among if not _fits(_effective(spark, setting.name), setting.value)]


def require(spark: SparkSession, streaming: bool) -> None:
    """Raise UnsupportedError if the session cannot run a streaming query; every session can run batch queries.

    Examples
    --------
    >>> require(spark, streaming=True)  # doctest: +SKIP
    """
    missing = lacking(spark, REQUIRED) if streaming else []
    if missing:
        lines = "".join(f"\n    {setting.line}" for setting in missing)
        raise UnsupportedError(
            "this Spark session lacks settings that streaming queries of Skyband require. "
            "Create it with skyband.spark.session(), pass your builder to skyband.spark.configure(), or add to your "
            f"session builder:{lines}"
        )
    if streaming and not has_processors(spark):
        raise UnsupportedError(
            f"streams over Spark Connect require Spark 4.1 or newer, got {spark.version}, whose Connect has no "
            "transformWithState. No stream was started. Use a session without Spark Connect, or a batch data frame."
        )
    if streaming:
        _refuse_missing_python(spark)


def _refuse_missing_python(spark: SparkSession) -> None:
    """Reject a session whose workers' Python is in an archive that is not unpacked beside the driver.

    Spark also runs it on the driver, in the working directory, to read the schema of the state.
    """
    python = str(getattr(getattr(spark, "_sc", None), "pythonExec", ""))
    if os.sep not in python or os.path.isabs(python) or Path(python).exists():
        return
    folder = Path(python).parts[0]
    raise UnsupportedError(
        f"spark.pyspark.python must exist in the driver's working directory too, got {python!r}, which is not in "
        f"{os.getcwd()!r}. Spark runs it there when a stream starts. Unpack the archive of the workers: mkdir {folder} "
        f"&& tar -xzf skyband-environment.tar.gz -C {folder}"
    )


def _effective(spark: SparkSession, name: str) -> str | None:
    """Return a setting, or the platform's default: managed sessions may have it right and not allow to set it."""
    try:
        return spark.conf.get(name)
    except PySparkException:  # unknown to this version of Spark
        return None


def _fits(there: str | None, needed: str) -> bool:
    if there is None:
        return False
    # A number of bytes may have a unit. A platform may have its own provider class of the same name in another package.
    return there.lower().removesuffix("b") == needed or there.rpartition(".")[2] == needed.rpartition(".")[2]


def _running() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkRuntimeError:  # no active session
        return None


def _warn_if_lacking(spark: SparkSession, ignored: bool) -> None:
    missing = lacking(spark)
    if ignored:
        _LOG.warning("using the running Spark session; master, memory and settings are ignored.")
    if missing:
        lines = "".join(f"\n    {setting.line}" for setting in missing)
        _LOG.warning("the running Spark session lacks settings that Skyband requires or recommends:%s", lines)


def _submitted() -> dict[str, str]:
    """Return the settings with which spark-submit has started this program; empty without spark-submit."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # connects to the JVM that spark-submit has started
    return dict(SparkConf().getAll())


def _build(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # A local Connect server gets all settings at startup, and then warns about each that clients cannot change.
        warnings.filterwarnings("ignore", message=r"Failed to set spark\.", category=UserWarning)
        return builder.getOrCreate()


def _for_queries() -> dict[str, str]:
    """Return the settings of every session, including remote sessions."""
    return {
        **{setting.name: setting.value for setting in REQUIRED + RECOMMENDED},
        "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stopTimeout": "30s",  # the default waits for a hanging micro-batch without limit
    }


def _for_machine(master: str, memory: str) -> dict[str, str]:
    """Return the settings that apply only when the JVM starts."""
    settings = {
        "spark.driver.memory": memory,
        # spark.driver.extraJavaOptions, which is left to users, overrides these.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()} {_UNCHECKED}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    cores = _cores(master)
    if cores is not None:
        settings |= {
            "spark.sql.shuffle.partitions": str(cores),
            "spark.driver.bindAddress": "127.0.0.1",  # avoids a host name lookup and its warnings
            "spark.driver.host": "127.0.0.1",
        }
    if master.startswith("local"):
        settings["spark.pyspark.python"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return settings


def cores_of(spark: SparkSession) -> int | None:
    """Return the number of cores of a session on this machine; None if its master is not local.

    >>> cores_of(spark)  # doctest: +SKIP
    2
    """
    return _cores(spark.conf.get("spark.master", "") or "")


def _cores(master: str) -> int | None:
    """Return the number of cores of a local master; None if the master is not local.

    >>> _cores("local"), _cores("local[3]"), _cores("local[2,4]"), _cores("spark://host:7077")
    (1, 3, 2, None)
    """
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


@contextmanager
def _workers_run(python: str | None) -> Iterator[None]:
    """Set the workers' interpreter in the environment too, and the folder of modules that it runs at its start.

    When Python starts Spark, spark.pyspark.python is ignored: workers run PYSPARK_PYTHON, or python3 from the PATH,
    which may not have Skyband installed. The JVM has a copy of the environment, so it is restored here.
    """
    settings = {} if python is None else {"PYSPARK_PYTHON": python}
    if python == sys.executable:
        there = os.environ.get("PYTHONPATH")
        settings["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_STARTUP), there)))
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = earlier


@contextmanager
def _stderr_to_file(wanted: bool) -> Iterator[None]:
    """Redirect the stderr of processes that are started in the block to a file.

    Java prints warnings about its modules before it reads any setting, and Spark's workers log every step.
    """
    if not wanted:
        yield
        return
    sys.stderr.flush()
    screen = os.dup(2)
    log = _new_log()
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(screen, 2)
        os.close(screen)
        os.close(log)


def _new_log() -> int:
    """Open a new log file in a folder that only this user can access, so that no other user can replace it."""
    folder = mkdtemp(prefix=f"skyband-spark-{os.getpid()}-")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    return os.open(Path(folder, "spark.log"), flags, 0o600)


def _quarter() -> str:
    """Return a quarter of this machine's memory, between 1 and 8 GB, in Java's notation."""
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (AttributeError, ValueError, OSError):  # not available on this system
        pages = 8.0
    return f"{max(1, min(8, int(pages / 4)))}g"


def _text(value: object) -> str:
    """Format a value of a Spark setting.

    >>> _text(True), _text(8), _text("2g")
    ('true', '8', '2g')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
