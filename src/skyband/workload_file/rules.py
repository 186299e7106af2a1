"""What keys ask of each other, within one section; checked on what was written, so that all of it is told at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skyband.workload_file.algorithm_names import KNOWN
from skyband.workload_file.kafka_rules import Wrong, kafka_columns, kafka_rules
from skyband.workload_file.messages import among, nearest, shown
from skyband.workload_file.paths import format_of, has_scheme
from skyband.workload_file.query_models import KEYS, NEEDS, Query
from skyband.workload_file.server_rules import server_rules

__all__ = ["FIELDS", "NEEDED", "OWN", "STREAM_NAME", "engine_rules", "query_rules", "sink_rules", "stream_rules"]

STREAM_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
OWN = {  # keys that only some sources have
    "files": ("path", "format", "options", "schema", "files_per_batch", "dead_letters"),
    "rate": ("options", "rows_per_second"),
    "socket": ("host", "port", "format", "options", "schema"),
    "kafka": (
        *("servers", "topic", "topic_pattern", "starting", "format", "options", "schema", "rows_per_batch", "record"),
        *("largest_value", "dead_letters", "dead_letter_topic"),
    ),
}
NEEDED = {  # and those without which a source is nothing
    "files": {"path": "say where the files are", "time": "name the column with the event time"},
    "rate": {},
    "socket": {
        "host": "say where to connect to",
        "port": "say where to connect to",
        "format": "write csv or json; each line is a row",
        "schema": "lines have no types of their own; write 'column: type' for each",
        "time": "name the column with the event time",
    },
    "kafka": {
        "servers": "say where a broker is, as host:port",
        "format": "say what a record's value holds: json, csv or text",
        "time": "name the column with the event time; kafka_timestamp is that of the record itself",
    },
}
FIELDS = tuple(name for name in Query.model_fields if name not in ("name", "stream", "sql"))
_TIME_WORDS = ("seconds", "milliseconds", "microseconds")
_PATTERN_LETTERS = "GyMLdEFDQqahHKkmsSVzOXx"


def stream_rules(name: str, raw: Mapping[str, Any]) -> Wrong:
    """What is wrong with a stream's keys together; the empty key is the stream itself."""
    if not re.match(STREAM_NAME, name):
        yield "", f"the name {name!r} must be of letters, digits, _ and -; it names a folder, and a table in SQL."
    source = raw.get("source", "files")
    if not isinstance(source, str) or source not in NEEDED:
        return
    for key, others in _owners().items():
        if key in raw and source not in others:
            yield key, f"is for source: {' or '.join(others)}; the source of this stream is {source}."
    for key, why in NEEDED[source].items():
        if key not in raw:
            yield key, f"is missing; {why}."
    yield from kafka_rules(raw) if source == "kafka" else _format_rules(source, raw)
    yield from _time_rules(raw)
    yield from _column_rules(source, raw)


def _format_rules(source: str, raw: Mapping[str, Any]) -> Wrong:
    kind = raw.get("format")
    if source == "files" and isinstance(raw.get("path"), str) and "format" not in raw and not format_of(raw["path"]):
        yield "format", f"is missing, and the ending of {raw['path']!r} does not tell; write csv, json or parquet."
    if source == "files" and has_scheme(raw.get("dead_letters")):
        yield "dead_letters", f"{raw['dead_letters']!r} is no folder of this machine; give one."
    if source == "files" and kind == "text":
        yield "format", "'text' is for source: kafka; files are parquet, csv or json."
    if source == "socket" and kind in ("parquet", "text"):
        yield "format", f"{kind!r} has no lines of columns, so it cannot come over a socket; write csv or json."


