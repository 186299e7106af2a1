"""Build queries and workloads from the entries under `queries`; problems are reported at their keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from skyband.connectors.section import among, nearest
from skyband.durations import parse_past
from skyband.errors import InvalidQueryError, SkybandError
from skyband.queries import Query as AnyQuery
from skyband.queries.families import FAMILIES
from skyband.queries.fields import split_field
from skyband.queries.workload import Workload
from skyband.workload_file.models import Stream
from skyband.workload_file.query_models import FamilyQuery, QuerySection, SqlQuery, field_of
from skyband.workload_file.report import Report, taken
from skyband.workload_file.tree import Loc

__all__ = ["PlacedQuery", "queries_of", "workloads"]


_TWICE = "To use both, define the stream twice under different names."


class PlacedQuery(NamedTuple):
    """A query, the name of its stream, its location, the column that names its rows, and how much past is read."""

    query: AnyQuery
    stream: str
    loc: Loc
    label: str | None = None
    since: int | None = None


def queries_of(
    entry: QuerySection, loc: Loc, streams: Mapping[str, Stream | None], report: Report
) -> Iterator[PlacedQuery]:
    """Yield the queries of one valid entry: one for keys, one or more for SQL."""
    stream = entry.stream if entry.stream is not None else next(iter(streams), None) if len(streams) == 1 else None
    if entry.stream is not None and entry.stream not in streams and not streams:
        return  # the problem is that of `streams`
    if entry.stream is not None and entry.stream not in streams:
        hint = (
            " To set the stream of each row by an expression, use stream_by."
            if "stream_by" in type(entry).model_fields
            else ""
        )
        report.add((*loc, "stream"), among(entry.stream, streams) + hint)
        stream = None
    since = _since(entry, loc, report)
    if isinstance(entry, SqlQuery):
        yield from (one._replace(since=since) for one in _from_sql(entry, loc, stream, streams, report))
        return
    assert isinstance(entry, FamilyQuery)
    given = entry.model_dump(exclude={"stream", "type", "label", "since"}, exclude_none=True, exclude_unset=True)
    try:
        fields = {field_of(key): value for key, value in given.items()}
        if fields.get("size") == "all":
            fields["size"] = None
        query = FAMILIES[entry.type].query_class(**fields)
    except InvalidQueryError as error:
        key, message = _at_key(str(error), given)
        report.add((*loc, key) if key else loc, message)
        return
    if stream is None:
        if streams:  # otherwise the problem is that of `streams`
            report.add((*loc, "stream"), f"is missing; set one of {', '.join(streams)}.")
    else:
        yield _labelled(PlacedQuery(query, stream, loc, entry.label, since), report)


def _since(entry: QuerySection, loc: Loc, report: Report) -> int | None:
    """Return how much of a query's past is read, in microseconds."""
    try:
        return None if entry.since is None else parse_past(entry.since)
    except InvalidQueryError as error:
        report.add((*loc, "since"), split_field(str(error))[1])
        return None


def workloads(
    found: list[PlacedQuery], streams: Mapping[str, Stream | None], report: Report
) -> dict[str, Workload[Any]]:
    """Return the workload of each stream that has queries. Query names must be unique in the file."""
    names: dict[str, Loc] = {}
    counts = Counter((one.query.name, one.loc) for one in found)  # a statement can have several queries
    for one in found:
        first = names.setdefault(one.query.name, one.loc)
        if first != one.loc or counts[one.query.name, one.loc] > 1:
            report.add(_key(one, "name", report), taken(one.query.name, report.line_of(first)))
    made = {}
    for stream in streams:
        group = [one for one in found if one.stream == stream]
        for one in group:
            _refuse_other_kind(one, group[0], report)
        if report.is_sound("queries"):
            _refuse_other_sizes(group, report)
        if group and report.is_sound("queries"):
            made[stream] = Workload([one.query for one in group])
    return made


def _refuse_other_kind(one: PlacedQuery, first: PlacedQuery, report: Report) -> None:
    """Report a query whose type or axis differs from the first query of its stream."""
    if one.query.family != first.query.family:
        report.add(
            _key(one, "type", report),
            f"is {one.query.family}, but {first.query.name!r} (line {report.line_of(first.loc)}) has type "
            f"{first.query.family}. The queries of a stream share state, so they must have one type. {_TWICE}",
        )
    elif one.query.axis != first.query.axis:
        report.add(
            _key(one, "size", report),
            f"{_window_of(one.query)} is a {one.query.axis} window, but {first.query.name!r} (line "
            f"{report.line_of(first.loc)}) has {first.query.axis} windows. The queries of a stream must all have "
            f"time windows or all have count windows. {_TWICE}",
        )


