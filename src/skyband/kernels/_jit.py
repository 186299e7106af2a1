"""The one place that says how kernels are compiled, and where the compiled code is kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

_HERE = Path(__file__).parent


def _stamp() -> str:
    """What the kernels' sources look like: changes when any of them does."""
    sources = sorted(_HERE.glob("*.py"))
    looks = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    return blake2b(repr(looks).encode(), digest_size=8).hexdigest()


def _settle_cache() -> None:
    """Make sure that no compiled kernel is older than a kernel it calls.

    numba compares a cached kernel with its own file only, while kernels are compiled together with those they call.
    So all of them are dropped when any source has changed: an upgrade, an edit.
    """
    stamp = _stamp()
    if not os.access(_HERE, os.W_OK):  # a system install, an executor's archive
        cache = Path(tempfile.gettempdir()) / f"skyband-kernels-{os.getuid()}-{stamp}"
        os.environ.setdefault("NUMBA_CACHE_DIR", str(cache))
        return
    cache = _HERE / "__pycache__"
    mark = cache / "kernels.stamp"
    with suppress(OSError):
        if mark.exists() and mark.read_text() == stamp:
            return
        cache.mkdir(exist_ok=True)
        for compiled in (*cache.glob("*.nbi"), *cache.glob("*.nbc")):
            compiled.unlink(missing_ok=True)
        mark.write_text(stamp)


_settle_cache()

from numba import njit

__all__ = ["allocating_kernel", "inner_kernel", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}


def kernel(function: F) -> F:
    """Compile `function` on first use and keep the result on disk.

    No fastmath: it would let the compiler assume that there is no infinity, and ranks hang on exact comparisons.
    No reference counts (``_nrt=False``): kernels get tuples of arrays, and counting who holds them costs several atomic
    instructions a call, more than the work itself. In return a kernel must not allocate.
    No recursion: a kernel that calls itself does not survive being loaded from the cache.
    """
    return cast("F", njit(**_OPTIONS | {"_nrt": False})(function))


def inner_kernel(function: F) -> F:
    """The same for a function that is called for single objects: it becomes a part of every kernel that calls it.

    A call hands over every array of a tuple by value, seven words each. That may take longer than the function itself.
    """
    return cast("F", njit(**_OPTIONS | {"_nrt": False, "forceinline": True})(function))


def allocating_kernel(function: F) -> F:
    """The same for a function that makes arrays; once a batch is fine, once an object is not."""
    return cast("F", njit(**_OPTIONS)(function))
