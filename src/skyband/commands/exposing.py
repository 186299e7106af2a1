"""The numbers of a run for Prometheus: one small page on this machine, made anew each time it is read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from skyband.errors import InvalidInputError
from skyband.page.addresses import address_of

__all__ = ["Exposed", "page"]

Numbers = Callable[[], Mapping[str, Mapping[str, Any]]]
USUAL_PORT = 9464
TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Name, kind, the metric it is made of, and what it means.
_TOLD = (
    ("rows_total", "counter", "rows", "Rows read."),
    ("left_out_rows_total", "counter", "left_out", "Rows without a time or a score, left out."),
    ("late_rows_total", "counter", "late", "Rows that came behind the watermark, left out."),
    ("malformed_rows_total", "counter", "malformed", "Rows that could not be read."),
    ("reduced_rows_total", "counter", "reduced", "Rows that tasks dropped because they can be in no answer."),
    ("windows_total", "counter", "windows", "Windows answered."),
    ("answer_rows_total", "counter", "answers", "Rows of answers given."),
    ("batches_total", "counter", "batches", "Micro-batches done."),
    ("changes_total", "counter", "changes", "Times that the workload was changed while it ran."),
    ("candidates", "gauge", "candidates", "Rows held now."),
    ("candidates_bound", "gauge", "bound", "What the candidates of one group can never exceed."),
    ("state_bytes", "gauge", "state_bytes", "Bytes of state."),
    ("emit_lag_seconds", "gauge", "emit_lag", "How far the newest answer lags behind the newest row, in event time."),
    ("queries", "gauge", "queries", "Queries that are asked."),
    ("busy_seconds_total", "counter", "seconds", "Time that micro-batches took."),
)


def page(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    r"""The numbers of all streams, in the format that Prometheus reads.

    >>> print(page({"trades": {"rows": 7, "bound": None}}))
    # HELP skyband_rows_total Rows read.
    # TYPE skyband_rows_total counter
    skyband_rows_total{stream="trades"} 7
    <BLANKLINE>
    """
    lines = []
    for name, kind, metric, meaning in _TOLD:
        found = {stream: one[metric] for stream, one in metrics.items() if one.get(metric) is not None}
        if found:
            lines += [f"# HELP skyband_{name} {meaning}", f"# TYPE skyband_{name} {kind}"]
            lines += [f'skyband_{name}{{stream="{_escaped(stream)}"}} {value}' for stream, value in found.items()]
    return "\n".join([*lines, ""])


class Exposed:
    """Serves the page at ``http://host:port/metrics`` until it is closed; ``/healthz`` says that the run goes on."""

    def __init__(self, address: str, numbers: Numbers) -> None:
        host, port = address_of(address, "--metrics", USUAL_PORT)
        try:
            self._server = ThreadingHTTPServer((host, port or 0), _handler(numbers))
        except OSError as error:
            raise InvalidInputError(
                f"--metrics {address}: the numbers cannot be shown there ({error.strerror or error}), so nothing was "
                "started. Give another port."
            ) from error
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_port}/metrics"

    def __enter__(self) -> Exposed:
        threading.Thread(target=self._server.serve_forever, name="skyband-metrics", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(numbers: Numbers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "skyband", ""

        def do_GET(self) -> None:
            if self.path in ("/metrics", "/metrics/"):
                self._answer(200, page(numbers()))
            elif self.path == "/healthz":
                self._answer(200, "ok\n")
            else:
                self._answer(404, "there are /metrics and /healthz\n")

        def _answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Who reads the numbers is nobody's business."""

    return Handler


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
