"""A local Spark session that is set up right, and what a session made elsewhere lacks."""

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

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from skyband import java
from skyband.errors import UnsupportedError
from skyband.spark.jars import kafka_jars

__all__ = ["RECOMMENDED", "REQUIRED", "Setting", "lacking", "require", "session"]

_LOG = logging.getLogger(__name__)
_QUIET = Path(__file__).with_name("log4j2.properties")


class Setting(NamedTuple):
    """A setting of Spark, the value it must have, and why.

    >>> Setting("spark.ui.enabled", "false", "nobody looks at it").line
    '.config("spark.ui.enabled", "false")  # nobody looks at it'
    """

    name: str
    value: str
    why: str

    @property
    def line(self) -> str:
        """The line to paste where the session is built."""
        return f'.config("{self.name}", "{self.value}")  # {self.why}'


REQUIRED = (
    Setting(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "the only state store of Spark's that takes a processor with state of its own",
    ),
)
RECOMMENDED = (
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "a micro-batch saves what changed, not the whole state",
    ),
    Setting(
        "spark.sql.execution.arrow.maxBytesPerBatch",
        "2147483647",
        "with any smaller value Spark measures the batch after every row it hands to Python",
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
    """Start Spark on this machine, set up for Skyband and quiet; a session that runs already is returned as it is.

    Parameters
    ----------
    app
        The name Spark knows the application by.
    master
        Where to run: `local[*]`, the default, takes all cores, `local[2]` two of them.
    memory
        What the Java machine may take: by default a quarter of the machine's memory, between 1 and 8 GB. It holds for
        the first session of a process: the machine outlives the session that started it.
    settings
        Settings of Spark by name. They win over what is set here. With `spark.remote` among them, or SPARK_REMOTE in
        the environment, the session is one of Spark Connect.
    verbose
        Let Java and its workers write to this process's stderr. Else what they write goes to a file named
        ``spark.log`` in a new folder ``skyband-spark-<process id>-…`` among the temporary files, which only this user
        can read.
    kafka
        Whether Kafka is to be read or written: then the jars that ``skyband jars`` fetched are on the class path,
        unless the settings name such jars or packages themselves.

    Raises
    ------
    MissingDependencyError
        If Spark would have to start Java and there is none that will do; if `kafka` is wanted and its jars have not
        been fetched.

    Examples
    --------
    >>> spark = session(master="local[2]", settings={"spark.ui.enabled": True})  # doctest: +SKIP
    """
    running = _running()
    if running is not None:
        _tell_what_is_lacking(running, ignored=bool(master or memory or settings))  # of Kafka, who reads it tells
        return running
    given = {name: _text(value) for name, value in (settings or {}).items()}
    if kafka and not any("kafka" in given.get(name, "") for name in ("spark.jars", "spark.jars.packages")):
        given["spark.jars"] = ",".join(filter(None, (given.get("spark.jars"), kafka_jars().paths)))
    remote = given.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if remote is not None and not remote.startswith("local"):
        return _build({"spark.app.name": app, **_for_queries(), **given})
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started Java already
        java.check()
    master = remote or given.get("spark.master") or master or "local[*]"
    wanted = {"spark.app.name": app, **_for_queries(), **_for_machine(master, memory or _quarter()), **given}
    if remote is None and ("PYSPARK_GATEWAY_PORT" not in os.environ or "spark.master" in given):
        wanted["spark.master"] = master  # spark-submit has its own
    if wanted.get("spark.pyspark.python") == sys.executable:  # another Python need not have Skyband
        wanted.setdefault("spark.python.daemon.module", "skyband.spark.worker_daemon")
    with _workers_run(wanted.get("spark.pyspark.python")), _apart(not verbose):
        return _build(wanted)


def lacking(spark: SparkSession, among: Sequence[Setting] = REQUIRED + RECOMMENDED) -> list[Setting]:
    """List the settings a session lacks, each with the value it needs and why; what is required comes first.

    Examples
    --------
    >>> for name, value, why in lacking(spark):  # doctest: +SKIP
    ...     spark.conf.set(name, value)
    """
    return [setting for setting in among if not _fits(spark.conf.get(setting.name, None), setting.value)]


def require(spark: SparkSession, streaming: bool) -> None:
    """Raise UnsupportedError if the session cannot run Skyband; whatever is not streaming, any session can run.

    Examples
    --------
    >>> require(spark, streaming=True)  # doctest: +SKIP
    """
    missing = lacking(spark, REQUIRED) if streaming else []
    if missing:
        lines = "".join(f"\n    {setting.line}" for setting in missing)
        raise UnsupportedError(
            "this Spark session lacks settings without which a streaming query of Skyband fails; "
            f"take one from skyband.spark.session(), or add where yours is built:{lines}"
        )


def _fits(there: str | None, needed: str) -> bool:
    if there is None:
        return False
    # A number of bytes may carry its unit; a platform's own provider goes by the same name in another package.
    return there.lower().removesuffix("b") == needed or there.rpartition(".")[2] == needed.rpartition(".")[2]


def _running() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkRuntimeError:  # which is how it says that there is none
        return None


def _tell_what_is_lacking(spark: SparkSession, ignored: bool) -> None:
    missing = lacking(spark)
    if ignored:
        _LOG.warning("a Spark session runs already and is used as it is; master, memory and settings have no effect.")
    if missing:
        lines = "".join(f"\n    {setting.line}" for setting in missing)
        _LOG.warning("the Spark session that runs already lacks settings that Skyband would have made:%s", lines)


def _build(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # A local Connect server is started with all settings, and then warns of each that a client may not change.
        warnings.filterwarnings("ignore", message=r"Failed to set spark\.", category=UserWarning)
        return builder.getOrCreate()


def _for_queries() -> dict[str, str]:
    """What any session may set, a remote one too."""
    return {
        **{setting.name: setting.value for setting in REQUIRED + RECOMMENDED},
        "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stopTimeout": "30s",  # by default a micro-batch that hangs is waited for without end
    }


def _for_machine(master: str, memory: str) -> dict[str, str]:
    """What is settled when Java starts."""
    settings = {
        "spark.driver.memory": memory,
        # Spark puts these before spark.driver.extraJavaOptions, which thereby stays the user's and wins.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    cores = _cores(master)
    if cores is not None:
        settings |= {
            "spark.sql.shuffle.partitions": str(cores),
            "spark.driver.bindAddress": "127.0.0.1",  # looks up no host name, and warns of none
            "spark.driver.host": "127.0.0.1",
        }
    if master.startswith("local"):
        settings["spark.pyspark.python"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return settings


def _cores(master: str) -> int | None:
    """How many cores a local master takes; None for one that is not local.

    >>> _cores("local"), _cores("local[3]"), _cores("local[2,4]"), _cores("spark://host:7077")
    (1, 3, 2, None)
    """
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


@contextmanager
def _workers_run(python: str | None) -> Iterator[None]:
    """Name the workers' interpreter in the environment too.

    When Python starts Spark, spark.pyspark.python is not read: workers run PYSPARK_PYTHON, or the PATH's python3, which
    need not have Skyband.
    """
    before = os.environ.get("PYSPARK_PYTHON")
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    try:
        yield
    finally:
        if before is not None:
            os.environ["PYSPARK_PYTHON"] = before
        else:
            os.environ.pop("PYSPARK_PYTHON", None)


@contextmanager
def _apart(wanted: bool) -> Iterator[None]:
    """Processes that are started inside write their stderr to a file.

    Java warns of its own modules before any setting is read, and Spark's workers tell each step they take.
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
    """Open a file that nobody else can have made, or pointed elsewhere: in a folder that only this user can enter."""
    folder = mkdtemp(prefix=f"skyband-spark-{os.getpid()}-")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    return os.open(Path(folder, "spark.log"), flags, 0o600)


def _quarter() -> str:
    """A quarter of this machine's memory as Java reads it, between 1 and 8 GB."""
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        pages = 8.0
    return f"{max(1, min(8, int(pages / 4)))}g"


def _text(value: object) -> str:
    """Write a value the way Spark reads it.

    >>> _text(True), _text(8), _text("2g")
    ('true', '8', '2g')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
