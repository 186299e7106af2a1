"""`skyband ctl`: changes a workload that runs, from another terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skyband.commands.screen import console
from skyband.errors import InvalidInputError, PipelineError
from skyband.workfile import read_workload
from skyband.workfile.mail import mailbox_of

__all__ = ["tell"]

TIMEOUT = 60.0  # seconds


def tell(path: Path, message: dict[str, Any], *, as_json: bool, timeout: float = TIMEOUT) -> None:
    """Tell the run of a file something, and print its reply; an error if it refuses, or if nobody listens."""
    reply = _asked(path, message, timeout)
    if "refused" in reply:
        raise InvalidInputError(f"{reply['refused']} The run goes on as it was.")
    if as_json:
        console().file.write(json.dumps(reply) + "\n")
    elif "queries" in reply:
        _print_queries(reply)
    else:
        console().print(reply["done"], soft_wrap=True)


def _asked(path: Path, message: dict[str, Any], timeout: float) -> dict[str, Any]:
    box = mailbox_of(read_workload(path))
    if not box.is_heard():
        raise InvalidInputError(
            f"nobody listens: no run of {path} is going on in this machine. Start it with skyband run {path}, or edit "
            "the file: a run that starts takes it as it is."
        )
    reply = box.ask(message, timeout)
    if reply is None:
        raise PipelineError(
            f"the run of {path} gave no reply within {timeout:g} seconds; whether it heard cannot be told. Look with "
            f"skyband ctl list {path}."
        )
    return reply


def _print_queries(reply: dict[str, Any]) -> None:
    out = console()
    for stream, queries in reply["queries"].items():
        counts = reply["metrics"].get(stream, {})
        told = f"{counts.get('rows', 0):,} rows, {counts.get('windows', 0):,} windows, {counts.get('late', 0):,} late"
        out.print(f"stream {stream}: {told}")
        for query in queries:
            out.print(f"  {query}", soft_wrap=True)
