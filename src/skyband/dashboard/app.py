"""The HTTP routes of the dashboard. Each route parses its parameters, reads the show and returns JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skyband.dashboard import boards
from skyband.dashboard.assets import assets
from skyband.dashboard.board_state import Show, state_of
from skyband.dashboard.connections import FIRST
from skyband.dashboard.engine_view import EngineView, plan_of
from skyband.dashboard.events import EventStream, Listener, Notifier, listen
from skyband.dashboard.parameters import group_of, moment_in, number_of, query_of, watched_of
from skyband.dashboard.read_api import read_routes
from skyband.dashboard.wire import packed
from skyband.errors import SkybandError
from skyband.jobs.mailbox import LONGEST

__all__ = ["app_of"]

TEXT = "text/plain"
_NO_STORE = {"cache-control": "no-store"}
_ACTIONS: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "explain": lambda control, body: control.explain(_text(body, "sql"), body.get("stream")),
    "add": lambda control, body: {"done": control.add(_text(body, "sql"), body.get("stream"))},
    "drop": lambda control, body: {"done": control.drop(_text(body, "name"))},
}


def app_of(show: Show, engine: EngineView, notifier: Notifier) -> Starlette:
    """Return the ASGI application that serves a show."""
    return Starlette(
        routes=[
            Route("/", _asset),
            Route("/assets/{path:path}", _asset),
            Route("/healthz", _health(show)),
            *(Route(f"/api/{name}", answer) for name, answer in _read_only(show, engine).items()),
            Route("/api/events", _events(show, engine, notifier)),
            *(Route(f"/api/{name}", _changing(show, name), methods=["POST"]) for name in _ACTIONS),
            *read_routes(show, notifier),
        ],
        exception_handlers={HTTPException: _http_error, Exception: _internal_error},
    )


def _health(show: Show) -> Callable[[Request], Any]:
    async def health(_: Request) -> Response:  # async: needs no thread of the pool, which may be exhausted
        problem = show.problem()
        return Response("ok\n" if problem is None else f"{problem}\n", 200 if problem is None else 503, _NO_STORE, TEXT)

    return health


def _read_only(show: Show, engine: EngineView) -> dict[str, Callable[[Request], Response]]:
    history = show.history

    def state(_: Request) -> Response:
        show.refresh()
        return _json(state_of(show))

    def summaries(_: Request) -> Response:
        show.refresh()
        queries = show.queries()
        return _json(boards.summaries(history, [name for name in history.names() if name in queries]))

    def board(request: Request) -> Response:
        show.refresh()
        name, group = query_of(request), group_of(request)
        return _found(boards.board(history, name, group, moment_in(request), _label(request)), name, group)

    def groups(request: Request) -> Response:
        show.refresh()
        like, limit = request.query_params.get("like", ""), number_of(request, "limit", 200, 10_000)
        total, found = history.groups(query_of(request), like, limit)
        return _json({"total": total, "groups": found})

    def moments(request: Request) -> Response:
        show.refresh()
        name, group = query_of(request), group_of(request)
        return _found(boards.moments(history, name, group), name, group)

    def ranks(request: Request) -> Response:
        show.refresh()
        name, group = query_of(request), group_of(request)
        last = number_of(request, "last", 120, 2_000)
        return _found(boards.ranks_over_time(history, name, group, last, _label(request)), name, group)

    def engine_numbers(_: Request) -> Response:
        return _json(engine.with_trail())

    def plan(request: Request) -> Response:
        show.refresh()
        stream = request.query_params.get("stream", "")
        found = plan_of(show, stream)
        if found is None:
            raise HTTPException(404, f"no stream {stream!r} found: no query reads a stream of this name.")
        return _json(found)

    return {
        "state": state,
        "summaries": summaries,
        "board": board,
        "groups": groups,
        "moments": moments,
        "history": ranks,
        "engine": engine_numbers,
        "plan": plan,
    }


def _label(request: Request) -> str | None:
    """Return the chosen label column; None for the one of the query, an empty text for the ids."""
    return request.query_params.get("label")


def _events(show: Show, engine: EngineView, notifier: Notifier) -> Callable[[Request], Any]:
    async def events(request: Request) -> Response:
        watched = watched_of(request)
        place = notifier.join()  # before the first await, because requests run concurrently
        if place is None:
            raise HTTPException(
                503, f"too many open pages: at most {notifier.most} can receive live updates. Close one and try again."
            )
        return EventStream(notifier, place, listen(notifier, place, Listener(show, engine, watched)))

    return events


def _changing(show: Show, name: str) -> Callable[[Request], Any]:
    async def change(request: Request) -> Response:
        body = await _body(request)
        if show.control is None:  # the guard rejects such requests first
            raise HTTPException(403, "this page cannot change the workload.")
        try:
            return _json(await run_in_threadpool(_ACTIONS[name], show.control, body))
        except SkybandError as error:
            return _json({"error": str(error)}, 422)

    return change


async def _body(request: Request) -> dict[str, Any]:
    """Return the request body: a JSON object no longer than the mailbox accepts."""
    content = b""
    try:
        async with asyncio.timeout(FIRST):
            async for chunk in request.stream():
                content += chunk
                if len(content) > LONGEST:
                    raise HTTPException(413, f"the request body exceeds {LONGEST:,} bytes. Nothing was changed.")
    except TimeoutError:
        raise HTTPException(408, f"the request was incomplete after {FIRST:g} seconds. Nothing was changed.") from None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("stream"), str | None):
        raise HTTPException(400, "the request body must be a JSON object. Nothing was changed.")
    return found


def _text(body: dict[str, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or not found.strip():
        raise HTTPException(400, f"{name} must be a non-empty string. Nothing was changed.")
    return found


def _asset(request: Request) -> Response:
    found = assets().get(request.path_params.get("path", "index.html"))
    if found is None:
        raise HTTPException(404, "file not found.")
    headers = {"cache-control": "no-cache", "etag": found.tag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    if found.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.compressed, media_type=found.type, headers={**headers, "content-encoding": "gzip"})
    return Response(found.content, media_type=found.type, headers=headers)


def _found(content: Any, name: str, group: str | None) -> Response:
    if content is None:
        of = "" if group is None else f", group {group[:200]}"
        raise HTTPException(404, f"window of query {name!r}{of} not found in the history.")
    return _json(content)


def _json(content: Any, status: int = 200) -> Response:
    return Response(packed(content), status, media_type="application/json", headers=_NO_STORE)


def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code)


def _internal_error(_: Request, error: Exception) -> Response:
    return _json({"error": f"the server failed to answer ({type(error).__name__}). The job continues."}, 500)
