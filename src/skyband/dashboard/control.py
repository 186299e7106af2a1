"""Live changes from the page. They go through the job's mailbox, like `skyband ctl`, and need `--allow-control`."""

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
    """The changes that the page can request from a running job."""

    def __init__(self, box: Mailbox, file: Callable[[], WorkloadFile], timeout: float = TIMEOUT) -> None:
        self._box, self._file, self._timeout = box, file, timeout

    def explain(self, sql: str, stream: str | None) -> dict[str, Any]:
        """Return the plan of the workload with this query, and the query's cost. Nothing is changed."""
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
        """Add a query to the running job; return the job's reply."""
        return self._request({"kind": "add", "sql": sql, "stream": stream})

    def drop(self, name: str) -> str:
        """Remove a query from the running job; return the job's reply."""
        return self._request({"kind": "drop", "name": name})

    def _request(self, message: dict[str, Any]) -> str:
        if not self._box.is_heard():
            raise InvalidInputError(
                "the job does not accept changes: it has ended, or it was started with --once or --catch-up. "
                "Nothing was changed."
            )
        reply = self._box.ask(message, self._timeout)
        if reply is None:
            raise InvalidInputError(
                f"the job did not reply within {self._timeout:g} seconds, so the change may or may not have been made. "
                "Check the list of queries before you try again."
            )
        if "refused" in reply:
            raise InvalidInputError(f"{reply['refused']} The job continues unchanged.")
        return str(reply["done"])
