"""The result of comparing answers with brute force, and the folder that stored answers come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from skyband.connectors.answer_sums import SUMS, AnswerSums, CheckedFiles
from skyband.connectors.file_systems import is_store
from skyband.connectors.files import FileSink
from skyband.connectors.folder_writer import FolderWriter
from skyband.errors import InvalidInputError, UnsupportedError
from skyband.paths import has_scheme
from skyband.queries.families import FAMILIES
from skyband.queries.workload import Workload
from skyband.sharding.plan import COPY
from skyband.topk.brute_force import Difference
from skyband.workload_file import WorkloadFile

__all__ = ["Verified", "checked_files", "in_answers", "returning", "stored_files", "written_to"]

KINDS = ("parquet", "csv", "jsonl")


class Verified(NamedTuple):
    """Result of a comparison."""

    rows: int  # of the input
    windows: int | None  # emitted windows; None for stored answers
    dropped_null: int  # rows without a time or a score
    not_final: int  # rows of windows that an unfinished run has not emitted yet; not compared
    difference: Difference
    seconds: float | None  # in the pipeline; None for stored answers
    seconds_by_brute_force: float
    unreadable: int = 0  # files and row groups that were skipped
    earlier: int = 0  # rows of windows before the first one of their query; not compared, because it joined later

    @property
    def agrees(self) -> bool:
        """Whether all answers are equal."""
        return not self.difference.missing and not self.difference.unexpected


def written_to(file: WorkloadFile, stream: str, folder: Path) -> Workload[Any]:
    """Return the queries whose answers a run of the file writes to a folder."""
    workload = file.workloads[stream]
    sinks = (one for one in file.sinks if isinstance(one, FileSink))
    sink = next((one for one in sinks if Path(one.path).resolve() == folder.resolve()), None)
    if sink is not None and sink.output != "answers":
        raise UnsupportedError(
            f"{str(folder)!r} contains changes (output: {sink.output}), and only complete answers can be verified. "
            "Use the folder of a sink with output: answers."
        )
    if sink is None or sink.queries is None:
        return workload
    return Workload([query for query in workload if query.name in sink.queries])


def checked_files(file: WorkloadFile, stream: str) -> CheckedFiles:
    """Compare the files that the sinks of a stream have written with the checksums in its checkpoint."""
    checkpoint = file.checkpoint_of(stream)
    if has_scheme(checkpoint):
        raise UnsupportedError(
            f"checkpoint {checkpoint!r} is not on this machine, so there are no checksums of the files of answers."
        )
    sinks = (one for one in file.sinks if isinstance(one, FileSink) and not is_store(one.path))
    files = [part for one in sinks for part in FolderWriter(one.path, stream, one.type).parts()]
    return AnswerSums(Path(checkpoint) / SUMS).check(files)


def stored_files(stream: str, folder: Path) -> tuple[str, list[Path]] | None:
    """Return the format and the files of the answers that a sink has written for a stream; None if there are none."""
    found = {kind: FolderWriter(str(folder), stream, kind).parts() for kind in KINDS}
    kinds = [kind for kind, files in found.items() if files]
    if len(kinds) > 1:
        raise InvalidInputError(
            f"{str(folder)!r} contains answers of stream {stream!r} as {' and as '.join(kinds)}, which would be "
            "counted twice. Store each format in a separate folder."
        )
    return (kinds[0], found[kinds[0]]) if kinds else None


def in_answers(column: str, workload: Workload[Any]) -> str:
    """Return the name of an input column in the answers.

    >>> import skyband as sb
    >>> workload = sb.Workload(sb.TopK(k=1, size="1 hour"))
    >>> in_answers("rank", workload), in_answers("ts", workload)
    ('row_rank', 'ts')
    """
    keys = getattr(workload.queries[0], "key_columns", ())
    names = FAMILIES[workload.family].answers.with_keys(keys if len(keys) > 1 else ()).names
    return f"{COPY}{column}" if column.lower() in names else column


def returning(workload: Workload[Any]) -> list[str]:
    """Return the names of the queries whose answers contain the time and the id of a row."""
    return [query.name for query in workload if query.whole_rows]
