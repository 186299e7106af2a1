"""`skyband explain`: what a workload file means, without running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skyband.queries import Query, TopK, UncertainTopK
from skyband.workfile import Sink, Stream, WorkloadFile, read_workload
from skyband.workfile.addresses import shown_address, shown_options

__all__ = ["explain_file"]


def explain_file(path: Path, *, as_json: bool) -> str:
    """A page on the file's streams, queries and sinks; or the same for machines."""
    file = read_workload(path)
    return json.dumps(_plain(file), indent=2) if as_json else "\n".join(_page(file))


def _page(file: WorkloadFile) -> list[str]:
    lines = []
    for name, workload in file.workloads.items():
        lines += [f"stream {name}: {_described(file.streams[name])}", ""]
        lines += [f"  {query}" for query in workload]
        lines += ["", *(f"  {line}".rstrip() for line in workload.explain(on_spark=True).splitlines()), ""]
    for sink in file.sinks:
        where = f" in {sink.path}" if sink.path else _server(sink)
        which = "all queries" if sink.queries is None else ", ".join(sink.queries)
        lines.append(f"sink {sink.type}{where}: {sink.output} of {which}")
    lines.append(f"state in {file.engine.checkpoint}")
    return lines


def _described(stream: Stream) -> str:
    where = {
        "files": f"{stream.format} files, {stream.path}",
        "rate": f"{stream.rows_per_second or 1} made-up rows a second",
        "socket": f"lines of {stream.format} from {stream.host}:{stream.port}",
    }[stream.source]
    id_ = f", ties broken by {stream.id}" if stream.id else ""
    return f"{where}; time {stream.time}, watermark {stream.watermark}{id_}"


def _server(sink: Sink) -> str:
    """The part of a server that a sink writes to, and its address without secrets."""
    part = f" to table {sink.table}" if sink.table else f" to keys {sink.prefix or 'skyband'}:…" if sink.url else ""
    return f"{part} at {shown_address(sink.url)}" if sink.url else part


def _shown(sink: Sink) -> dict[str, Any]:
    plain = sink.model_dump(exclude_none=True)
    options = shown_options(plain.pop("options"))
    return plain | ({"url": shown_address(sink.url)} if sink.url else {}) | ({"options": options} if options else {})


def _sql(query: Query) -> str | None:
    """The query as SQL, where SQL can say it."""
    return str(query) if isinstance(query, TopK | UncertainTopK) else None


def _plain(file: WorkloadFile) -> dict[str, Any]:
    return {
        "file": str(file.path),
        "streams": {
            name: {
                **file.streams[name].model_dump(exclude_none=True, exclude_defaults=True),
                "queries": [{"type": query.family, **query.to_dict(), "sql": _sql(query)} for query in workload],
                "explain": workload.explain(on_spark=True),
            }
            for name, workload in file.workloads.items()
        },
        "sinks": [_shown(sink) for sink in file.sinks],
        "checkpoint": file.engine.checkpoint,
    }
