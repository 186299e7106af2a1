"""The OpenAPI document of the read API."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from skyband import __version__
from skyband.dashboard.response_cache import EXPORTED, JSON

__all__ = ["ARROW", "FORMATS", "openapi"]

ARROW = "application/vnd.apache.arrow.stream"
FORMATS = ("json", "arrow", *EXPORTED)  # of `answers`
_OTHERS: dict[str, dict[str, Any]] = {  # types that have no example
    ARROW: {},
    EXPORTED["csv"]: {"schema": {"type": "string"}},
    EXPORTED["parquet"]: {},
}


class _Parameter(NamedTuple):
    """A parameter of a route."""

    name: str
    text: str
    example: Any
    required: bool = False
    kind: str = "string"
    values: tuple[str, ...] = ()  # all of them, if they are few


class _Operation(NamedTuple):
    """A route: what it returns, its parameters, and an example of its response."""

    summary: str
    text: str
    parameters: tuple[_Parameter, ...]
    example: Any
    types: tuple[str, ...] = (JSON,)
    failures: tuple[str, ...] = ("400", "404")  # besides those that all routes have
    is_cacheable: bool = True  # whether it has an ETag


_QUERY = _Parameter("query", "The name of a query.", "big", required=True)
_ONE_QUERY = _Parameter("query", "Only windows of this query.", "big")
_GROUP = _Parameter(
    "group", "A group as a JSON list of its values. Without it, the group with the newest answer.", '["AAPL"]'
)
_MOMENT = _Parameter(
    "moment", "The end of a window: a time, or a position. Without it, the newest.", "2024-01-01T09:30:00+00:00"
)
_ID = _Parameter("id", "The id of an entity, as the rows have it.", "t-17", required=True)
_SINCE = _Parameter("since", "The cursor of an earlier response.", "5f0c9a12-40")


def _limit(text: str) -> _Parameter:
    return _Parameter("limit", text, 100, kind="integer")


_ROW = {"rank": 1, "score": 191.5, "trade_id": "t-17", "price": 191.5}
_WINDOW = {
    "query": "big",
    "group": ["AAPL"],
    "moment": "2024-01-01T09:30:00+00:00",
    "start": "2024-01-01T09:20:00+00:00",
    "is_newest": True,
}
_OPERATIONS = {
    "queries": _Operation(
        "The queries",
        "All queries with their columns and newest window, and the cursor from which changes can be followed.",
        (),
        {
            "queries": [
                {
                    "name": "big",
                    "stream": "trades",
                    "k": 3,
                    "groups": ["symbol"],
                    "label": None,
                    "newest": _WINDOW["moment"],
                }
            ],
            "ended": False,
            "cursor": "5f0c9a12-40",
        },
        failures=(),
    ),
    "window": _Operation(
        "One window",
        "The newest window or the window of a moment, with its rows, best first.",
        (_QUERY, _GROUP, _MOMENT),
        {**_WINDOW, "rows": [_ROW]},
    ),
    "windows": _Operation(
        "The windows in the history",
        "The moments of the windows, newest first. `dropped` more cannot be read. `next` is the value of "
        "`before` for the next page.",
        (_QUERY, _GROUP, _limit("Windows per page."), _Parameter("before", "Only windows before it.", "500")),
        {
            "windows": [{"moment": _WINDOW["moment"], "start": _WINDOW["start"], "rows": 3}],
            "total": 1,
            "dropped": 0,
            "next": None,
        },
    ),
    "groups": _Operation(
        "The groups of a query",
        "The groups with the newest answers first. `next` is the value of `skip` for the next page.",
        (
            _QUERY,
            _Parameter("like", "Only groups that contain this text.", "AA"),
            _limit("Groups per page."),
            _Parameter("skip", "Groups before the page.", 0, kind="integer"),
        ),
        {"groups": [["AAPL"]], "total": 1, "next": None},
    ),
    "answers": _Operation(
        "The rows of several windows",
        "All columns of the rows, oldest window first; as an Arrow stream if the request accepts it. `next` is the "
        "value of `from` for the next page, and `dropped` the number of windows before the returned ones that cannot "
        "be read; an Arrow stream has both in the metadata of its schema.",
        (
            _QUERY,
            _GROUP,
            _Parameter("from", "The first moment.", _WINDOW["moment"]),
            _Parameter("to", "The last moment.", _WINDOW["moment"]),
            _Parameter("format", "The type of the response. Default: json.", "csv", values=FORMATS),
            _limit("Windows per page."),
        ),
        {"columns": ["query", "rank", "score"], "rows": [["big", 1, 191.5]], "next": None, "dropped": 0},
        (JSON, ARROW, *EXPORTED.values()),
    ),
    "rank": _Operation(
        "The rank of one entity",
        "Its rank in a window with the rows around it. The rank is null if the entity is not among the k best; `last` "
        "then has the score that it did not reach.",
        (_QUERY, _ID, _GROUP, _MOMENT, _Parameter("neighbours", "Rows on each side.", 2, kind="integer")),
        {**_WINDOW, "id": "t-17", "label": None, "of": 3, "rank": 1, "row": _ROW, "neighbours": [], "last": _ROW},
    ),
    "ranks": _Operation(
        "The ranks of one entity over time",
        "Its rank and score in the newest windows, oldest first; null where it is not among the k best. `dropped` is "
        "the number of windows that cannot be read, in total and directly before each window.",
        (_QUERY, _ID, _GROUP, _Parameter("last", "The number of windows.", 100, kind="integer")),
        {
            "query": "big",
            "id": "t-17",
            "windows": [{"moment": _WINDOW["moment"], "rank": 1, "score": 191.5, "dropped": 0}],
            "dropped": 0,
        },
    ),
    "changes": _Operation(
        "Windows that are new since a cursor",
        "Without `since`, returns only the current cursor. With `wait`, an empty response is held back until answers "
        "arrive or the seconds are over. A window that was answered again is returned again.",
        (
            _SINCE,
            _ONE_QUERY,
            _limit("Windows per response."),
            _Parameter("wait", "Seconds to wait for changes.", 20, kind="integer"),
        ),
        {"changes": [{**_WINDOW, "rows": [_ROW]}], "cursor": "5f0c9a12-41", "more": False},
        failures=("400", "404", "410"),
        is_cacheable=False,
    ),
    "events": _Operation(
        "New windows as server-sent events",
        "An event `window` for each new window, `end` when the run has ended, `lost` if the reader was too slow. "
        "The id of an event is a cursor, which `Last-Event-ID` or `since` continues.",
        (_SINCE, _ONE_QUERY),
        'event: window\ndata: {"query": "big"}\n\n',
        ("text/event-stream",),
        failures=("400", "404", "410"),
        is_cacheable=False,
    ),
}
_FAILURES = {
    "400": "A parameter is missing or wrong, or the response would be too large.",
    "403": "The token is missing or wrong, or the request came from another site.",
    "404": "No such query, group or window.",
    "410": "The cursor is too old: the server was restarted, or the reader was too slow.",
    "421": "The host name does not belong to the server.",
    "500": "The server failed to answer. The run continues.",
    "503": "Too many connections, or too many waiting readers. Try again later.",
}
_OF_ALL = ("403", "421", "500", "503")


@cache
def openapi() -> dict[str, Any]:
    """Return the OpenAPI document.

    >>> sorted(openapi()["paths"])[:2]
    ['/api/v1/answers', '/api/v1/changes']
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Skyband answers",
            "version": __version__,
            "description": "Reads the answers of continuous top-k queries. Routes under /api/v1 keep their meaning.",
        },
        "paths": {f"/api/v1/{name}": {"get": _get(name, one)} for name, one in _OPERATIONS.items()},
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-skyband-token"},
            },
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {"error": {"type": "string"}},
                }
            },
        },
        "security": [{}, {"token": []}, {"header": []}],
    }


def _get(name: str, one: _Operation) -> dict[str, Any]:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    content = {kind: {"example": one.example} if kind == one.types[0] else _OTHERS[kind] for kind in one.types}
    unchanged = {"304": {"description": "The ETag of If-None-Match is that of the response."}}
    return {
        "operationId": name,
        "summary": one.summary,
        "description": one.text,
        "parameters": [
            {
                "name": parameter.name,
                "in": "query",
                "required": parameter.required,
                "description": parameter.text,
                "schema": {"type": parameter.kind, **({"enum": list(parameter.values)} if parameter.values else {})},
                "example": parameter.example,
            }
            for parameter in one.parameters
        ],
        "responses": {
            "200": {"description": one.summary, "content": content},
            **(unchanged if one.is_cacheable else {}),
            **{
                status: {"description": _FAILURES[status], "content": error}
                for status in sorted((*one.failures, *_OF_ALL))
            },
        },
    }
