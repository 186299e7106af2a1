"""Read a workload file into streams, workloads and sinks, or report all of its problems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skyband.connectors.secrets import hidden, secrets_of_file
from skyband.errors import Problem, UnknownNameError, WorkloadFileError
from skyband.paths import absolute
from skyband.queries.workload import Workload
from skyband.workload_file.build_queries import PlacedQuery, queries_of, workloads
from skyband.workload_file.data_check import check_data
from skyband.workload_file.environment import Environment
from skyband.workload_file.folders import check_folders
from skyband.workload_file.models import Document, EngineSection, Sink, Stream, algorithm_for, has_one_shard
from skyband.workload_file.report import Report
from skyband.workload_file.tree import LARGEST, read_tree
from skyband.workload_file.validation import (
    check_families,
    check_sinks,
    checked,
    sound_queries,
    sound_streams,
    top_of,
    without_nulls,
)

__all__ = ["WorkloadFile", "read_with_data", "read_workload", "text_of"]


@dataclass(frozen=True)
class WorkloadFile:
    """A valid workload file. Paths are absolute and defaults are set."""

    path: Path
    streams: dict[str, Stream]
    workloads: dict[str, Workload[Any]]
    sinks: tuple[Sink, ...]
    engine: EngineSection
    secrets: frozenset[str] = field(default=frozenset(), repr=False)  # values to hide in messages
    labels: Mapping[str, str] = field(default_factory=dict)  # by query: the column that names its rows
    since: Mapping[str, int] = field(default_factory=dict)  # by query: how much of its past is read, in microseconds

    def hide(self, message: str) -> str:
        """Remove the secrets of the file (environment variables, addresses, options) from a message."""
        return hidden(message, self.secrets)

    @property
    def needs_kafka(self) -> bool:
        """Whether a stream with queries, or a sink, uses Kafka."""
        return any(one.needs_kafka for one in (*(self.streams[name] for name in self.workloads), *self.sinks))

    def checkpoint_of(self, stream: str) -> str:
        """The folder of a stream's state, below the file's checkpoint."""
        if stream not in self.streams:
            raise UnknownNameError.among("stream", stream, self.streams)
        return f"{str(self.engine.checkpoint).rstrip('/')}/{stream}"

    def algorithm_of(self, stream: str) -> str:
        """Algorithm of a stream's queries: the file's if it supports their type, else ``auto``."""
        return algorithm_for(self.workloads[stream].family, self.engine.algorithm)

    def shards_of(self, stream: str) -> int | None:
        """Number of shards of a stream's state; None: chosen for its queries."""
        return None if has_one_shard(self.workloads[stream]) else self.engine.shards


def read_workload(path: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> WorkloadFile:
    """Read a workload file (YAML): streams, queries over them, and sinks for the answers.

    Parameters
    ----------
    path
        The file. Paths in it are relative to its folder.
    environment
        Values of ``${NAME}``. Default: the environment of this process.

    Raises
    ------
    WorkloadFileError
        With all problems of the file at once, each with line, column and key.

    Examples
    --------
    >>> import skyband as sb
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> text = '''
    ... streams:
    ...   trades: {path: trades.csv, time: ts}
    ... queries:
    ...   - {name: big, k: 10, size: 10 minutes, slide: 1 minute, by: price * shares}
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "skyband.yaml")
    ...     _ = file.write_text(text)
    ...     read = sb.read_workload(file)
    >>> read.workloads["trades"]
    Workload([TopK(name='big', k=10, size='10 minutes', slide='1 minute', by='price * shares')])
    >>> read.streams["trades"].format, read.streams["trades"].watermark
    ('csv', '10 seconds')
    """
    return _read(path, environment)[0]


def read_with_data(
    path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> tuple[WorkloadFile, list[Problem]]:
    """Read a workload file and check it against its local data; return it with warnings.

    Missing paths and names that are not columns are reported like all other problems of the file.
    """
    read, queries, report = _read(path, environment)
    check_data(read.streams, queries, report)
    report.finish()
    return read, report.warnings


def _read(
    path: str | os.PathLike[str], environment: Mapping[str, str] | None
) -> tuple[WorkloadFile, list[PlacedQuery], Report]:
    file = Path(path)
    variables = Environment(os.environ if environment is None else environment)
    tree = read_tree(text_of(file), variables.fill)
    variables.know(secrets_of_file(tree.value))
    report = Report(str(file), tree, variables)
    raw = without_nulls(top_of(tree.value, report))
    document, sections = checked(raw, report)
    streams = sound_streams(raw, sections, report)
    found = [
        one
        for number, entry in sound_queries(raw, sections, report).items()
        for one in queries_of(entry, ("queries", number), streams, report)
    ]
    made = workloads(found, streams, report)
    check_sinks(raw, [one.query.name for one in found], report)
    check_folders(raw, file.absolute(), report)
    check_families(raw, made, report)
    report.finish()
    assert document is not None  # otherwise the report has problems
    labels = {one.query.name: one.label for one in found if one.label is not None}
    since = {one.query.name: one.since for one in found if one.since is not None}
    settled = _settled(file.absolute(), document, made, variables.secrets)
    return replace(settled, labels=labels, since=since), found, report


def _settled(file: Path, document: Document, made: dict[str, Workload[Any]], secrets: frozenset[str]) -> WorkloadFile:
    folder = file.parent
    engine = document.engine
    checkpoint = absolute(engine.checkpoint or f".skyband/{file.stem}", folder)
    return WorkloadFile(
        path=file,
        streams={name: stream.settled(folder) for name, stream in document.streams.items()},
        workloads=made,
        sinks=tuple(sink.settled(folder) for sink in document.sinks),
        engine=engine.model_copy(update={"checkpoint": checkpoint}),
        secrets=secrets,
    )


def text_of(file: Path) -> str:
    """Read the text of the file."""
    try:
        if file.is_dir():
            raise _problem(file, f"this is a folder; name the file in it, such as {file / 'skyband.yaml'}.")
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except WorkloadFileError:
        raise
    except FileNotFoundError:
        raise _problem(file, "the file does not exist; skyband init writes one.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _problem(file, f"the file cannot be read: {reason}.") from error
    if len(content) > LARGEST:
        raise _problem(file, f"the file has more than {LARGEST:,} bytes, the limit for workload files.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = f"the byte 0x{content[error.start]:02x} is not valid UTF-8; save the file as UTF-8."
        raise WorkloadFileError([Problem(str(file), line, column, "", message)]) from None


def _problem(file: Path, message: str) -> WorkloadFileError:
    return WorkloadFileError([Problem(str(file), 0, 0, "", message)])
