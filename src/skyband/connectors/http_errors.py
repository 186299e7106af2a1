"""Which errors of an HTTP request may pass."""

from __future__ import annotations

import http.client
import urllib.error

__all__ = ["transient_reason"]


def transient_reason(error: Exception) -> str | None:
    """Return why an error may pass; None if the server rejects the request.

    >>> transient_reason(urllib.error.HTTPError("", 503, "", None, None))
    'status 503'
    >>> transient_reason(urllib.error.HTTPError("", 404, "", None, None)) is None
    True
    """
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code}" if error.code >= 500 or error.code in (408, 425, 429) else None
    if isinstance(error, OSError):  # no connection, reset, timeout, or a name that cannot be resolved
        return str(getattr(error, "reason", error)) or type(error).__name__
    return type(error).__name__ if isinstance(error, http.client.HTTPException) else None
