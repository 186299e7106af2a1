"""What a request asks about, read from its address: strictly, with a plain reason where it cannot be."""

from __future__ import annotations

import json
import re

from starlette.exceptions import HTTPException
from starlette.requests import Request

from skyband.dashboard import boards
from skyband.dashboard.wire import group_key

__all__ = ["group_of", "moment_in", "number_of", "query_of", "watched_of"]

MOST_WATCHED = 200


def query_of(request: Request) -> str:
    """The query that a request is about."""
    name = request.query_params.get("query")
    if not name:
        raise HTTPException(400, "query is missing; say which one, by its name.")
    return name


def group_of(request: Request) -> str | None:
    """The group that it is about; None: none was given, or null."""
    text = request.query_params.get("group")
    return None if text is None else _group_key(text)


def _group_key(text: str) -> str | None:
    """A group as it was sent: null, or the list of its values."""
    try:
        found = json.loads(text)
        if isinstance(found, list | None):
            return None if found is None else group_key(found)
    except (ValueError, RecursionError):
        pass
    raise HTTPException(400, f"group {text[:80]!r} must be a list of values in JSON.")


def moment_in(request: Request) -> int | None:
    """The moment that it is about; None: the newest."""
    text = request.query_params.get("moment")
    try:
        return None if text is None else boards.moment_of(text)
    except (ValueError, OverflowError):
        raise HTTPException(
            400, f"moment {str(text)[:80]!r} is no time such as 2024-01-01T09:30:00+00:00, nor a whole number."
        ) from None


def number_of(request: Request, name: str, default: int, most: int) -> int:
    """A whole number of a request, from 1 to `most`."""
    text = request.query_params.get(name, str(default))
    # Digits of other scripts are digits to Python, and so is a superscript that it cannot read.
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        raise HTTPException(400, f"{name} {text[:80]!r} must be a whole number in 1..{most:,}.")
    return int(text)


def watched_of(request: Request) -> list[tuple[str, str | None]]:
    """The boards that a listener wants to be told of."""
    try:
        found = json.loads(request.query_params.get("watch", "[]"))
        pairs = [(name, None if group is None else group_key(group)) for name, group in found]
        if not all(isinstance(name, str) and isinstance(group, list | None) for name, group in found):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise HTTPException(400, "watch must be a list of [query, group] in JSON; group is a list or null.") from None
    if len(pairs) > MOST_WATCHED:
        raise HTTPException(400, f"{len(pairs)} boards are too many to follow at once; watch at most {MOST_WATCHED}.")
    return list(dict.fromkeys(pairs))
