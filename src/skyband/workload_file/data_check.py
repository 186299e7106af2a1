"""Whether a workload file goes with its data: paths that are there, and columns that the rows have. Without Spark."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from skyband.connectors.messages import nearest
from skyband.paths import has_scheme
from skyband.sql.safety import columns_in
from skyband.workload_file.build_queries import PlacedQuery
from skyband.workload_file.data_columns import KnownColumns, columns_of, local_files
from skyband.workload_file.models import FilesSource, Stream
from skyband.workload_file.report import Report
from skyband.workload_file.tree import Loc

__all__ = ["check_data"]

_EXPRESSIONS = ("by", "where", "key", "value", "object", "stream", "probability", "rule")
_LISTED = 12  # columns that a message names


def check_data(streams: dict[str, Stream], queries: Sequence[PlacedQuery], report: Report) -> None:
    """Report paths without data, and names that are no columns of it; only of streams that are asked about."""
    for name in dict.fromkeys(one.stream for one in queries):
        stream = streams[name]
        if isinstance(stream, FilesSource) and not _has_data(name, stream, report):
            continue
        known = columns_of(stream)
        if known is None:
            continue
        checked = _Names(name, known, report)
        for column, text in stream.columns.items():
            checked.check(("streams", name, "columns", column), columns_in(text), text)
            checked.compute(column)
        for key in ("time", "id"):
            column_ = getattr(stream, key)
            if column_ is not None:
                checked.check(("streams", name, key), [column_], column_)
        for one in queries:
            if one.stream == name:
                for loc, text in _expressions(one, report):
                    checked.check(loc, columns_in(text), text)


class _Names:
    """The columns of a stream, and a message for each name that is none of them."""

    def __init__(self, stream: str, known: KnownColumns, report: Report) -> None:
        self._stream, self._known, self._report = stream, known, report
        self._computed: list[str] = []

    def compute(self, name: str) -> None:
        """From here on there is this column, too."""
        self._computed.append(name)

    def check(self, loc: Loc, names: Iterable[str], text: str) -> None:
        """Report the first name that is no column."""
        known = KnownColumns((*self._known.names, *self._computed))
        wrong = next((name for name in names if not known.has(name)), None)
        if wrong is None:
            return
        near = nearest(wrong, known.names)
        some = ", ".join(known.names[:_LISTED]) + (", …" if len(known.names) > _LISTED else "")
        inside = "" if text.strip("` ") == wrong else f" in {text!r}"
        if self._known.all:
            hint = f"did you mean {near!r}?" if near else f"its columns are {some}."
            self._report.add(loc, f"{wrong!r}{inside} is no column of stream {self._stream!r}; {hint}")
        else:
            hint = f"if it is {near!r}, correct it." if near else f"the first have {some}."
            self._report.warn(
                loc, f"{wrong!r}{inside} is no column of the first rows of stream {self._stream!r}; {hint}"
            )


def _expressions(one: PlacedQuery, report: Report) -> Iterator[tuple[Loc, str]]:
    """The expressions of a query over a row, and where they are written."""
    for field in _EXPRESSIONS:
        text = getattr(one.query, field, None)
        key = "stream_by" if field == "stream" else field
        if isinstance(text, str):
            yield _place(one, key, report), text
    for text in getattr(one.query, "partition_by", ()):
        yield _place(one, "partition_by", report), text


def _place(one: PlacedQuery, key: str, report: Report) -> Loc:
    return next(loc for loc in ((*one.loc, key), (*one.loc, "sql"), one.loc) if report.has(loc))


def _has_data(name: str, stream: FilesSource, report: Report) -> bool:
    """Whether there are files at the stream's path; if not, that is a problem unless they may come later."""
    path, loc = stream.path, ("streams", name, "path")
    if has_scheme(path) or local_files(stream):
        return True
    is_glob = glob.has_magic(path)
    if not is_glob and not Path(path).exists():
        report.add(loc, f"{path!r} is not there, so that there is nothing to read; {_nearby(Path(path))}")
    elif stream.schema is None:
        report.add(
            loc,
            f"{path!r} has no files yet, so that nothing tells the columns. Put a file there, correct the path, or "
            "name the columns under schema:.",
        )
    else:
        report.warn(loc, f"{path!r} has no files yet; a run waits for them, and --once finds nothing.")
        return True  # the columns are those of the schema
    return False


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {str(path.parent)!r} is not there either."
    near = nearest(path.name, [other.name for other in path.parent.iterdir()])
    return f"did you mean {near!r}?" if near else "correct the path, or make it."
