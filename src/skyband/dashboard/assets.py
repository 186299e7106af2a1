"""The built files of the page. They are read and compressed once, then served from memory."""

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
<p>The page is not built in this copy of Skyband. Run <code>make page</code>. The answers are available at
<code>/api/state</code>, <code>/api/summaries</code> and <code>/api/board?query=</code>.</p></html>
"""


class Asset(NamedTuple):
    """A file with its HTTP content type and entity tag."""

    content: bytes
    compressed: bytes | None  # None if compression does not make it shorter
    type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """Return all files by path. If the page is not built, index.html is a placeholder."""
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
