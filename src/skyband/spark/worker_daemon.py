"""The process that Spark's Python workers are forked from, with all that they run loaded before the first of them.

Spark's own has loaded nothing, because a fork copies none of the threads that some libraries start. Each worker then
spends seconds of processor time on loading the same, and after every task some more on looking for garbage in it. The
one thread that our libraries start is that of an allocator; it is told not to.

Run by Spark as ``python -m skyband.spark.worker_daemon pyspark.worker``, in place of ``pyspark.daemon``.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

from pyspark import daemon

from skyband.queries.families import FAMILIES

__all__ = ["main"]

SPARKS_OWN = "pyspark.daemon"
WORKER = "pyspark.worker"  # others, which Spark has for its planning, run nothing of ours
SHARDS = tuple(f"{family.package}.shard" for family in FAMILIES.values())
LOADED = ("pandas", "pyarrow.pandas_compat", "skyband.spark.tasks", "skyband.spark.processor", *SHARDS, WORKER)


def main() -> None:
    """Load, and fork workers until Spark closes stdin."""
    if sys.argv[1:2] == [WORKER]:
        os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
        for module in LOADED:
            importlib.import_module(module)
        if threads() != 1:  # one that holds a lock when a worker is forked would hold it there for ever
            os.execv(sys.executable, [sys.executable, "-m", SPARKS_OWN, *sys.argv[1:]])
        gc.collect()
        gc.freeze()  # workers look for garbage after every task; there is none in what was loaded
    daemon.manager()


def threads() -> int | None:
    """How many threads this process has; None where the system does not tell."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return None


if __name__ == "__main__":
    main()
