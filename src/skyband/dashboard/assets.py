"""The files of the page as they were built: read once, compressed once, sent from memory."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

__all__ = ["Asset", "assets"]

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_UNBUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Skyband</title>
<p>The page has not been built in this copy of Skyband: run <code>make page</code>. The answers are at
<code>/api/state</code>, <code>/api/summaries</code> and <code>/api/board?query=</code>.</p></html>
"""


class Asset(NamedTuple):
    """A file, with what a browser wants to know of it."""

    content: bytes
    compressed: bytes | None  # None: it would not be shorter
    type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """All files by their path in the folder; where nothing was built, a page that says so."""
    found = dict(_read(files("skyband.dashboard") / "assets", ""))
    found.setdefault("index.html", _asset("index.html", _UNBUILT))
    return found


def _read(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    if not folder.is_dir():
        return []
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _read(entry, f"{prefix}{entry.name}/")
        elif not entry.name.startswith("."):
            found.append((f"{prefix}{entry.name}", _asset(entry.name, entry.read_bytes())))
    return found


def _asset(name: str, content: bytes) -> Asset:
    ending = name[name.rfind(".") :] if "." in name else ""
    kind = _TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    compressed = gzip.compress(content, 9, mtime=0)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, compressed if len(compressed) < 0.9 * len(content) else None, kind, tag)