def query_rules(raw: Mapping[str, Any]) -> Wrong:
    """Either fields or SQL, enough of them, and those of the query's type."""
    if "sql" in raw:
        for key in FIELDS:
            if key in raw:
                yield key, "cannot stand beside sql; say it in the SQL, or write all of the query as keys."
        return
    kind = raw.get("type", "topk")
    if not isinstance(kind, str) or kind not in KEYS:
        return
    for key in raw:
        types = [name for name, keys in KEYS.items() if key in keys]
        if types and kind not in types:
            yield key, f"is for type: {' or '.join(types)}; the type of this query is {kind}{_instead(key, kind)}."
    if not any(key in raw for key in NEEDS[kind]):
        yield "", f"is no query yet; write {', '.join(NEEDS[kind])}, or sql."
        return
    for key, what in NEEDS[kind].items():
        if key not in raw:
            yield key, f"is missing; say {what}."


def _instead(key: str, kind: str) -> str:
    """What the type has in a key's place, if anything."""
    other = {"slide": "every", "every": "slide", "by": "key"}.get(key, "")
    return f", which has {other}" if other in KEYS[kind] else ""


def sink_rules(raw: Mapping[str, Any]) -> Wrong:
    """Files need a folder; what shows or keeps answers has none."""
    kind = raw.get("type")
    if kind in ("parquet", "jsonl", "csv") and "path" not in raw:
        yield "path", f"is missing; say which folder the {kind} files go to."
    if kind in ("terminal", "memory") and "path" in raw:
        yield "path", f"is for files; a sink of type {kind} writes none."
    if kind in ("parquet", "jsonl", "csv") and has_scheme(raw.get("path")):
        why = "is no folder of this machine, and files are written by the process that runs the workload"
        yield "path", f"{raw['path']!r} {why}. Spark's own sinks go there: skyband.spark.start(…, write=…)."
    if isinstance(kind, str) and kind != "csv" and "formulas" in raw:
        yield "formulas", f"is for a sink of type csv; this one is of type {kind}."
    yield from server_rules(raw)


def engine_rules(raw: Mapping[str, Any]) -> Wrong:
    """The algorithm is one that there is."""
    if isinstance(raw.get("algorithm"), str) and raw["algorithm"] not in KNOWN:
        yield "algorithm", among(raw["algorithm"], KNOWN)


def _owners() -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for source, keys in OWN.items():
        for key in keys:
            owners.setdefault(key, []).append(source)
    return owners


def _time_rules(raw: Mapping[str, Any]) -> Wrong:
    pattern = raw.get("time_format")
    if not isinstance(pattern, str) or pattern in _TIME_WORDS or not pattern.strip():
        return
    near = nearest(pattern, _TIME_WORDS)
    if near:
        yield "time_format", f"{pattern!r} is no unit of time since 1970; did you mean {near!r}?"
        return
    bare = re.sub(r"'[^']*'", "", pattern)
    strange = [letter for letter in bare if letter.isalpha() and letter not in _PATTERN_LETTERS]
    if strange or "y" not in bare:
        why = (
            f"{strange[0]!r} stands for nothing (text goes in single quotes: 'T')"
            if strange
            else "it has no year (yyyy)"
        )
        yield (
            "time_format",
            f"{pattern!r} is neither {', '.join(_TIME_WORDS)} nor a Spark pattern like 'yyyy-MM-dd HH:mm:ss': {why}.",
        )


def _column_rules(source: str, raw: Mapping[str, Any]) -> Wrong:
    """Where all columns are known, time and id are among them."""
    given = ["timestamp", "value"] if source == "rate" else list(raw["schema"]) if _is_map(raw.get("schema")) else []
    if source == "kafka":
        given = kafka_columns(raw, given)
    if not given:
        return
    known = [*given, *(raw["columns"] if _is_map(raw.get("columns")) else [])]
    lower = {name.lower() for name in known}
    for key in ("time", "id"):
        name = raw.get(key)
        if isinstance(name, str) and name.strip() and re.fullmatch(r"\w+", name) and name.lower() not in lower:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"columns: {', '.join(map(str, known))}."
            yield key, f"{shown(name)} is no column of this stream; {hint}"


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and bool(value)
