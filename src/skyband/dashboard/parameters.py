"""The parameters of HTTP requests to the dashboard: each is parsed and validated here."""

from __future__ import annotations

import json
import re

from starlette.exceptions import HTTPException
from starlette.requests import Request

from skyband.dashboard import boards
from skyband.dashboard.wire import group_key

__all__ = ["group_of", "moment_in", "number_of", "query_of", "text_of", "watched_of"]

MOST_WATCHED = 200


def query_of(request: Request) -> str:
    """Return the name of the query that a request selects."""
    return text_of(request, "query", "the name of a query")


def text_of(request: Request, name: str, what: str) -> str:
    """Return a parameter that must be given and not be empty. `what` says what to set it to."""
    found = request.query_params.get(name)
    if not found:
        raise HTTPException(400, f"the parameter {name} is missing. Set it to {what}.")
    return found


def group_of(request: Request) -> str | None:
    """Return the key of the requested group; None if the parameter is missing or null."""
    text = request.query_params.get("group")
    return None if text is None else _group_key(text)


def _group_key(text: str) -> str | None:
    """Return the key of a group that was sent as JSON: null, or the list of its values."""
    try:
        found = json.loads(text)
        if isinstance(found, list | None):
            return None if found is None else group_key(found)
    except (ValueError, RecursionError):
        pass
    raise HTTPException(400, f"group must be a JSON list of values, got {text[:80]!r}.")


def moment_in(request: Request, name: str = "moment") -> int | None:
    """Return the requested moment; None if the parameter is missing."""
    text = request.query_params.get(name)
    try:
        return None if text is None else boards.moment_of(text)
    except (ValueError, OverflowError):
        raise HTTPException(
            400, f"{name} must be a time such as 2024-01-01T09:30:00+00:00 or an integer, got {str(text)[:80]!r}."
        ) from None


def number_of(request: Request, name: str, default: int, most: int, least: int = 1) -> int:
    """Return an integer parameter, which must be between `least` and `most`."""
    text = request.query_params.get(name, str(default))
    # str.isdigit accepts digits of other scripts, and superscripts that int() rejects.
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise HTTPException(400, f"{name} must be an integer between {least:,} and {most:,}, got {text[:80]!r}.")
    return int(text)


def watched_of(request: Request) -> list[tuple[str, str | None]]:
    """Return the boards that a listener subscribes to."""
    try:
        found = json.loads(request.query_params.get("watch", "[]"))
        pairs = [(name, None if group is None else group_key(group)) for name, group in found]
        if not all(isinstance(name, str) and isinstance(group, list | None) for name, group in found):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise HTTPException(
            400, "watch must be a JSON list of [query, group] pairs, where group is a list or null."
        ) from None
    if len(pairs) > MOST_WATCHED:
        raise HTTPException(400, f"watch must have at most {MOST_WATCHED} boards, got {len(pairs)}.")
    return list(dict.fromkeys(pairs))
