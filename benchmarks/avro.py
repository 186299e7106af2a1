"""Avro files: CPU time of reading columns, and of fastavro's dictionaries: ``python -m benchmarks.avro``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import fastavro

from skyband.connectors.arrow.avro import AvroFiles
from skyband.connectors.arrow.splits import Split
from skyband.connectors.files import FilesSource

__all__ = ["main"]

_ROWS = 100_000
_FIELDS = [
    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "price", "type": ["null", "double"]},
    {"name": "weight", "type": "float"},
    {"name": "symbol", "type": "string"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "size", "type": "int"},
]


def main() -> None:
    """Measure both in turn, and print the least of five times."""
    rows = [
        {
            "ts": 1_700_000_000_000 + at,
            "price": None if at % 7 == 0 else at / 2,
            "weight": at / 10,
            "symbol": f"s{at % 5}",
            "tags": ["a"] * (at % 3),
            "size": at,
        }
        for at in range(_ROWS)
    ]
    schema = fastavro.parse_schema({"type": "record", "name": "Trade", "fields": _FIELDS})
    with TemporaryDirectory() as folder:
        file = Path(folder, "trades.avro")
        with file.open("wb") as opened:
            fastavro.writer(opened, schema, rows, codec="deflate")
        reader = AvroFiles("trades", FilesSource(path=str(file), format="avro", schema=None, time="ts"), [file], None)
        times: dict[str, list[float]] = {"columns": [], "dictionaries": []}
        for _ in range(5):
            began = process_time()
            count = sum(batch.read for batch in reader.read([Split(file)]))
            times["columns"].append(process_time() - began)
            began = process_time()
            with file.open("rb") as opened:
                count += sum(1 for _ in fastavro.reader(opened))
            times["dictionaries"].append(process_time() - began)
            assert count == 2 * _ROWS
    for name, found in times.items():
        print(f"{name}: {min(found):.3f} s of CPU time for {_ROWS:,} rows")


if __name__ == "__main__":
    main()
