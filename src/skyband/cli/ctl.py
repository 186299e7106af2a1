"""`skyband ctl`: change a running job from another terminal."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from skyband.cli.terminal import console
from skyband.errors import InvalidInputError, PipelineError
from skyband.jobs.mailbox import mailbox_of
from skyband.workload_file import read_workload

__all__ = ["send"]

TIMEOUT = 60.0  # seconds
LONGEST_READ = 86_400.0  # seconds that a job may take to read the past of a query


def send(path: Path, message: dict[str, Any], *, as_json: bool, timeout: float | None = None) -> None:
    """Send a message to the running job of a file and print the reply.

    Raises InvalidInputError if there is no running job or if it rejects the message, PipelineError without a reply.
    """
    if timeout is None:
        timeout = LONGEST_READ if "since" in message else TIMEOUT
    reply = _reply(path, message, timeout)
    if "refused" in reply:
        raise InvalidInputError(f"{reply['refused']} The job continues unchanged.")
    if as_json:
        console().file.write(json.dumps(reply) + "\n")
    elif "queries" in reply:
        _print_queries(reply)
    else:
        console().print(reply["done"], soft_wrap=True)


def _reply(path: Path, message: dict[str, Any], timeout: float) -> dict[str, Any]:
    box = mailbox_of(read_workload(path))
    if not box.is_heard():
        raise InvalidInputError(
            f"no running job found for {path} on this machine (runs with --once or --catch-up cannot be changed). "
            f"Start one with `skyband run {shlex.quote(str(path))}`."
        )
    reply = box.ask(message, timeout)
    if reply is None:
        raise PipelineError(
            f"the running job of {path} did not reply within {timeout:g} seconds, so the change may or may not be "
            f"applied. Check with `skyband ctl list --file {shlex.quote(str(path))}`."
        )
    return reply


def _print_queries(reply: dict[str, Any]) -> None:
    out = console()
    for stream, queries in reply["queries"].items():
        counts = reply["metrics"].get(stream, {})
        totals = f"{counts.get('rows', 0):,} rows, {counts.get('windows', 0):,} windows, {counts.get('late', 0):,} late"
        out.print(f"stream {stream}: {totals}")
        for query in queries:
            out.print(f"  {query}", soft_wrap=True)
        for name, why in (counts.get("dropped") or {}).items():
            out.print(f"  dropped {name!r}: {why}", soft_wrap=True)
