"""Metrics of a job for Prometheus, and its health check, over HTTP."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from skyband.dashboard.connections import FIRST, Connections, Listening, address_of, most_connections
from skyband.errors import InvalidInputError
from skyband.rate_limited_log import RateLimitedLog

__all__ = ["METRICS", "MetricsServer", "page"]

Numbers = Callable[[], Mapping[str, Mapping[str, Any]]]
Ailment = Callable[[], str | None]
USUAL_PORT = 9464
MOST_CONNECTIONS = 32  # or a sixteenth of the process's limit on file descriptors, if that is less
_QUIET = RateLimitedLog(logging.getLogger("skyband.metrics"))
_KINDS = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
# Name, kind, key in the job's metrics, help text.
METRICS = (
    ("rows_total", "counter", "rows", "Rows read."),
    ("dropped_null_rows_total", "counter", "dropped_null", "Rows dropped because they have no time or no score."),
    ("late_rows_total", "counter", "late", "Rows dropped because they arrived behind the watermark."),
    ("malformed_rows_total", "counter", "malformed", "Rows that could not be read."),
    ("unreadable_files_total", "counter", "unreadable", "Files and row groups that could not be read."),
    ("pruned_rows_total", "counter", "pruned", "Rows that tasks dropped because they cannot be in an answer."),
    ("windows_total", "counter", "windows", "Windows emitted."),
    ("answer_rows_total", "counter", "answers", "Answer rows emitted."),
    ("batches_total", "counter", "batches", "Micro-batches completed."),
    ("changes_total", "counter", "changes", "Changes of the workload while the job ran."),
    (
        "dropped_queries_total",
        "counter",
        "dropped_queries",
        "Queries added while the job ran and dropped because a micro-batch failed with them.",
    ),
    ("candidates", "gauge", "candidates", "Rows held now."),
    ("candidates_bound", "gauge", "bound", "Upper bound on the candidates of one group."),
    ("state_bytes", "gauge", "state_bytes", "Bytes of state."),
    ("emit_lag_seconds", "gauge", "emit_lag", "Event time between the newest answer and the newest row."),
    ("queries", "gauge", "queries", "Queries that run."),
    ("busy_seconds_total", "counter", "seconds", "Total time of micro-batches."),
)


def page(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    r"""The metrics of all streams in the text format of Prometheus.

    >>> print(page({"trades": {"rows": 7, "bound": None}}))
    # HELP skyband_rows_total Rows read.
    # TYPE skyband_rows_total counter
    skyband_rows_total{stream="trades"} 7.0
    <BLANKLINE>
    """
    return generate_latest(_Collected(metrics)).decode()


class _Collected:
    """Collector of the metrics for `prometheus_client`."""

    def __init__(self, metrics: Mapping[str, Mapping[str, Any]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for name, kind, metric, meaning in METRICS:
            found = {stream: one[metric] for stream, one in self._metrics.items() if one.get(metric) is not None}
            if found:
                family = _KINDS[kind](f"skyband_{name}", meaning, labels=["stream"])
                for stream, value in found.items():
                    family.add_metric([stream], value)
                yield family


class MetricsServer:
    """Serves the metrics at ``http://host:port/metrics``, and ``/healthz``: 503 with the reason if a stream stalls."""

    def __init__(self, address: str, numbers: Numbers, ailment: Ailment = lambda: None) -> None:
        host, port = address_of(address, "--metrics", USUAL_PORT)
        connections = Connections(most_connections(MOST_CONNECTIONS, share=16))
        try:
            self._server = _Server((host, port or 0), _handler(numbers, ailment, connections), connections)
        except OSError as error:
            raise InvalidInputError(
                f"--metrics: cannot listen on {address} ({error.strerror or error}). Choose another port; nothing was "
                "started."
            ) from error
        self._closed = threading.Event()
        self.url = f"http://{host}:{self._server.server_port}/metrics"

    def __enter__(self) -> MetricsServer:
        threading.Thread(target=self._serve, name="skyband-metrics", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                self._server.serve_forever()
            except Exception as error:  # restart after any error
                _QUIET.warning("the metrics server failed and restarts: %r", error)
                self._closed.wait(1)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: Any, handler: type[BaseHTTPRequestHandler], connections: Connections) -> None:
        super().__init__(address, handler)
        self.socket = Listening(self.socket, connections)
        self._connections = connections

    def service_actions(self) -> None:
        """Close idle connections; called between requests, at least twice a second."""
        self._connections.sweep()

    def handle_error(self, *_: object) -> None:
        """Log a failed request in one line, rate-limited."""
        _QUIET.warning("a request for metrics failed: %r", sys.exception())


def _handler(numbers: Numbers, ailment: Ailment, connections: Connections) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "skyband", ""
        timeout = FIRST  # seconds without data before the connection is closed

        def do_GET(self) -> None:
            with connections.request(self.client_address) as connection:
                status, text = self._found()
                if connection is not None:
                    connection.sending = time.monotonic()
                self._answer(status, text)

        def _found(self) -> tuple[int, str]:
            if self.path in ("/metrics", "/metrics/"):
                try:
                    return 200, page(numbers())
                except Exception as error:
                    _QUIET.warning("the metrics could not be read: %r", error)
                    return 503, "metrics are temporarily unavailable\n"
            if self.path == "/healthz":
                found = ailment()
                return (200, "ok\n") if found is None else (503, f"{found}\n")
            return 404, "not found; use /metrics or /healthz\n"

        def _answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do not log requests."""

    return Handler
