"""What the keys of sinks that are servers (Kafka, PostgreSQL, Redis) ask of each other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from skyband.durations import parse_duration
from skyband.errors import InvalidQueryError
from skyband.workload_file.addresses import has_literal_secret, shown_address
from skyband.workload_file.environment import is_secret
from skyband.workload_file.kafka_rules import Wrong, kafka_sink_rules
from skyband.workload_file.report import Report

__all__ = ["LONGEST_NAME", "SERVER_KEYS", "SERVER_NEEDS", "check_server_secrets", "server_rules"]

SERVER_KEYS = {  # keys that only sinks of some types have
    "kafka": ("servers", "topic", "options"),
    "postgres": ("url", "options", "retry", "table", "history"),
    "redis": ("url", "options", "retry", "prefix", "member", "sort", "expire"),
}
SERVER_NEEDS = {  # and those without which they are nothing
    "kafka": {"servers": "say where a broker is, as host:port", "topic": "say where answers go"},
    "postgres": {"table": "name the table that answers go to"},
    "redis": {"url": "say where the server is, such as redis://127.0.0.1:6379/0"},
}
LONGEST_NAME = 63  # bytes of a name in PostgreSQL; it cuts off the rest, and says nothing
_PLAIN = ("terminal", "parquet", "jsonl", "csv", "memory")
_SCHEMES = {"postgres": ("postgresql://", "postgres://"), "redis": ("redis://", "rediss://", "unix://")}


def server_rules(raw: Mapping[str, Any]) -> Wrong:
    """A server has an address, and what is no server has none of its keys."""
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in (*_PLAIN, *SERVER_KEYS):
        return
    for key in raw:
        owners = [name for name, keys in SERVER_KEYS.items() if key in keys]
        if owners and kind not in owners:
            yield key, f"is for a sink of type {' or '.join(owners)}; this one is of type {kind}."
    if kind not in SERVER_KEYS:
        return
    for key, why in SERVER_NEEDS[kind].items():
        if key not in raw:
            yield key, f"is missing; {why}."
    if "path" in raw:
        yield "path", f"is for files; a sink of type {kind} writes none."
    url = raw.get("url")
    if kind in _SCHEMES and isinstance(url, str) and url.strip() and not url.startswith(_SCHEMES[kind]):
        yield "url", f"{shown_address(url)!r} is no address of a {kind} server; write {_SCHEMES[kind][0]}host…"
    yield from _RULES[kind](raw)


def _postgres_rules(raw: Mapping[str, Any]) -> Wrong:
    table = raw.get("table")
    if isinstance(table, str) and table.strip():
        parts = table.split(".")
        long = next((part for part in parts if len(part.encode()) > LONGEST_NAME), None)
        if len(parts) > 2 or not all(part.strip() for part in parts):
            yield "table", f"{table!r} is neither a table nor a schema and a table; write answers or sales.answers."
        elif long is not None:
            size = len(long.encode())
            yield "table", f"{long!r} has {size} bytes, and a name in PostgreSQL at most {LONGEST_NAME}; shorten it."
        elif "\0" in table:
            yield "table", f"{table!r} has a NUL in it, which no name in PostgreSQL can."
    if raw.get("output") == "changes" and raw.get("history") == "newest":
        yield "history", "'newest' keeps one answer of each query, and changes are a history; write all."


def _redis_rules(raw: Mapping[str, Any]) -> Wrong:
    if raw.get("output") == "changes":
        yield "output", "'changes' have no newest answer, which is what a sorted set holds; write answers."
    expire = raw.get("expire")
    with suppress(InvalidQueryError):  # told where durations are read
        if isinstance(expire, str) and parse_duration(expire, field="expire") < 1_000:
            yield "expire", f"{expire!r} is over at once; the shortest time is 1 millisecond."


_RULES = {"kafka": kafka_sink_rules, "postgres": _postgres_rules, "redis": _redis_rules}


def check_server_secrets(raw: Mapping[str, Any], report: Report) -> None:
    """A file is read by many and kept for long: what opens a database is not written in it."""
    sinks = raw.get("sinks")
    for number, sink in enumerate(sinks if isinstance(sinks, list) else []):
        if not isinstance(sink, dict) or sink.get("type") not in tuple(_SCHEMES):
            continue
        env = "PGPASSWORD" if sink["type"] == "postgres" else "REDISCLI_AUTH"
        instead = f"set {env} in the environment, or write ${{NAME}}, and set NAME there."
        loc = ("sinks", number)
        url, options = sink.get("url"), sink.get("options")
        if isinstance(url, str) and has_literal_secret(report.written((*loc, "url")) or url):
            report.add(
                (*loc, "url"),
                f"{shown_address(url)!r} has a password in it, and secrets do not stand in a workload file; {instead}",
            )
        for option in options if isinstance(options, dict) else ():
            written = report.written((*loc, "options", option))
            if is_secret(str(option)) and (written is None or ":-" in written):
                report.add(
                    (*loc, "options", option), f"is a secret, and secrets do not stand in a workload file; {instead}"
                )
