"""Queries added to a running job: on trial until a micro-batch with them completes, dropped if one fails with them.

The queries that make a micro-batch fail are found by repeating it with subsets of them. The text of the error is not
used, because rows and queries can put any text into it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.jobs.journal import Change, Journal, added_queries, given_up
from skyband.queries import Query
from skyband.spark.expressions import unlogged
from skyband.spark.plan import Pipeline
from skyband.spark.spark_errors import is_gone, reason_of, uncomputable
from skyband.spark.stream_handle import Deliver, Handle
from skyband.workload_file import WorkloadFile

__all__ = ["LiveQueries", "culprits", "failure_of"]

MOST_TRIALS = 64  # per search for the failing queries
_LOG = logging.getLogger("skyband.control")
_CLASS = re.compile(r"^.*(?:Error|Exception): (?=\S)")  # names of errors that Spark puts before a reason
Trial = Callable[[Sequence[Query]], BaseException | None]


class LiveQueries:
    """Queries added to a running job; the journal stores their changes."""

    def __init__(self, journal: Journal, own: Collection[str]) -> None:
        self._journal, self._own = journal, own  # the changes, and the names of the queries in the file
        self._on_trial: dict[str, list[Query]] = {}  # by stream
        self._dropped: dict[str, dict[str, str]] = {}  # by stream and name: the reason
        self._settling = threading.Lock()

    def read(self) -> list[Change]:
        """Return the changes of earlier runs, after dropping queries that crashed Java in each trial."""
        for change in given_up(self._journal.read()):
            self._drop(
                change.stream, change.query, "Spark's Java process ended each time before a micro-batch was completed"
            )
        changes = self._journal.read()
        last = {(change.stream, change.query.name): change for change in changes}
        for change in last.values():
            if change.kind == "try":
                self.joined(change.stream, change.query)
        return changes

    def joined(self, stream: str, query: Query) -> None:
        """Put a query on trial. The journal already contains it."""
        self.left(stream, query.name)
        self._on_trial[stream].append(query)
        self._dropped.get(stream, {}).pop(query.name, None)

    def left(self, stream: str, name: str) -> None:
        """Forget the trial of a query."""
        self._on_trial[stream] = [one for one in self._on_trial.get(stream, ()) if one.name != name]

    def dropped(self, stream: str) -> dict[str, str]:
        """Queries dropped from a stream because a micro-batch failed with them: the reason by name."""
        return dict(self._dropped.get(stream, {}))

    def metrics(self, stream: str) -> dict[str, Any]:
        """Metrics of the queries that were dropped because a micro-batch failed with them."""
        found = self.dropped(stream)
        return {"dropped_queries": len(found), "dropped": found}

    def settle(self, stream: str, handle: Handle) -> None:
        """Record queries as added if a micro-batch with them is completed."""
        if not self._on_trial.get(stream) or not handle.has_done_a_batch:
            return
        running = {query.name for query in handle.plan.queries}
        with self._settling:  # called by the control server and by await_end
            for query in [one for one in self._on_trial[stream] if one.name in running]:
                with suppress(OSError):  # a full disk: the query stays on trial
                    self._journal.append(Change("add", stream, query))
                    self._on_trial[stream].remove(query)

    def drop_culprits(self, file: WorkloadFile, stream: str, handle: Handle, trial: Trial) -> set[str]:
        """Drop the added queries that made a stream fail, and return their names (none if it has another cause)."""
        joined = added_queries(file, self._journal.read(), stream, self._own)
        if not joined or handle.failure is None:
            return set()
        gone = is_gone(handle.failure)
        try:
            if not gone:
                return self._drop_failing(file, stream, joined, trial)
        except Exception as error:
            gone = is_gone(error)
            if not gone:
                raise
        # Java has exited, so no trial can run. The newest query is suspect if no micro-batch with it was completed.
        # The others have completed one, and must not be dropped because someone killed Java.
        if not handle.has_done_a_batch and joined[0] in self._on_trial.get(stream, ()):
            self._journal.append(Change("try", stream, joined[0]))
        return set()

    def drop_unsound(self, file: WorkloadFile, stream: str, trial: Trial) -> set[str]:
        """Drop the added queries with which a stream cannot start, and return their names."""
        joined = added_queries(file, self._journal.read(), stream, self._own)
        return self._drop_failing(file, stream, joined, trial) if joined else set()

    def _drop_failing(self, file: WorkloadFile, stream: str, joined: Sequence[Query], trial: Trial) -> set[str]:
        own = [query for query in file.workloads[stream] if query not in joined]
        found = culprits(joined, own, trial)
        for query, error in found:
            self._drop(stream, query, file.hide(_why(query, error)))
        return {query.name for query, _ in found}

    def _drop(self, stream: str, query: Query, why: str) -> None:
        _LOG.warning("dropped %r from stream %r, which continues without it: %s", query.name, stream, why)
        self._journal.append(Change("drop", stream, query))
        self._dropped.setdefault(stream, {})[query.name] = why
        self.left(stream, query.name)


def _why(query: Query, error: BaseException) -> str:
    quoted, reason = uncomputable(error), _CLASS.sub("", reason_of(error))
    return f"{str(query) if quoted is None else quoted} cannot be computed ({reason})"


def culprits(joined: Sequence[Query], own: Sequence[Query], trial: Trial) -> list[tuple[Query, BaseException]]:
    """Return the queries of `joined` (newest first) with which a micro-batch fails, each with its error.

    `trial` returns the error of the micro-batch with some queries, or None. The result is empty if it fails with `own`
    alone, or if it does not fail with all of them: then a sink has failed, or the failure was temporary.
    """
    trials = 0

    def fails(some: Sequence[Query]) -> BaseException | None:
        nonlocal trials
        trials += 1
        return trial([*own, *some]) if own or some else None

    def among(some: Sequence[Query], error: BaseException) -> list[tuple[Query, BaseException]]:
        """Culprits among queries that fail together."""
        if len(some) == 1 or trials >= MOST_TRIALS:
            return [(query, error) for query in some]
        half = (len(some) + 1) // 2
        parts = [(part, fails(part)) for part in (some[:half], some[half:])]
        return [found for part, why in parts if why is not None for found in among(part, why)]

    error = fails(joined)
    if error is None:
        return []
    if fails(joined[1:]) is None:
        return [(joined[0], error)]  # usually the newest
    if fails(()) is not None:
        return []
    found = among(joined, error)
    while True:
        blamed = {query.name for query, _ in found}
        left = [query for query in joined if query.name not in blamed]
        if not left or (found and fails(left) is None):
            return found
        # They fail only in combination: drop the newest first.
        found += [(query, error) for query in (left if trials >= MOST_TRIALS else left[:1])]


class _NotKeptError(Exception):
    """Ends a trial before Spark commits the micro-batch."""


def failure_of(start: Callable[[Deliver], Handle], *, run: bool = True) -> BaseException | None:
    """Return the error with which a stream cannot start or compute its next micro-batch, or None.

    `start` starts the stream with a given writer. The writer of this trial discards the answers and ends the
    micro-batch before Spark commits it, so the next start repeats it from the same state. Without `run` nothing is
    computed, and only errors of the start are found.

    Success is detected by the calls that were reached, not by the text of an error, which can come from a row.
    """
    reached = False

    def compute(frame: DataFrame, _: int) -> None:
        nonlocal reached
        with unlogged():
            frame.write.format("noop").mode("overwrite").save()
        reached = True
        raise _NotKeptError

    def deliver(pipeline: Pipeline) -> DataStreamWriter:
        nonlocal reached
        if not run:
            reached = True
            raise _NotKeptError
        # With this trigger, the trial ends after the available rows.
        return pipeline.answers.writeStream.foreachBatch(compute).trigger(availableNow=True)

    handle = None
    try:
        handle = start(deliver)
        handle.await_end(progress=False)
    except Exception as error:
        if reached:
            return None
        cause = error if handle is None or handle.failure is None else handle.failure
        if is_gone(cause):
            raise cause from None
        return cause
    return None
