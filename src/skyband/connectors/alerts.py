"""Alerts: messages about changes of an answer that someone waits for, to a webhook or the log."""

from __future__ import annotations

import json
import logging
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from skyband.connectors.alert_conditions import wrong_conditions
from skyband.connectors.http_errors import transient_reason
from skyband.connectors.secrets import SecretsRule, shown_address
from skyband.connectors.section import Wrong
from skyband.connectors.server import GivenUpError, Patience, ServerSink
from skyband.connectors.values import Scalar, Text
from skyband.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.queries import Query
    from skyband.sharding.delivery import Opening, Outlet

__all__ = ["AlertsSink"]

TIMEOUT = 10.0  # seconds of one request
_LOG = logging.getLogger("skyband.alerts")


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
    def reads_old_scores(self) -> bool:
        """Conditions about scores compare them with those of the previous window."""
        return True

    @property
    def target(self) -> str:
        """The conditions and the address."""
        return f" when {', '.join(self.when)}{self.address}"


class _Alerts:
    """The alerts of one stream."""

    def __init__(self, conditions: Sequence[str], opening: Opening) -> None:
        self._conditions, self._workload, self._stream = conditions, opening.workload, opening.stream

    def take(self, batch: int, rows: pa.Table) -> None:
        """Send the alerts of a micro-batch. A repeated micro-batch sends them again, with the same keys."""
        from skyband.connectors.alert_rows import alerts_of

        for alert in alerts_of(rows, self._conditions, {query.name: query.groups for query in self._workload()}):
            self._send(alert)

    def _send(self, alert: dict[str, Any]) -> None:
        raise NotImplementedError


class LoggedAlerts(_Alerts):
    """Writes alerts to the log."""

    def _send(self, alert: dict[str, Any]) -> None:
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

    def _send(self, alert: dict[str, Any]) -> None:
        body = json.dumps(alert, ensure_ascii=False, default=str).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert["key"], **self._headers}
        request = urllib.request.Request(self._url, body, headers, method="POST")

        def post() -> None:
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                    response.read(1 << 16)
            except urllib.error.HTTPError as error:
                error.close()  # its connection
                raise

        self._attempt(post)

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            self._patience.attempt(work, transient_reason)
        except GivenUpError as error:
            raise self._failed(str(error)) from None
        except urllib.error.HTTPError as error:
            raise self._failed(f"status {error.code}") from None

    def _failed(self, why: str) -> PipelineError:
        return PipelineError(
            f"alerts of stream {self._stream!r} cannot be sent to {shown_address(self._url)} ({why}). The stream "
            "stopped; no alert is lost. Make the receiver accept them and run it again."
        )
