"""Changing the workload from the page: by the run's mailbox, as `skyband ctl` does, and only where that was allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skyband.errors import InvalidInputError
from skyband.jobs.mailbox import Mailbox
from skyband.queries.families import family_of
from skyband.queries.workload import Workload
from skyband.workload_file.live_query_limits import known_stream, read_query, refuse_unfit
from skyband.workload_file.models import plan_for

if TYPE_CHECKING:
    from skyband.workload_file import WorkloadFile

__all__ = ["RunControl"]

TIMEOUT = 60.0  # seconds


class RunControl:
    """What the page may do to a run."""

    def __init__(self, box: Mailbox, file: Callable[[], WorkloadFile], timeout: float = TIMEOUT) -> None:
        self._box, self._file, self._timeout = box, file, timeout

    def explain(self, sql: str, stream: str | None) -> dict[str, Any]:
        """What the workload would be with this query, and what the query would cost; nothing is changed."""
        query, stream = read_query(sql, stream)
        file = self._file()
        stream = known_stream(file.workloads, stream)
        refuse_unfit(file.workloads, query)
        before = file.workloads[stream]
        after: Workload[Any] = Workload([*before, query])
        plan = plan_for(after.family, file.algorithm_of(stream))
        cost = str(before.cost(query)) if family_of(query).supports("cost") else None
        return {
            "name": query.name,
            "stream": stream,
            "query": str(query),
            "text": after.explain(on_spark=True, plan=plan),
            "cost": cost,
        }

    def add(self, sql: str, stream: str | None) -> str:
        """Ask another query from here on; what the run says to it."""
        return self._told({"kind": "add", "sql": sql, "stream": stream})

    def drop(self, name: str) -> str:
        """Ask a query no longer; what the run says to it."""
        return self._told({"kind": "drop", "name": name})

    def _told(self, message: dict[str, Any]) -> str:
        if not self._box.is_heard():
            raise InvalidInputError(
                "nobody listens: the run has ended, or it is none that can be changed while it goes on (--once and "
                "--catch-up end by themselves). Nothing was changed."
            )
        reply = self._box.ask(message, self._timeout)
        if reply is None:
            raise InvalidInputError(
                f"the run gave no reply within {self._timeout:g} seconds; whether it heard cannot be told. Look at the "
                "list of queries before you try again."
            )
        if "refused" in reply:
            raise InvalidInputError(f"{reply['refused']} The run goes on as it was.")
        return str(reply["done"])
