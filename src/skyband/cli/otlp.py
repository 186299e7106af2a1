"""Metrics and traces of a job by OpenTelemetry, sent to a collector over OTLP/HTTP."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from skyband.cli.prometheus import METRICS
from skyband.errors import InvalidInputError, MissingDependencyError
from skyband.sharding.batch_events import BatchEvent, add_listener, remove_listener

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

__all__ = ["Telemetry"]

Numbers = Callable[[], Mapping[str, Mapping[str, Any]]]
_INTERVAL = 15.0  # seconds between two exports of the metrics
_TIMEOUT = 5.0  # seconds for an export; a collector that is away delays the end of a run by as much
_UNITS = {"busy_seconds_total": "s", "emit_lag_seconds": "s", "state_bytes": "By"}


class Telemetry:
    """Sends metrics every 15 seconds, and a span for each micro-batch, while it is open.

    The collector may be unavailable: what cannot be sent is dropped, and the job continues.
    """

    def __init__(self, endpoint: str, numbers: Numbers, *, interval: float = _INTERVAL) -> None:
        self._endpoint, self._numbers, self._interval = _checked(endpoint), numbers, interval
        self._tracers: Any = None
        self._meters: Any = None
        try:
            import opentelemetry.exporter.otlp.proto.http  # noqa: PLC0415 - an optional dependency
            import opentelemetry.sdk  # noqa: F401, PLC0415
        except ImportError as error:
            raise MissingDependencyError(
                "--otlp requires OpenTelemetry, which is not installed. Run: pip install 'skyband[otel]'. Nothing was "
                "started."
            ) from error

    def __enter__(self) -> Telemetry:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        from skyband import __version__  # noqa: PLC0415

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a collector that is away is not an error
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "skyband"}
        resource = Resource.create({**named, "service.version": __version__})
        spans = OTLPSpanExporter(endpoint=f"{self._endpoint}/v1/traces", timeout=_TIMEOUT)
        self._tracers = TracerProvider(resource=resource)
        self._tracers.add_span_processor(BatchSpanProcessor(spans))
        self._tracer = self._tracers.get_tracer("skyband")
        metrics = OTLPMetricExporter(endpoint=f"{self._endpoint}/v1/metrics", timeout=_TIMEOUT)
        reader = PeriodicExportingMetricReader(metrics, export_interval_millis=1000 * self._interval)
        self._meters = MeterProvider(metric_readers=[reader], resource=resource)
        meter = self._meters.get_meter("skyband")
        for name, kind, metric, meaning in METRICS:
            create = meter.create_observable_counter if kind == "counter" else meter.create_observable_gauge
            create(
                f"skyband.{name.removesuffix('_total')}",
                callbacks=[self._observe(metric)],
                unit=_UNITS.get(name, "1"),
                description=meaning,
            )
        add_listener(self._span)
        return self

    def __exit__(self, *_: object) -> None:
        remove_listener(self._span)
        self._tracers.shutdown()
        self._meters.shutdown(timeout_millis=1000 * _TIMEOUT)

    def _observe(self, metric: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return the function that reads a metric of all streams. A metric without a value is not sent."""
        from opentelemetry.metrics import Observation  # noqa: PLC0415

        def read(_: CallbackOptions) -> Iterable[Observation]:
            for stream, found in self._numbers().items():
                if found.get(metric) is not None:
                    yield Observation(found[metric], {"stream": stream})

        return read

    def _span(self, event: BatchEvent) -> None:
        """Record the span of a micro-batch, and those of its parts below it."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        attributes = {"skyband.stream": event.stream, "skyband.batch": event.number}
        attributes |= {f"skyband.{name}": count for name, count in event.counts.items()}
        span = self._tracer.start_span("micro-batch", start_time=event.began, attributes=attributes)
        context = set_span_in_context(span)
        for name, began, ended in event.parts:
            self._tracer.start_span(name, context=context, start_time=began).end(ended)
        span.end(event.ended)


def _checked(endpoint: str) -> str:
    """Return the address of a collector without a slash at its end.

    >>> _checked("http://127.0.0.1:4318/")
    'http://127.0.0.1:4318'
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(
            f"--otlp must be the address of a collector for OTLP over HTTP, such as http://127.0.0.1:4318, got "
            f"{endpoint!r}. Nothing was started."
        )
    return endpoint.rstrip("/")
