"""Look into a schema of records, an Avro (.avsc) or Protobuf (.proto) file: the columns of a topic that has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from skyband.errors import InvalidInputError
from skyband.workload_file.sampling import DataSample, kind_of
from skyband.workload_file.time_columns import looks_like_time

__all__ = ["is_schema_file", "sample_of_schema"]

_FORMATS: dict[str, Literal["avro", "protobuf"]] = {".avsc": "avro", ".proto": "protobuf"}


def is_schema_file(path: Path) -> bool:
    """Return whether a path names a schema of records.

    >>> is_schema_file(Path("trade.avsc")), is_schema_file(Path("trade.avro"))
    (True, False)
    """
    return path.suffix.lower() in _FORMATS


def sample_of_schema(path: Path) -> DataSample:
    """Return what a workload file needs to know about a topic with this schema."""
    from skyband.connectors.kafka import KafkaSource  # noqa: PLC0415 - loads Arrow
    from skyband.connectors.record_format import record_format  # noqa: PLC0415

    kind = _FORMATS[path.suffix.lower()]
    keys: dict[str, Any] = {"format": kind, "schema_file": str(path)}
    stream = KafkaSource(servers=["127.0.0.1:9092"], topic=["t"], time="kafka_timestamp", **keys)
    columns = [(column.name, kind_of(column.kind)) for column in record_format(path.stem, stream).columns]
    times = [name for name, type_ in columns if type_ == "timestamp"]
    time = next(filter(looks_like_time, times), next(iter(times), "kafka_timestamp"))
    if len({name.lower() for name, _ in columns}) < len(columns):
        raise InvalidInputError(f"{path} has fields whose names differ only in case. Nothing was written.")
    return DataSample(path=str(path), format=kind, columns=columns, time=time, source="kafka")