def _window_of(query: AnyQuery) -> str:
    """Return a query's window as in its file: the size, or the gap of its sessions."""
    fields = query.to_dict()
    if fields.get("gap") is not None:
        return f"a session (gap {fields['gap']!r})"
    return repr("all" if fields["size"] is None else fields["size"])


def _refuse_other_sizes(group: list[PlacedQuery], report: Report) -> None:
    """Report a query whose window differs from the others, if its family requires equal windows."""
    for number, one in enumerate(group):
        try:
            type(one.query).check_together(other.query for other in group[: number + 1])
        except InvalidQueryError as error:
            report.add(_key(one, "size", report), str(error).replace("Make two workloads of them.", _TWICE))
            return


def _from_sql(
    entry: SqlQuery, loc: Loc, stream: str | None, streams: Mapping[str, Stream | None], report: Report
) -> Iterator[PlacedQuery]:
    from skyband.sql.reader import parse  # noqa: PLC0415 - only files with SQL load the parser

    at = (*loc, "sql")
    try:
        statements = parse(entry.sql, name=entry.name)
    except SkybandError as error:
        report.add(at, str(error))
        return
    for statement in statements:
        over = stream
        if statement.stream is not None:
            over = _named_in_sql(statement.stream, entry.stream, at, streams, report)
        elif over is None and streams:
            report.add((*loc, "stream"), f"is missing, and the SQL has no FROM; set one of {', '.join(streams)}.")
        if over is None:
            continue
        known = streams[over]
        time = None if known is None else known.time or "timestamp"  # the column of a rate source
        if statement.time is not None and time is not None and statement.time.lower() != time.lower():
            report.add(
                at,
                f"DESCRIPTOR({statement.time}) is not the time column of stream {over!r}, which is {time!r}.",
            )
        yield _labelled(PlacedQuery(statement.query, over, loc, entry.label), report)


def _labelled(one: PlacedQuery, report: Report) -> PlacedQuery:
    """Report a label that answers of the query cannot have. Columns of the input are checked with the data."""
    query, label = one.query, one.label
    if label is None or query.whole_rows or getattr(query, "row", False):
        return one
    key = getattr(query, "key", None)
    keys = () if key is None or isinstance(key, str) else tuple(key)  # a list of keys gives columns of their names
    schema = FAMILIES[query.family].answers.with_keys(keys)
    known = [*query.groups, *(column.name for column in schema.columns if column.ranked)]
    if label.lower() not in [name.lower() for name in known]:
        report.add(
            (*one.loc, "label"),
            f"must be a column of the answers of {query.name!r}, got {label!r}; set one of {', '.join(known)}, or "
            "remove label.",
        )
    return one


def _named_in_sql(
    name: str, beside: str | None, at: Loc, streams: Mapping[str, Stream | None], report: Report
) -> str | None:
    known = {stream.lower(): stream for stream in streams}
    found = known.get(name.lower())
    if found is None:
        near = nearest(name, streams)
        hint = f"did you mean {near!r}?" if near else f"streams: {', '.join(streams)}."
        report.add(at, f"FROM {name} is not a stream of this file; {hint}")
    elif beside is not None and beside in streams and beside != found:
        report.add(at, f"FROM {name} contradicts stream: {beside}; remove one of them.")
    return found


def _at_key(message: str, given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key that a query's error is about, and the message without the field it begins with."""
    field, rest = split_field(message)
    key = next((key for key in given if field_of(key) == field), None)
    if re.match(r"(None )?is (missing|required)", rest):
        return field, rest.removeprefix("None ")
    if key is None:
        return "", message
    if "stream_by" in given:
        rest = rest.replace(" stream=", " stream_by=")
    other = re.search(r" and (slide|every)=", message) if key == "size" else None
    return (other[1], message) if other else (key, rest)


def _key(one: PlacedQuery, key: str, report: Report) -> Loc:
    return next(loc for loc in ((*one.loc, key), (*one.loc, "sql"), one.loc) if report.has(loc))
