"""`skyband explain`: describe a workload file without running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skyband.connectors.secrets import HIDDEN, is_secret, shown_address
from skyband.jobs.engine_choice import choose_engine
from skyband.queries import Query
from skyband.workload_file import Sink, Stream, WorkloadFile
from skyband.workload_file.models import plan_for
from skyband.workload_file.reader import read_with_data

__all__ = ["explain_file"]


def explain_file(path: Path, *, as_json: bool) -> str:
    """Return a description of the file's streams, queries and sinks, as text or as JSON."""
    file, warnings = read_with_data(path)
    if as_json:
        plain = [{"line": one.line, "column": one.column, "key": one.key, "message": one.message} for one in warnings]
        return json.dumps(_hidden(file, {**_plain(file), "warnings": plain}), indent=2)
    return file.hide("\n".join([*_page(file), *(f"warning: {one}" for one in warnings)]))


def _page(file: WorkloadFile) -> list[str]:
    lines = []
    for name, workload in file.workloads.items():
        summary, _, details = _explained(file, name).partition("\n\n")
        lines += [f"stream {name}: {_described(file.streams[name])}", *_indented(summary), ""]
        lines += [f"  {query}" for query in workload]
        lines += ["", *_indented(details), ""]
    for sink in file.sinks:
        which = "all queries" if sink.queries is None else ", ".join(sink.queries)
        lines.append(f"sink {sink.type}{sink.target}: {sink.output} of {which}")
    lines.append(f"state in {file.engine.checkpoint}")
    lines.append(f"skyband run --once {choose_engine(file)}")
    return lines


def _indented(text: str) -> list[str]:
    return [f"  {line}".rstrip() for line in text.splitlines()]


def _described(stream: Stream) -> str:
    id_ = f", ties broken by {stream.id}" if stream.id else ""
    emitted = stream.emission.described()
    emitted = f"; answers {emitted}" if emitted else ""
    return f"{stream.described()}; time {stream.time}, watermark {stream.watermark}{id_}{emitted}"


def _explained(file: WorkloadFile, stream: str) -> str:
    workload = file.workloads[stream]
    return workload.explain(on_spark=True, plan=plan_for(workload.family, file.algorithm_of(stream)))


def _shown(file: WorkloadFile, sink: Sink) -> dict[str, Any]:
    plain = _without_secrets(file, sink.model_dump(exclude_none=True))
    return plain | ({"url": shown_address(plain["url"])} if "url" in plain else {})


def _sql(query: Query) -> str | None:
    """Return the query as SQL, or None if SQL cannot express it."""
    return query.to_sql()


def _plain(file: WorkloadFile) -> dict[str, Any]:
    return {
        "file": str(file.path),
        "streams": {
            name: {
                **_without_secrets(file, file.streams[name].model_dump(exclude_none=True, exclude_defaults=True)),
                "queries": [{"type": query.family, **query.to_dict(), "sql": _sql(query)} for query in workload],
                "explain": _explained(file, name),
            }
            for name, workload in file.workloads.items()
        },
        "sinks": [_shown(file, sink) for sink in file.sinks],
        "checkpoint": file.engine.checkpoint,
        "once": choose_engine(file)._asdict(),
    }


def _hidden(file: WorkloadFile, value: Any) -> Any:
    """Return the same values with secrets in texts replaced."""
    if isinstance(value, dict):
        return {key: _hidden(file, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(file, one) for one in value]
    return file.hide(value) if isinstance(value, str) else value


def _without_secrets(file: WorkloadFile, section: dict[str, Any]) -> dict[str, Any]:
    """Return a section that is safe to show: options that are named like secrets are hidden."""
    options = {
        name: HIDDEN if is_secret(name) else file.hide(value) if isinstance(value, str) else value
        for name, value in section.get("options", {}).items()
    }
    return {**section, **({"options": options} if options else {})}
