"""Metrics and traces by OpenTelemetry: what a collector on this machine receives from a run."""

from __future__ import annotations

import gzip
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import skyband as sb
from skyband.cli.otlp import Telemetry
from skyband.jobs import run_local
from skyband.sharding import batch_events
from tests.spark.frames import write_files

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SECOND = 1_000_000
FILE = """
streams: {rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds, files_per_batch: 1}}
queries: [{name: all, k: 3, size: 4 seconds, by: s}]
sinks: [{type: memory}]
"""


class Collector:
    """Receives OTLP over HTTP, and keeps the decoded requests."""

    def __enter__(self):
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        kinds = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
        self.found = found = {path: [] for path in kinds}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                content = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    content = gzip.decompress(content)
                found[self.path].append(kinds[self.path].FromString(content))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self):
        return [
            span
            for request in self.found["/v1/traces"]
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def points(self):
        """The newest value of each metric and stream."""
        values = {}
        for request in self.found["/v1/metrics"]:
            for resource in request.resource_metrics:
                for metric in (one for scope in resource.scope_metrics for one in scope.metrics):
                    for point in getattr(metric, metric.WhichOneof("data")).data_points:
                        value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
                        values[metric.name, attributes(point)["stream"]] = value
        return values


def attributes(one):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in one.attributes}


def batches():
    rows = [(number * SECOND, float(number % 5), number, "a") for number in range(30)]
    return [rows[:10], rows[10:20], [*rows[20:], *rows[:3]]]


def test_a_local_run(tmp_path):
    write_files(tmp_path / "in", batches())
    (tmp_path / "work.yaml").write_text(FILE)
    began = time.time_ns()
    with Collector() as collector:
        running = None
        with Telemetry(collector.url, lambda: {} if running is None else running.metrics(), interval=3600):
            running = run_local(sb.read_workload(tmp_path / "work.yaml"), "stream")
            running.finish()
        spans, points = collector.spans, collector.points
    assert not batch_events.are_wanted()
    wholes = sorted((span for span in spans if span.name == "micro-batch"), key=lambda span: span.start_time_unix_nano)
    assert [attributes(span)["skyband.batch"] for span in wholes] == [0, 1, 2, 3], "the last one ends the stream"
    assert [attributes(span)["skyband.rows"] for span in wholes] == [10, 10, 13, 0]
    assert [attributes(span)["skyband.late"] for span in wholes] == [0, 0, 3, 0]
    assert {attributes(span)["skyband.stream"] for span in wholes} == {"rows"}
    for span in wholes:
        parts = [part for part in spans if part.parent_span_id == span.span_id]
        parts.sort(key=lambda part: part.start_time_unix_nano)
        assert [part.name for part in parts] == ["compute", "write", "commit"]
        assert {part.trace_id for part in parts} == {span.trace_id}
        times = [time for part in parts for time in (part.start_time_unix_nano, part.end_time_unix_nano)]
        assert times == sorted(times)
        assert (times[0], times[-1]) == (span.start_time_unix_nano, span.end_time_unix_nano)
        assert began <= times[0] <= times[-1] <= time.time_ns()
    now = running.metrics()["rows"]
    assert points["skyband.rows", "rows"] == now["rows"] == 33
    assert points["skyband.late_rows", "rows"] == 3
    assert points["skyband.windows", "rows"] == sum(attributes(span)["skyband.windows"] for span in wholes) > 3
    assert points["skyband.emit_lag_seconds", "rows"] == now["emit_lag"]
    resource = collector.found["/v1/traces"][0].resource_spans[0].resource
    assert attributes(resource)["service.name"] == "skyband"
    assert attributes(resource)["service.version"] == sb.__version__


@pytest.mark.long
def test_a_run_on_spark(spark, tmp_path):
    from skyband.jobs import run

    write_files(tmp_path / "in", batches())
    (tmp_path / "work.yaml").write_text(FILE)
    with Collector() as collector:
        running = None
        with Telemetry(collector.url, lambda: {} if running is None else running.metrics(), interval=3600):
            running = run(sb.read_workload(tmp_path / "work.yaml"), spark=spark)
            running.finish()
        spans, points = collector.spans, collector.points
    found = [attributes(span) for span in spans if span.name == "micro-batch"]
    assert len(found) == running.metrics()["rows"]["batches"] >= 3
    assert sum(one["skyband.rows"] for one in found) == points["skyband.rows", "rows"] == 33
    assert {one["skyband.stream"] for one in found} == {"rows"}
    assert all(one["skyband.triggerExecution_ms"] >= one["skyband.addBatch_ms"] for one in found)
    assert all(span.end_time_unix_nano > span.start_time_unix_nano for span in spans)


@pytest.mark.long
def test_a_collector_that_is_away_does_not_matter(tmp_path, caplog):
    write_files(tmp_path / "in", batches())
    (tmp_path / "work.yaml").write_text(FILE)
    with Telemetry("http://127.0.0.1:9", dict, interval=3600):
        running = run_local(sb.read_workload(tmp_path / "work.yaml"), "catch-up")
        assert running.await_end(300)
    assert running.metrics()["rows"]["rows"] == 33


@pytest.mark.parametrize("address", ["4318", "localhost:4318", "grpc://localhost:4317", "http://", ""])
def test_what_is_no_address_of_a_collector(address):
    with pytest.raises(sb.InvalidInputError, match=r"--otlp must be the address .* such as http://127.0.0.1:4318, got"):
        Telemetry(address, dict)
