"""Queries that joined a run while it ran: on trial until a micro-batch with them is done, dropped if they break one.

Which of them break it is found by trying the micro-batch that failed with some of them and without the others. The text
of an error is no evidence: rows and queries can put anything into it.
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

from skyband.jobs.journal import Change, Journal, given_up, guests
from skyband.queries import Query
from skyband.spark.expressions import unlogged
from skyband.spark.spark_errors import is_gone, reason_of, uncomputable
from skyband.spark.stream_handle import Handle, Write
from skyband.workload_file import WorkloadFile

__all__ = ["Guests", "culprits", "failure_of"]

MOST_TRIALS = 64  # that it may take to find out who is to blame
_LOG = logging.getLogger("skyband.control")
_CLASS = re.compile(r"^.*(?:Error|Exception): (?=\S)")  # Spark wraps a reason in the names of errors
Tried = Callable[[Sequence[Query]], BaseException | None]


class Guests:
    """Knows them by the journal, in which it notes what becomes of them."""

    def __init__(self, journal: Journal, own: Collection[str]) -> None:
        self._journal, self._own = journal, own  # the changes, and the names of the queries that the file itself has
        self._on_trial: dict[str, list[Query]] = {}  # by stream
        self._dropped: dict[str, dict[str, str]] = {}  # by stream and name: why it was dropped
        self._settling = threading.Lock()

    def read(self) -> list[Change]:
        """What was changed while the file ran before, without what Java ended with each time that it was tried."""
        for change in given_up(self._journal.read()):
            self._drop(
                change.stream, change.query, "Java, which runs Spark, ended each time before a micro-batch was done"
            )
        changes = self._journal.read()
        last = {(change.stream, change.query.name): change for change in changes}
        for change in last.values():
            if change.kind == "try":
                self.joined(change.stream, change.query)
        return changes

    def joined(self, stream: str, query: Query) -> None:
        """A query is on trial from here on; the journal says so."""
        self.left(stream, query.name)
        self._on_trial[stream].append(query)
        self._dropped.get(stream, {}).pop(query.name, None)

    def left(self, stream: str, name: str) -> None:
        """A query is not asked any more."""
        self._on_trial[stream] = [one for one in self._on_trial.get(stream, ()) if one.name != name]

    def dropped(self, stream: str) -> dict[str, str]:
        """What was dropped from a stream because it broke a micro-batch: by name, why."""
        return dict(self._dropped.get(stream, {}))

    def metrics(self, stream: str) -> dict[str, Any]:
        """How many queries of a stream were dropped because they broke a micro-batch, and why each was."""
        found = self.dropped(stream)
        return {"dropped_queries": len(found), "dropped": found}

    def settle(self, stream: str, handle: Handle) -> None:
        """Note down that queries have joined, if a micro-batch with them is done."""
        if not self._on_trial.get(stream) or not handle.has_done_a_batch:
            return
        asked = {query.name for query in handle.plan.queries}
        with self._settling:  # who confirms a query and who follows the run may both find the micro-batch done
            for query in [one for one in self._on_trial[stream] if one.name in asked]:
                with suppress(OSError):  # a full disk: it stays on trial
                    self._journal.append(Change("add", stream, query))
                    self._on_trial[stream].remove(query)

    def drop_culprits(self, file: WorkloadFile, stream: str, handle: Handle, tried: Tried) -> set[str]:
        """Drop the queries that made a stream fail, and return their names; none where nobody is to blame."""
        joined = guests(file, self._journal.read(), stream, self._own)
        if not joined or handle.failure is None:
            return set()
        gone = is_gone(handle.failure)
        try:
            if not gone:
                return self._dropped_of(file, stream, joined, tried)
        except Exception as error:
            gone = is_gone(error)
            if not gone:
                raise
        # Without Java nothing can be tried. It may have been the newest, if no micro-batch with it was ever done; any
        # other has shown that it can be computed, and whoever kills Java must not drop it.
        if not handle.has_done_a_batch and joined[0] in self._on_trial.get(stream, ()):
            self._journal.append(Change("try", stream, joined[0]))
        return set()

    def drop_unsound(self, file: WorkloadFile, stream: str, tried: Tried) -> set[str]:
        """Drop the queries with which a stream cannot be started, and return their names."""
        joined = guests(file, self._journal.read(), stream, self._own)
        return self._dropped_of(file, stream, joined, tried) if joined else set()

    def _dropped_of(self, file: WorkloadFile, stream: str, joined: Sequence[Query], tried: Tried) -> set[str]:
        own = [query for query in file.workloads[stream] if query not in joined]
        found = culprits(joined, own, tried)
        for query, error in found:
            self._drop(stream, query, file.hide(_why(query, error)))
        return {query.name for query, _ in found}

    def _drop(self, stream: str, query: Query, why: str) -> None:
        _LOG.warning("dropped %r from stream %r, which goes on without it: %s", query.name, stream, why)
        self._journal.append(Change("drop", stream, query))
        self._dropped.setdefault(stream, {})[query.name] = why
        self.left(stream, query.name)


def _why(query: Query, error: BaseException) -> str:
    quoted, reason = uncomputable(error), _CLASS.sub("", reason_of(error))
    return f"{str(query) if quoted is None else quoted} cannot be computed ({reason})"


def culprits(joined: Sequence[Query], own: Sequence[Query], tried: Tried) -> list[tuple[Query, BaseException]]:
    """Those of the queries `joined`, the newest first, with which a micro-batch fails, and with which error.

    `tried` says how it fails with some queries. None of them is to blame if it fails with `own` alone, nor if it does
    not fail with all of them: what receives the answers has failed, or it has passed.
    """
    trials = 0

    def fails(some: Sequence[Query]) -> BaseException | None:
        nonlocal trials
        trials += 1
        return tried([*own, *some]) if own or some else None

    def among(some: Sequence[Query], error: BaseException) -> list[tuple[Query, BaseException]]:
        """The culprits among queries that fail together."""
        if len(some) == 1 or trials >= MOST_TRIALS:
            return [(query, error) for query in some]
        half = (len(some) + 1) // 2
        parts = [(part, fails(part)) for part in (some[:half], some[half:])]
        return [found for part, why in parts if why is not None for found in among(part, why)]

    error = fails(joined)
    if error is None:
        return []
    if fails(joined[1:]) is None:
        return [(joined[0], error)]  # mostly it is the newest
    if fails(()) is not None:
        return []
    found = among(joined, error)
    while True:
        blamed = {query.name for query, _ in found}
        left = [query for query in joined if query.name not in blamed]
        if not left or (found and fails(left) is None):
            return found
        # They fail only together: the newest goes first.
        found += [(query, error) for query in (left if trials >= MOST_TRIALS else left[:1])]


class _NotKeptError(Exception):
    """Ends a trial, so that Spark does not note the micro-batch down."""


def failure_of(start: Callable[[Write], Handle], *, run: bool = True) -> BaseException | None:
    """Why a stream cannot be started, or its next micro-batch cannot be computed; None if it can.

    `start` starts the stream, given where its answers go. Here they go nowhere, and the micro-batch is ended before it
    is noted down: whoever starts the stream next runs it again, from the same state. Without `run` nothing is computed,
    and only what is found out before that is told.

    That a trial succeeded is told by what was called, not by what an error says: its text may come from a row.
    """
    reached = False

    def compute(frame: DataFrame, _: int) -> None:
        nonlocal reached
        with unlogged():
            frame.write.format("noop").mode("overwrite").save()
        reached = True
        raise _NotKeptError

    def write(out: DataFrame) -> DataStreamWriter:
        nonlocal reached
        if not run:
            reached = True
            raise _NotKeptError
        return out.writeStream.foreachBatch(compute).trigger(availableNow=True)  # it ends, whatever there is to read

    handle = None
    try:
        handle = start(write)
        handle.await_end(progress=False)
    except Exception as error:
        if reached:
            return None
        cause = error if handle is None or handle.failure is None else handle.failure
        if is_gone(cause):
            raise cause from None
        return cause
    return None
