"""Spark session of a command: start it with a progress message, compile kernels meanwhile, and always stop it."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from skyband.workload_file import EngineSection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["progress", "spark_for"]

STOP_TIMEOUT = 60  # seconds


@contextmanager
def spark_for(
    screen: Console, app: str, engine: EngineSection | None = None, *, verbose: bool = False, kafka: bool = False
) -> Iterator[SparkSession]:
    """A session with the settings of a workload file's engine section; with `kafka`, one with the Kafka connector."""
    settings = engine or EngineSection()
    with progress(screen, "starting Spark…") as show:
        from skyband.spark import session  # noqa: PLC0415 - loading Spark takes seconds

        warm = threading.Thread(target=_warm_up, args=(show,), daemon=True)
        warm.start()
        spark = session(app, settings.master, settings.memory, dict(settings.settings), verbose, kafka)
        warm.join()
        if not verbose:
            _silence(spark)
    try:
        yield spark
    finally:
        _stop(spark)


@contextmanager
def progress(screen: Console, message: str) -> Iterator[Callable[[str], None]]:
    """Show a message while the block runs: a spinner on a terminal, else a line. The block can add to the spinner."""
    if screen.is_terminal:
        with screen.status(message) as status:
            yield lambda more: status.update(f"{message} {more}")
    else:
        screen.print(message)
        yield lambda _: None


def _silence(spark: SparkSession) -> None:
    """Silence the errors of py4j. The command reports errors of a stream itself."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    counts = getattr(getattr(spark, "_sc", None), "_accumulatorServer", None)
    if counts is not None:
        counts.handle_error = lambda *_: None


def _stop(spark: SparkSession) -> None:
    """Stop Spark. If Java has exited there is nothing to stop, and the caller reports it."""
    from skyband.spark.spark_errors import unless_gone  # noqa: PLC0415

    with warnings.catch_warnings(), unless_gone(), _in_time():
        warnings.filterwarnings("ignore", message="Unable to cleanly shutdown Spark", category=RuntimeWarning)
        spark.stop()


@contextmanager
def _in_time() -> Iterator[None]:
    """Kill the Java process started by this process if the block takes longer than STOP_TIMEOUT."""
    from pyspark import SparkContext  # noqa: PLC0415 - loading Spark takes seconds

    java = getattr(SparkContext._gateway, "proc", None)
    killer = threading.Timer(STOP_TIMEOUT, lambda: java and java.kill())
    killer.daemon = True
    killer.start()
    try:
        yield
    finally:
        killer.cancel()


def _warm_up(show: Callable[[str], None]) -> None:
    """Compile the kernels once into the store that Spark's workers use; `show` gets the progress."""
    from skyband.kernels import _notice  # noqa: PLC0415
    from skyband.topk.warmup import warm_up  # noqa: PLC0415

    with _notice.following(show):
        warm_up()
