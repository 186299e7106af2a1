"""The read API: versioned routes for programs that read the answers of a run or of a folder.

Responses are JSON, or Arrow where a program asks for it. They have ETags, and are cached until the answers change, so
many readers of the same window cost little.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skyband.dashboard import read_views
from skyband.dashboard.board_state import Show
from skyband.dashboard.boards import plain_column
from skyband.dashboard.change_log import LostCursorError
from skyband.dashboard.events import HEARTBEAT, EventStream, Notifier
from skyband.dashboard.openapi import ARROW, FORMATS, openapi
from skyband.dashboard.parameters import group_of, moment_in, number_of, query_of, text_of
from skyband.dashboard.response_cache import EXPORTED, JSON, Content, Entry, ResponseCache, respond
from skyband.dashboard.shared_changes import Found, Position, SharedChanges
from skyband.dashboard.wire import moment_text, packed
from skyband.data.json_lines import flat

__all__ = ["read_routes"]

MOST_ROWS = 100_000  # of one response
MOST_WINDOWS = 1000
MOST_CHANGES = 1000
MOST_NEIGHBOURS = 100
MOST_GROUPS = 10_000
LONGEST_WAIT = 60
Reader = Callable[[Request], Content]


def read_routes(show: Show, notifier: Notifier) -> list[Route]:
    """Return the routes of the read API."""
    cache = ResponseCache()
    readers: dict[str, Reader] = {
        "queries": lambda _: _packed(_queries(show)),
        "window": lambda request: _window(show, request),
        "windows": lambda request: _windows(show, request),
        "groups": lambda request: _groups(show, request),
        "answers": lambda request: _answers(show, request),
        "rank": lambda request: _rank(show, request),
        "ranks": lambda request: _ranks(show, request),
    }
    return [
        *(Route(f"/api/v1/{name}", _cached(show, cache, reader)) for name, reader in readers.items()),
        Route("/api/v1/changes", _changes(show, notifier)),
        Route("/api/v1/events", _events(show, notifier)),
        Route("/api/v1/openapi.json", _description),
    ]


def _description(request: Request) -> Response:
    return respond(request, Entry(_packed(openapi())))


def _queries(show: Show) -> dict[str, Any]:
    history = show.history
    found = []
    for one in show.queries().values():
        newest = history.find(one.name)
        found.append(
            {
                **one.to_dict(history.columns(one.name)),
                "newest": None if newest is None else moment_text(newest.window.moment, one.axis),
            }
        )
    return {"queries": found, "ended": show.ended, "cursor": history.cursor}


def _window(show: Show, request: Request) -> Content:
    name, group, moment = query_of(request), group_of(request), moment_in(request)
    found = read_views.window_of(show.history, name, group, moment)
    if found is None:
        raise _missing(show, name, group, moment)
    return _packed(found)


def _windows(show: Show, request: Request) -> Content:
    """The moments of the windows in the history, newest first, a page at a time."""
    name, group = query_of(request), group_of(request)
    limit, before = number_of(request, "limit", 100, MOST_WINDOWS), moment_in(request, "before")
    found = show.history.windows(name, group)
    if found is None:
        raise _missing(show, name, group)
    windows, dropped = found
    axis = show.history.info(name).axis
    older = [window for window in reversed(windows) if before is None or window.moment < before]
    page = [
        {
            "moment": moment_text(window.moment, axis),
            "start": None if window.start is None else moment_text(window.start, axis),
            "rows": window.rows,
        }
        for window in older[:limit]
    ]
    following = page[-1]["moment"] if len(older) > limit else None
    return _packed({"windows": page, "total": len(windows), "dropped": dropped, "next": following})


def _groups(show: Show, request: Request) -> Content:
    name, like = query_of(request), request.query_params.get("like", "")
    limit, skip = number_of(request, "limit", 100, MOST_GROUPS), number_of(request, "skip", 0, 10**9 - 1, 0)
    _check_query(show, name)
    total, found = show.history.groups(name, like, limit, skip)
    following = skip + len(found)
    return _packed({"groups": found, "total": total, "next": following if following < total else None})


def _answers(show: Show, request: Request) -> Content:
    """The rows of several windows, oldest first."""
    name, group = query_of(request), group_of(request)
    limit = number_of(request, "limit", 100, MOST_WINDOWS)
    moments = moment_in(request, "from"), moment_in(request, "to")
    found = read_views.window_table(show.history, name, group, moments, limit)
    if found is None:
        raise _missing(show, name, group)
    rows, rest, dropped = found
    if rows.num_rows > MOST_ROWS:
        raise HTTPException(
            400, f"the response would have {rows.num_rows:,} rows, more than {MOST_ROWS:,}. Set a smaller limit."
        )
    info = show.history.info(name)
    following = None if rest is None else moment_text(rest, info.axis)
    kind = request.query_params.get("format", "json")
    if kind not in FORMATS:
        raise HTTPException(400, f"format must be one of {', '.join(FORMATS)}, got {kind[:80]!r}.")
    if kind in EXPORTED:
        return exported(rows, kind)
    if kind == "arrow" or ARROW in request.headers.get("accept", ""):
        notes = {"next": "" if following is None else str(following), "dropped": str(dropped)}
        rows = rows.replace_schema_metadata(notes)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return Content(sink.getvalue().to_pybytes(), ARROW)
    return _packed({"columns": rows.column_names, "rows": _whole_rows(rows), "next": following, "dropped": dropped})


def exported(rows: pa.Table, kind: str) -> Content:
    """Return rows as a file: CSV for spreadsheets, with nested values as JSON, or Parquet."""
    sink = pa.BufferOutputStream()
    if kind == "csv":
        pcsv.write_csv(flat(rows), sink)
    else:
        pq.write_table(rows.replace_schema_metadata(), sink)
    return Content(sink.getvalue().to_pybytes(), EXPORTED[kind])


def _rank(show: Show, request: Request) -> Content:
    name, group, moment = query_of(request), group_of(request), moment_in(request)
    entity = text_of(request, "id", "the id of an entity")
    neighbours = number_of(request, "neighbours", 2, MOST_NEIGHBOURS, 0)
    found = read_views.rank_of(show.history, name, group, moment, entity, neighbours)
    if found is None:
        raise _missing(show, name, group, moment)
    return _packed(found)


def _ranks(show: Show, request: Request) -> Content:
    name, group = query_of(request), group_of(request)
    entity = text_of(request, "id", "the id of an entity")
    found = read_views.ranks_of(show.history, name, group, entity, number_of(request, "last", 100, MOST_WINDOWS))
    if found is None:
        raise _missing(show, name, group)
    return _packed(found)


def _whole_rows(rows: pa.Table) -> list[list[Any]]:
    values = [plain_column(column) for column in rows.columns]
    return [list(row) for row in zip(*values, strict=True)]


def _changes(show: Show, notifier: Notifier) -> Callable[[Request], Any]:
    """The windows that are new since a cursor. With `wait`, an empty response waits for the next change."""
    shared = SharedChanges(notifier, lambda since, limit, name: _changes_since(show, since, limit, name))

    async def changes(request: Request) -> Response:
        name, since = request.query_params.get("query"), request.query_params.get("since")
        limit = number_of(request, "limit", 100, MOST_CHANGES)
        wait = number_of(request, "wait", 0, LONGEST_WAIT, 0)
        if since is None or not wait:
            found = await run_in_threadpool(_changes_since, show, since, limit, name)
            return respond(request, Entry(_packed(found)), is_cacheable=False)
        place = notifier.join()  # before the first look, so that no change is missed between look and wait
        if place is None:
            raise HTTPException(503, f"too many waiting readers: at most {notifier.most}. Ask again without wait.")
        try:
            awaited = await _awaited(place, wait, show, shared, (since, limit, name))
            return respond(request, awaited.entry, is_cacheable=False)
        finally:
            notifier.leave(place)

    return changes


async def _awaited(place: asyncio.Event, wait: float, show: Show, shared: SharedChanges, position: Position) -> Found:
    """Return the changes after a position, once there are some or the time is over."""
    until = asyncio.get_running_loop().time() + wait
    while True:
        place.clear()
        found = await shared.since(position)
        if found.has_changes or show.ended:
            return found
        position = (found.cursor, *position[1:])
        try:
            async with asyncio.timeout_at(until):
                await place.wait()
        except TimeoutError:
            return found


def _changes_since(show: Show, since: str | None, limit: int, name: str | None) -> dict[str, Any]:
    show.refresh()
    if name is not None:
        _check_query(show, name)
    if since is None:  # the reader begins now
        return {"changes": [], "cursor": show.history.cursor, "more": False}
    try:
        changes, cursor = show.history.changes_since(since, limit, name)
    except ValueError:
        raise HTTPException(400, f"since must be a cursor of an earlier response, got {since[:80]!r}.") from None
    except LostCursorError:
        raise HTTPException(
            410,
            "the changes after this cursor are no longer known: the server was restarted, or the reader was too slow. "
            "Read the newest windows again, and continue without since.",
        ) from None
    windows = (read_views.window_of(show.history, *change) for change in changes)
    return {
        "changes": [window for window in windows if window is not None],  # without those that were removed since
        "cursor": cursor,
        "more": len(changes) == limit,
    }


def _events(show: Show, notifier: Notifier) -> Callable[[Request], Any]:
    """Server-sent events, one for each new window. The id of an event is its cursor."""

    async def events(request: Request) -> Response:
        name = request.query_params.get("query")
        since = request.headers.get("last-event-id") or request.query_params.get("since")
        first = await run_in_threadpool(_changes_since, show, since, MOST_CHANGES, name)
        place = notifier.join()
        if place is None:
            raise HTTPException(503, f"too many waiting readers: at most {notifier.most}. Use /api/v1/changes.")
        return EventStream(notifier, place, _told(show, notifier, place, first, name))

    return events


async def _told(
    show: Show, notifier: Notifier, place: asyncio.Event, found: dict[str, Any], name: str | None
) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    while True:
        for number, window in enumerate(found["changes"], 1):
            # Only the last event has the cursor: a reader that reconnects before it gets some windows again.
            mark = b"id: %s\n" % found["cursor"].encode() if number == len(found["changes"]) else b""
            yield b"%sevent: window\ndata: %s\n\n" % (mark, packed(window))
        if notifier.closed or (show.ended and not found["more"]):
            yield b"event: end\ndata: {}\n\n"
            return
        if not found["more"]:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await place.wait()
            except TimeoutError:
                yield b": heartbeat\n\n"
        place.clear()
        try:
            found = await run_in_threadpool(_changes_since, show, found["cursor"], MOST_CHANGES, name)
        except HTTPException as error:  # the reader is too slow; it learns why, and starts again
            yield b"event: lost\ndata: %s\n\n" % packed({"error": error.detail})
            return


def _cached(show: Show, cache: ResponseCache, reader: Reader) -> Callable[[Request], Any]:
    def read(request: Request, key: tuple[str, str]) -> Entry:
        version = (show.refresh(), show.version, show.ended)
        entry = cache.get(key, version)
        if entry is None:
            entry = Entry(reader(request), version)
            cache.put(key, entry)
        return entry

    async def answer(request: Request) -> Response:
        kind = ARROW if ARROW in request.headers.get("accept", "") else JSON
        key = (f"{request.url.path}?{request.url.query}", kind)
        settled = show.history.settled
        # What is cached needs no thread. Changes of the workload are processed once a second in any case.
        entry = None if settled is None else cache.get(key, (settled, show.version, show.ended))
        if entry is None:
            entry = await run_in_threadpool(read, request, key)
        return respond(request, entry)

    return answer


def _packed(content: Any) -> Content:
    return Content(packed(content))


def _check_query(show: Show, name: str) -> None:
    if name not in show.queries() and show.history.find(name) is None:
        raise HTTPException(404, f"no query {name[:200]!r} found. /api/v1/queries lists the queries.")


def _missing(show: Show, name: str, group: str | None, moment: int | None = None) -> HTTPException:
    """The 404 of a window, with the part of the request that is wrong."""
    _check_query(show, name)
    history = show.history
    if group is not None and history.find(name, group) is None:
        return HTTPException(404, f"query {name!r} has no answers of the group {group[:200]} in the history.")
    if moment is None:
        return HTTPException(404, f"query {name!r} has no answers yet.")
    text = moment_text(moment, history.info(name).axis)
    return HTTPException(
        404, f"query {name!r} has no window at {text} in the history. /api/v1/windows lists its windows."
    )
