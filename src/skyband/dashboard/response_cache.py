"""Responses of the read API: bodies with their tags, compressed as a client asks, and cached until answers change."""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import NamedTuple

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

__all__ = ["EXPORTED", "JSON", "Content", "Entry", "ResponseCache", "encoding_of", "respond"]

JSON = "application/json"
EXPORTED = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
CACHED_BYTES = 32 << 20
SMALL = 1024  # bytes; not worth compressing
ENCODINGS = ("zstd", "gzip")  # best first


class Content(NamedTuple):
    """The body of a response."""

    body: bytes
    type: str = JSON


class Entry:
    """A response, and the version of the answers and queries that it shows."""

    def __init__(self, content: Content, version: tuple[int, ...] = ()) -> None:
        self.content, self.version = content, version
        self.tag = f'"{blake2b(content.body, digest_size=12).hexdigest()}"'
        self._encoded: dict[str, bytes] = {}  # compressed when a client first asks for it

    def encoded(self, encoding: str) -> bytes:
        """Return the compressed body."""
        found = self._encoded.get(encoding)
        if found is None:
            body = self.content.body
            found = gzip.compress(body, 4) if encoding == "gzip" else pa.Codec("zstd").compress(body, asbytes=True)
            self._encoded[encoding] = found
        return found

    @property
    def size(self) -> int:
        """The bytes of the body, uncompressed."""
        return len(self.content.body)


class ResponseCache:
    """The newest responses, by request, up to a number of bytes. Thread-safe."""

    def __init__(self, most: int = CACHED_BYTES) -> None:
        self._most, self._bytes = most, 0
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str], version: tuple[int, ...]) -> Entry | None:
        """Return the response to a request if it shows this version."""
        with self._lock:
            found = self._entries.get(key)
            if found is None or found.version != version:
                return None
            self._entries.move_to_end(key)
            return found

    def put(self, key: tuple[str, str], entry: Entry) -> None:
        """Store a response, and drop the ones that were not used for the longest time beyond the limit."""
        with self._lock:
            before = self._entries.pop(key, None)
            self._bytes += entry.size - (0 if before is None else before.size)
            self._entries[key] = entry
            while self._bytes > self._most:
                _, old = self._entries.popitem(last=False)
                self._bytes -= old.size


def encoding_of(accepted: str) -> str | None:
    """Return the best supported encoding that a client accepts; None for the body as it is.

    >>> encoding_of("gzip, deflate, br, zstd"), encoding_of("gzip;q=0.5, zstd;q=0"), encoding_of("br"), encoding_of("*")
    ('zstd', 'gzip', None, None)
    """
    wanted = set()
    for part in accepted.lower().split(","):
        name, _, weight = part.strip().partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            wanted.add(name.strip())
    return next((name for name in ENCODINGS if name in wanted), None)


def respond(request: Request, entry: Entry, *, is_cacheable: bool = True) -> Response:
    """Return a response, without a body if the client has it already."""
    headers = {"vary": "accept, accept-encoding", "cache-control": "no-cache" if is_cacheable else "no-store"}
    if is_cacheable:
        headers["etag"] = entry.tag
    if entry.content.type in EXPORTED.values():
        kind = request.query_params.get("format", "")
        headers["content-disposition"] = f'attachment; filename="answers.{kind}"'
    if is_cacheable and entry.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    encoding = encoding_of(request.headers.get("accept-encoding", "")) if entry.size > SMALL else None
    if encoding is not None:
        headers["content-encoding"] = encoding
    body = entry.content.body if encoding is None else entry.encoded(encoding)
    return Response(body, media_type=entry.content.type, headers=headers)
