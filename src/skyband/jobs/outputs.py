"""The outputs of a stream of a job: its open sinks, and the files of earlier runs in their folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from skyband.connectors.memory import Memory
from skyband.errors import InvalidInputError
from skyband.paths import has_scheme
from skyband.sharding.delivery import Folder, Opening, Server, Wanted
from skyband.sharding.plan import Output
from skyband.workload_file import WorkloadFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Mode", "Outputs", "discard", "memory_of", "open_outputs", "refuse_foreign_files", "refuse_undiscardable"]

Mode = Literal["stream", "once", "catch-up"]


@dataclass
class Outputs:
    """The receivers of a stream's answers."""

    wanted: list[Wanted] = field(default_factory=list)
    memories: dict[Output, list[Memory]] = field(default_factory=dict)  # one per sink of type memory
    servers: list[Server] = field(default_factory=list)


def open_outputs(
    file: Callable[[], WorkloadFile],
    name: str,
    spark: SparkSession | None,
    watchers: Sequence[Wanted],
    *,
    has_state: bool,
) -> Outputs:
    """Open the sinks of a stream; `watchers` are additional receivers. `file` returns the file with its changes.

    `has_state` is whether the run stores a state, in whose folder sinks can store what belongs to their answers.
    """
    now, found = file(), Outputs()
    checkpoint = now.checkpoint_of(name) if has_state else None
    checkpoint = None if checkpoint is None or has_scheme(checkpoint) else checkpoint
    opening = Opening(spark, name, lambda: file().workloads[name], checkpoint)
    for sink in now.sinks:
        if not any(sink.serves(query.name) for query in now.workloads[name]):
            continue
        outlet = sink.open(opening)
        if outlet is None:
            continue
        if isinstance(outlet, Memory):
            found.memories.setdefault(sink.output, []).append(outlet)
        if isinstance(outlet, Server):
            found.servers.append(outlet)
        found.wanted.append(Wanted.of(sink, outlet))
    found.wanted += watchers
    return found


def memory_of(
    stream: str, memories: Mapping[Output, list[Memory]], output: Literal["answers", "changes"] | None
) -> pa.Table | None:
    """Return the rows that a stream's sinks of type memory have received; None before the first answers."""
    known = list(memories)
    wanted = known[0] if output is None and len(known) == 1 else output
    if wanted not in known:
        none = f"has no sink of type memory{f' for {output}' if output else ''}. Add one to the workload file"
        both = "has sinks of type memory for answers and for changes. Choose one with output="
        raise InvalidInputError(f"stream {stream!r} {both if known and output is None else none}.")
    tables = [memory.table() for memory in memories[wanted]]
    filled = [table for table in tables if table is not None]
    return pa.concat_tables(filled) if filled else None


def refuse_foreign_files(folders: Sequence[Folder], stream: str, *, has_state: bool, mode: Mode) -> None:
    """Reject folders with files of another run: files are numbered by micro-batch and would be mixed or replaced."""
    for folder in folders:
        if not folder.files():
            continue
        where = f"{str(folder.folder)!r} contains {folder.holds} of stream {stream!r}"
        if mode == "once" and has_state:
            raise InvalidInputError(
                f"{where} that belong to a stored state, and --once would replace them. Use another path, resume that "
                "run, or start over with --fresh (fresh=True), which removes the state and the files."
            )
        if mode != "once" and not has_state:
            raise InvalidInputError(
                f"{where} from another run, but there is no state to resume from, so new files would be mixed with "
                f"them. Use another path, or start over with --fresh (fresh=True), {_when_fresh(folder)}."
            )


def _when_fresh(folder: Folder) -> str:
    """Return what a start without a state does with the answers of a folder."""
    return str(getattr(folder, "when_fresh", "which removes them"))


def refuse_undiscardable(checkpoint: str, folders: Sequence[Folder]) -> None:
    """Reject a state that cannot be removed, and folders in which files cannot be replaced."""
    if has_scheme(checkpoint):
        raise InvalidInputError(
            f"--fresh (fresh=True) cannot remove the state in {checkpoint!r}, which is not on this machine. Remove it "
            "with that storage's tools, and run without --fresh."
        )
    for folder in folders:
        if not isinstance(folder, Server):
            _refuse_unwritable(folder)


def _refuse_unwritable(folder: Folder) -> None:
    place = folder.folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = "is not writable" if place.is_dir() else "is not a folder"
        raise InvalidInputError(
            f"{folder.holds} cannot be written to {str(folder.folder)!r} ({str(place)!r} {why}), so the stream was not "
            "started. Nothing was removed. Use a folder that can be written to."
        )


def discard(checkpoint: str, folders: Sequence[Folder]) -> None:
    """Remove the stored state of a stream and the files that were written with it. See `refuse_undiscardable`."""
    with suppress(FileNotFoundError):
        shutil.rmtree(checkpoint)
    for folder in folders:
        folder.clear()
