"""`skyband ctl`: changes a workload that runs, from another terminal."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from skyband.cli.terminal import console
from skyband.errors import InvalidInputError, PipelineError
from skyband.jobs.mailbox import mailbox_of
from skyband.workload_file import read_workload

__all__ = ["tell"]

TIMEOUT = 60.0  # seconds


def tell(path: Path, message: dict[str, Any], *, as_json: bool, timeout: float = TIMEOUT) -> None:
    """Tell the run of a file something, and print its reply; an error if it refuses, or if there is none."""
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
            f"no running job found for {path} on this machine that takes changes (--once and --catch-up end by "
            f"themselves). Start one with `skyband run {shlex.quote(str(path))}`, or edit the file and then start it."
        )
    reply = box.ask(message, timeout)
    if reply is None:
        raise PipelineError(
            f"the run of {path} gave no reply within {timeout:g} seconds; whether it heard cannot be told. Look with "
            f"`skyband ctl list --file {shlex.quote(str(path))}`."
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
        for name, why in (counts.get("dropped") or {}).items():
            out.print(f"  dropped {name!r}: {why}", soft_wrap=True)
