"""A client of the read API of a run, or of `skyband serve`."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import InvalidInputError, PipelineError, UnknownNameError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Client"]

ARROW = "application/vnd.apache.arrow.stream"
WAIT = 20  # seconds that the server holds back a response without changes


class Client:
    """Reads answers from the server at `url`, for example that of `skyband run --page` or `skyband serve`.

    `token` is required if the server listens on an address other than loopback. A URL with `#token=…`, as the run
    prints it, contains it already. Groups are lists of values. Moments are the ends of windows: times or positions.

    >>> client = Client("http://127.0.0.1:8765/#token=abc")
    >>> client.url
    'http://127.0.0.1:8765'
    >>> client.window("big", group=["AAPL"])["rows"][0]["score"]  # doctest: +SKIP
    191.5
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 60) -> None:
        base, _, fragment = url.partition("#")
        if not base.startswith(("http://", "https://")):
            raise InvalidInputError(f"url must start with http:// or https://, got {url!r}.")
        self.url = base.rstrip("/")
        self._token = token or dict(urllib.parse.parse_qsl(fragment)).get("token")
        self._timeout = timeout

    def queries(self) -> list[dict[str, Any]]:
        """Return the queries with their columns and newest windows."""
        found: list[dict[str, Any]] = self._get("queries")["queries"]
        return found

    def window(self, query: str, group: Sequence[Any] | None = None, moment: str | int | None = None) -> dict[str, Any]:
        """Return a window with its rows, best first; by default the newest."""
        return self._get("window", query=query, group=group, moment=moment)

    def windows(self, query: str, group: Sequence[Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the windows of the server's history without their rows, newest first."""
        before = None
        while True:
            page = self._get("windows", query=query, group=group, before=before)
            yield from page["windows"]
            before = page["next"]
            if before is None:
                return

    def groups(self, query: str, like: str = "") -> Iterator[list[Any]]:
        """Yield the groups of a query whose values contain `like`."""
        skip = 0
        while skip is not None:
            page = self._get("groups", query=query, like=like, skip=skip)
            yield from page["groups"]
            skip = page["next"]

    def answers(
        self,
        query: str,
        group: Sequence[Any] | None = None,
        start: str | int | None = None,
        end: str | int | None = None,
    ) -> pa.Table:
        """Return the rows of all windows whose moments are between `start` and `end`, as an Arrow table.

        The metadata of its schema has ``dropped``: how many windows between them the server cannot read any more.
        """
        import pyarrow as pa  # noqa: PLC0415 - other methods do not need it

        tables, dropped = [], 0
        while True:
            asked = {"query": query, "group": group, "from": start, "to": end}
            with self._open("answers", asked, ARROW) as response:
                tables.append(pa.ipc.open_stream(response.read()).read_all())
            notes = tables[-1].schema.metadata or {}
            start, dropped = notes.get(b"next", b"").decode() or None, dropped + int(notes.get(b"dropped", 0))
            if start is None:
                plain = [one.replace_schema_metadata() for one in tables]
                whole = pa.concat_tables(plain, promote_options="permissive")
                return whole.replace_schema_metadata({"dropped": str(dropped)})

    def rank(
        self,
        query: str,
        entity: Any,
        group: Sequence[Any] | None = None,
        moment: str | int | None = None,
        neighbours: int = 2,
    ) -> dict[str, Any]:
        """Return the rank of an entity in a window with the rows around it; the rank is None if it is not in it."""
        return self._get("rank", query=query, id=_id(entity), group=group, moment=moment, neighbours=neighbours)

    def ranks(
        self, query: str, entity: Any, group: Sequence[Any] | None = None, last: int = 100
    ) -> list[dict[str, Any]]:
        """Return the rank and score of an entity in the newest windows, oldest first.

        ``dropped`` of each is the number of windows directly before it that the server cannot read any more.
        """
        found: list[dict[str, Any]] = self._get("ranks", query=query, id=_id(entity), group=group, last=last)["windows"]
        return found

    def follow(self, query: str | None = None, since: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield each new window with its rows as it is answered, from now on or since a cursor; ends with the run.

        A window can be yielded again if it was answered again. Raises PipelineError if changes were lost, because the
        server was restarted or this reader was too slow.
        """
        cursor = since or self._get("changes")["cursor"]
        while True:
            found = self._get("changes", since=cursor, query=query, wait=WAIT)
            yield from found["changes"]
            cursor = found["cursor"]
            if not found["changes"] and self._get("queries")["ended"]:
                return

    def _get(self, name: str, **params: Any) -> dict[str, Any]:
        with self._open(name, params, "application/json") as response:
            found: dict[str, Any] = json.load(response)
            return found

    def _open(self, name: str, params: dict[str, Any], accept: str) -> Any:
        given = {
            key: json.dumps(list(value), default=str) if key == "group" else value
            for key, value in params.items()
            if value is not None
        }
        request = urllib.request.Request(f"{self.url}/api/v1/{name}?{urllib.parse.urlencode(given)}")
        request.add_header("Accept", accept)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            return urllib.request.urlopen(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise _error_of(error.code, error.read()) from None
        except OSError as error:
            raise PipelineError(f"cannot reach {self.url} ({getattr(error, 'reason', error)}).") from error


def _id(entity: Any) -> str:
    """Return an id as the server writes it: a text as it is, other values as JSON."""
    return entity if isinstance(entity, str) else json.dumps(entity, default=str)


def _error_of(status: int, content: bytes) -> Exception:
    try:
        why = str(json.loads(content)["error"])
    except (ValueError, TypeError, KeyError):
        why = f"the server answered with status {status}."
    kinds = {400: InvalidInputError, 404: UnknownNameError}
    return kinds.get(status, PipelineError)(why)
