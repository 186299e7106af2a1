"""Alerts: messages about changes of an answer that someone waits for, to a webhook or the log."""

from __future__ import annotations

import json
import logging
import re
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from skyband.connectors.secrets import SecretsRule, shown_address
from skyband.connectors.section import Wrong
from skyband.connectors.server import GivenUpError, Patience, ServerSink
from skyband.connectors.values import Scalar, Text
from skyband.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.queries import Query
    from skyband.sharding.delivery import Opening, Outlet

__all__ = ["Alert", "AlertsSink", "alerts_of", "wrong_conditions"]

Row = Mapping[str, Any]
Alert = dict[str, Any]
TIMEOUT = 10.0  # seconds of one request
_LOG = logging.getLogger("skyband.alerts")
_TOP = re.compile(r"(enters|leaves) +top +([1-9]\d{0,8})")
_SCORE = re.compile(r"score *(>=|<=|>|<) *([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)", re.IGNORECASE)
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">": lambda score, limit: score > limit,
    ">=": lambda score, limit: score >= limit,
    "<": lambda score, limit: score < limit,
    "<=": lambda score, limit: score <= limit,
}
_RULE = "must be 'enters top 3', 'leaves top 3', 'leader changes', or a limit such as 'score > 100'"


class AlertsSink(ServerSink):
    """Sends an alert for each change that meets a condition: as a request to `url`, else to the log.

    >>> AlertsSink(when=["enters top 3"], url="http://127.0.0.1:8080/alerts").target
    ' when enters top 3 at http://127.0.0.1:8080/alerts'
    """

    missing: ClassVar[Mapping[str, str]] = {"when": "set a condition, such as enters top 3"}
    schemes: ClassVar[tuple[str, ...]] = ("http://", "https://")
    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule("write ${NAME} and set NAME in the environment.")

    type: Literal["alerts"] = Field(default="alerts", description="messages about changes, to a webhook or the log")
    output: Literal["answers", "changes"] = Field(default="changes", description="Alerts are made from changes.")
    when: list[Text] = Field(
        min_length=1,
        description="The conditions: enters top N, leaves top N, leader changes, score > X (also >=, <, <=).",
        examples=[["enters top 3", "leader changes"], ["score > 100"]],
    )
    url: Text | None = Field(
        default=None,
        repr=False,
        description="The address that receives each alert as a POST request with a JSON object. Default: the log.",
        examples=["https://hooks.example/alerts"],
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Headers of the requests. Secrets must come from the environment.",
        examples=[{"Authorization": "Bearer ${HOOK_TOKEN}"}],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check the conditions and the address."""
        yield from super().rules(raw)
        yield from wrong_conditions(raw)
        if raw.get("output") == "answers":
            yield "output", "must be changes, because alerts are made from changes; remove the key."

    def open(self, opening: Opening) -> Outlet:
        """Return the writer of alerts."""
        conditions = tuple(self.when)
        if self.url is None:
            return LoggedAlerts(conditions, opening)
        headers = {name: str(value) for name, value in self.options.items()}
        return Webhook(conditions, opening, self.url, headers, self.patience)

    @property
    def target(self) -> str:
        """The conditions and the address."""
        return f" when {', '.join(self.when)}{self.address}"


def wrong_conditions(raw: Mapping[str, Any]) -> Wrong:
    """Yield what is wrong with the conditions of a sink."""
    given = raw.get("when")
    for text in given if isinstance(given, list) else ():
        if isinstance(text, str) and not _is_condition(text):
            yield "when", f"{_RULE}, got {text!r}."


def alerts_of(rows: pa.Table, conditions: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Iterator[Alert]:
    """Yield the alerts of rows that are changes. `groups` has the group columns of each query.

    The key of an alert depends on its content only, so that a repeated micro-batch gives the same keys.

    >>> import pyarrow as pa
    >>> rows = pa.table({"query": ["q", "q"], "window_end": [10, 10], "rank": [1, None], "score": [7.5, 5.0],
    ...                  "id": ["b", "a"], "change": ["entered", "left"], "old_rank": [None, 1]})
    >>> found = alerts_of(rows, ["enters top 3", "leader changes"], {"q": ()})
    >>> [(alert["when"], alert["row"]["id"]) for alert in found]
    [('enters top 3', 'b'), ('leader changes', 'b')]
    """
    from skyband.data.json_lines import json_rows
    from skyband.queries.answer_schema import moment_of

    moment = moment_of(rows.column_names)
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in json_rows(rows):
        if row.get("change") is not None:
            group = tuple(str(row.get(name)) for name in groups.get(row["query"], ()))
            found.setdefault((row["query"], group, row[moment]), []).append(row)
    for (query, _, end), changes in found.items():
        named = {name: changes[0].get(name) for name in groups.get(query, ())}
        for condition in conditions:
            for changed, before in _meeting(condition, changes):
                content = {
                    "query": query,
                    "group": named,
                    moment: end,
                    "when": condition,
                    "row": _own(changed, (*named, moment)),
                    "before": None if before is None else _own(before, (*named, moment)),
                }
                digest = blake2b(json.dumps(content, sort_keys=True, default=str).encode(), digest_size=16)
                yield {"key": digest.hexdigest(), **content}


def _own(row: Row, shared: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("query", "window_start", *shared)}


def _is_condition(text: str) -> bool:
    return text == "leader changes" or any(one.fullmatch(text) for one in (_TOP, _SCORE))


def _meeting(condition: str, changes: Sequence[Row]) -> Iterator[tuple[Row, Row | None]]:
    """Yield the changes of a window that meet a condition; for a new leader, also the row that led before."""
    if condition == "leader changes":
        leader = next((row for row in changes if row["rank"] == 1), None)
        before = next((row for row in changes if row["old_rank"] == 1), None)
        # The first leader of a stream follows no other.
        if leader is not None and before is not None and leader is not before:
            yield leader, before
    elif found := _TOP.fullmatch(condition):
        most = int(found[2])
        for row in changes:
            is_in, was_in = (rank is not None and rank <= most for rank in (_rank(row), row["old_rank"]))
            if (is_in and not was_in) if found[1] == "enters" else (was_in and not is_in):
                yield row, None
    elif found := _SCORE.fullmatch(condition):
        holds, limit = _COMPARED[found[1]], float(found[2])
        for row in changes:
            # The score of a row does not change, so only rows that enter can exceed the limit for the first time.
            if row["change"] == "entered" and row["score"] is not None and holds(float(row["score"]), limit):
                yield row, None


def _rank(row: Row) -> int | None:
    return None if row["change"] == "left" else row["rank"]


class _Alerts:
    """The alerts of one stream."""

    def __init__(self, conditions: Sequence[str], opening: Opening) -> None:
        self._conditions, self._workload, self._stream = conditions, opening.workload, opening.stream

    def take(self, batch: int, rows: pa.Table) -> None:
        """Send the alerts of a micro-batch. A repeated micro-batch sends them again, with the same keys."""
        for alert in alerts_of(rows, self._conditions, {query.name: query.groups for query in self._workload()}):
            self._send(alert)

    def _send(self, alert: Alert) -> None:
        raise NotImplementedError


class LoggedAlerts(_Alerts):
    """Writes alerts to the log."""

    def _send(self, alert: Alert) -> None:
        _LOG.warning("alert %s", json.dumps(alert, ensure_ascii=False, default=str))


class Webhook(_Alerts):
    """Sends alerts to a server, which must accept each with a status below 300 before the next is sent."""

    def __init__(
        self, conditions: Sequence[str], opening: Opening, url: str, headers: Mapping[str, str], retry: float
    ) -> None:
        super().__init__(conditions, opening)
        self._url, self._headers = url, headers
        self._patience = Patience(retry, f"alerts to {shown_address(url)}")

    def reach(self) -> None:
        """Connect to the server, without a request."""
        parts = urllib.parse.urlsplit(self._url)
        port = parts.port or (443 if parts.scheme == "https" else 80)

        def connect() -> None:
            socket.create_connection((parts.hostname or "", port), TIMEOUT).close()

        self._attempt(connect)

    def check(self, rows: pa.Table) -> None:
        """Nothing to check: alerts have the same fields for all queries."""

    def prepare(self, rows: pa.Table) -> None:
        """Nothing to prepare."""

    def ask(self, queries: Sequence[Query]) -> None:
        """The queries are read for each micro-batch."""

    def holds_rows(self) -> bool:
        """A webhook stores nothing."""
        return False

    def clear(self) -> None:
        """Nothing to remove."""

    def stop_waiting(self) -> None:
        """Stop retrying."""
        self._patience.end()

    def close(self) -> None:
        """Every request has its own connection."""

    def _send(self, alert: Alert) -> None:
        body = json.dumps(alert, ensure_ascii=False, default=str).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert["key"], **self._headers}
        request = urllib.request.Request(self._url, body, headers, method="POST")

        def post() -> None:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                response.read(1 << 16)

        self._attempt(post)

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            self._patience.attempt(work, _transient)
        except GivenUpError as error:
            raise self._failed(str(error)) from None
        except urllib.error.HTTPError as error:
            raise self._failed(f"status {error.code}") from None

    def _failed(self, why: str) -> PipelineError:
        return PipelineError(
            f"alerts of stream {self._stream!r} cannot be sent to {shown_address(self._url)} ({why}). The stream "
            "stopped; no alert is lost. Make the receiver accept them and run it again."
        )


def _transient(error: Exception) -> str | None:
    """Return why an error may pass; None if the receiver rejects the request."""
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code}" if error.code >= 500 or error.code in (408, 425, 429) else None
    if isinstance(error, OSError):  # no connection, reset, timeout, or a name that cannot be resolved
        return str(getattr(error, "reason", error)) or type(error).__name__
    import http.client

    return type(error).__name__ if isinstance(error, http.client.HTTPException) else None
