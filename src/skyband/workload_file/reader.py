"""Reading a workload file: from bytes to streams, workloads and sinks, or to all that is wrong with it at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skyband.connectors.secrets import hidden, secrets_of_file
from skyband.errors import Problem, UnknownNameError, WorkloadFileError
from skyband.paths import absolute
from skyband.queries.workload import Workload
from skyband.workload_file.build_queries import PlacedQuery, asked, workloads
from skyband.workload_file.data_check import check_data
from skyband.workload_file.environment import Environment
from skyband.workload_file.folders import check_folders
from skyband.workload_file.models import WHOLE, Document, EngineSection, Sink, Stream, algorithm_for
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
    """A workload file that was read and found sound: paths are absolute, defaults are filled in."""

    path: Path
    streams: dict[str, Stream]
    workloads: dict[str, Workload[Any]]
    sinks: tuple[Sink, ...]
    engine: EngineSection
    secrets: frozenset[str] = field(default=frozenset(), repr=False)  # values that no message may show

    def hide(self, message: str) -> str:
        """The message without the secrets of the file: from the environment, in its addresses and in its options."""
        return hidden(message, self.secrets)

    @property
    def needs_kafka(self) -> bool:
        """Whether a stream that is asked about, or a sink, is one of Kafka's."""
        return any(one.needs_kafka for one in (*(self.streams[name] for name in self.workloads), *self.sinks))

    def checkpoint_of(self, stream: str) -> str:
        """The folder of a stream's state, below the file's checkpoint."""
        if stream not in self.streams:
            raise UnknownNameError.among("stream", stream, self.streams)
        return f"{str(self.engine.checkpoint).rstrip('/')}/{stream}"

    def algorithm_of(self, stream: str) -> str:
        """The algorithm of a stream's queries: the file's where it is for their type, else ``auto``."""
        return algorithm_for(self.workloads[stream].family, self.engine.algorithm)

    def shards_of(self, stream: str) -> int | None:
        """Into how many parts the state of a stream is cut; None: as many as suit its queries."""
        return None if self.workloads[stream].family in WHOLE else self.engine.shards


def read_workload(path: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> WorkloadFile:
    """Read a workload file (YAML): streams, queries over them, and where the answers go.

    Parameters
    ----------
    path
        The file. Paths in it are relative to its folder.
    environment
        What ``${NAME}`` in values stands for; by default the environment of this process.

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
    """The same, held against the data on this machine; and warnings of what may be wrong.

    Paths that are not there and names that are no columns are problems of the file, like all others.
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
        for one in asked(entry, ("queries", number), streams, report)
    ]
    made = workloads(found, streams, report)
    check_sinks(raw, [one.query.name for one in found], report)
    check_folders(raw, file.absolute(), report)
    check_families(raw, made, report)
    report.finish()
    assert document is not None  # what does not fit the model is in the report
    return _settled(file.absolute(), document, made, variables.secrets), found, report


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
    """The text of the file; what is no text file has no line to point at."""
    try:
        if file.is_dir():
            raise _refused(file, f"this is a folder; give the file in it, such as {file / 'skyband.yaml'}.")
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except FileNotFoundError:
        raise _refused(file, "there is no such file; skyband init writes one.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _refused(file, f"the file cannot be read: {reason}.") from error
    if len(content) > LARGEST:
        raise _refused(file, f"the file has more than {LARGEST:,} bytes; no workload file needs so many.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = f"the byte 0x{content[error.start]:02x} is no UTF-8; save the file as UTF-8."
        raise WorkloadFileError([Problem(str(file), line, column, "", message)]) from None


def _refused(file: Path, message: str) -> WorkloadFileError:
    return WorkloadFileError([Problem(str(file), 0, 0, "", message)])
