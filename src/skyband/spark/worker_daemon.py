"""The process from which Spark's Python workers are forked, with all modules of the workers imported in advance.

Spark's own daemon imports nothing in advance, because a fork does not copy the threads that some libraries start. Each
worker then spends seconds of CPU time on the same imports, and after every task more on garbage collection of the
imported objects. The only thread that our libraries start belongs to an allocator; it is disabled here.

Workers load compiled code when they first need it: tens of thousands of objects, which Spark's garbage collection after
every task would visit again. They are excluded from it as well.

Spark runs this as ``python -m skyband.spark.worker_daemon pyspark.worker``, instead of ``pyspark.daemon``.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

from pyspark import daemon

from skyband.queries.families import FAMILIES
from skyband.spark.versions import has_limited_sources

__all__ = ["main"]

SPARKS_OWN = "pyspark.daemon"
WORKER = "pyspark.worker"  # other workers, which Spark uses for planning, do not run our code
SHARDS = tuple(f"{family.package}.shard" for family in FAMILIES.values())
PROJECTIONS = tuple(f"{family.package}.projection" for family in FAMILIES.values())
LOADED = (
    "pandas",
    "pyarrow.pandas_compat",
    "skyband.spark.tasks",
    "skyband.spark.processor",
    *(["skyband.connectors.file_source"] if has_limited_sources() else []),
    "skyband.local.pipeline",
    *SHARDS,
    *PROJECTIONS,
    WORKER,
)

MANY = 5_000  # objects; a task with compiled code loaded before leaves some hundreds
MOST_FREEZES = 8  # of a worker; each can retain reference cycles that later become unreachable


def main() -> None:
    """Import the modules, then fork workers until Spark closes stdin."""
    if sys.argv[1:2] == [WORKER]:
        os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
        for module in LOADED:
            importlib.import_module(module)
        if threads() != 1:  # a lock that another thread holds during the fork would never be released
            os.execv(sys.executable, [sys.executable, "-m", SPARKS_OWN, *sys.argv[1:]])
        gc.collect()
        gc.freeze()  # exclude imported objects from garbage collection after every task
        setattr(daemon, "gc", SimpleNamespace(collect=Collector().collect))  # noqa: B010 - it collects after every task
    daemon.manager()


class Collector:
    """The garbage collection of a worker after each of its tasks.

    If many objects survive, such as compiled code that was loaded, later collections skip them. Objects without
    references are released in any case; only reference cycles among skipped objects are not.
    """

    def __init__(self) -> None:
        self._freezes = 0

    def collect(self) -> int:
        """Collect garbage; return the number of unreachable objects."""
        found = gc.collect()
        if self._freezes < MOST_FREEZES and len(gc.get_objects()) > MANY:
            gc.freeze()
            self._freezes += 1
        return found


def threads() -> int | None:
    """Return the number of threads of this process; None if the system does not provide it."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return None


if __name__ == "__main__":
    main()
