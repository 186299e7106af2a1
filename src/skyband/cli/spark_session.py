"""Spark for a command: started with a word said, kernels compiled meanwhile, and stopped whatever happens."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from skyband.kernels._cache import is_cold
from skyband.workload_file import EngineSection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["said", "spark_for"]

PATIENCE = 60  # seconds that Spark is given to stop


@contextmanager
def spark_for(
    screen: Console, app: str, engine: EngineSection | None = None, *, verbose: bool = False, kafka: bool = False
) -> Iterator[SparkSession]:
    """A session for the block, as a workload file's engine section wants it; with `kafka`, one that can read topics."""
    asked = engine or EngineSection()
    first = " and compiling kernels, which takes up to half a minute the first time" if is_cold() else ""
    with said(screen, f"starting Spark{first}…"):
        from skyband.spark import session  # noqa: PLC0415 - what takes seconds to load is loaded with a word said

        warm = threading.Thread(target=_warm_up, daemon=True)
        warm.start()
        spark = session(app, asked.master, asked.memory, dict(asked.settings), verbose, kafka)
        warm.join()
        if not verbose:
            _hush(spark)
    try:
        yield spark
    finally:
        _stop(spark)


@contextmanager
def said(screen: Console, message: str) -> Iterator[None]:
    """Say what takes a while: as a spinner on a terminal, as a line elsewhere."""
    if screen.is_terminal:
        with screen.status(message):
            yield
    else:
        screen.print(message)
        yield


def _hush(spark: SparkSession) -> None:
    """What goes wrong while a stream runs is told by the command; the bridge to Java would tell it besides."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    counts = getattr(getattr(spark, "_sc", None), "_accumulatorServer", None)
    if counts is not None:
        counts.handle_error = lambda *_: None


def _stop(spark: SparkSession) -> None:
    """Stop Spark; where Java has ended there is nothing to stop, and who ran it tells of that."""
    from skyband.spark.spark_errors import unless_gone  # noqa: PLC0415

    with warnings.catch_warnings(), unless_gone(), _in_time():
        warnings.filterwarnings("ignore", message="Unable to cleanly shutdown Spark", category=RuntimeWarning)
        spark.stop()


@contextmanager
def _in_time() -> Iterator[None]:
    """If the block does not end in time, the Java that this process has started is ended, and the wait with it."""
    from pyspark import SparkContext  # noqa: PLC0415 - loading Spark takes seconds

    java = getattr(SparkContext._gateway, "proc", None)
    last_resort = threading.Timer(PATIENCE, lambda: java and java.kill())
    last_resort.daemon = True
    last_resort.start()
    try:
        yield
    finally:
        last_resort.cancel()


def _warm_up() -> None:
    """Have the kernels compiled once, and stored where Spark's workers find them; that it takes long has been said."""
    from skyband.kernels import _notice  # noqa: PLC0415
    from skyband.topk.warmup import warm_up  # noqa: PLC0415

    _notice.silence()
    warm_up()
