"""The one place that says how kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import config

from skyband.kernels import _notice
from skyband.kernels._cache import kernel_store

__all__ = ["STORE", "allocating_kernel", "inner_kernel", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

STORE = kernel_store()
_notice.install(kept=STORE.kept)
_NUMBA: Any = config  # its names are made when it is loaded
_OPTIONS: dict[str, Any] = {"nogil": True}


def kernel(function: F) -> F:
    """Compile `function` on first use and keep the result on disk.

    No fastmath: it would let the compiler assume that there is no infinity, and ranks hang on exact comparisons.
    No reference counts (``_nrt=False``): kernels get tuples of arrays, and counting who holds them costs several atomic
    instructions a call, more than the work itself. In return a kernel must not allocate.
    No recursion: a kernel that calls itself does not survive being loaded from the cache.
    """
    return _compiled(function, _nrt=False)


def inner_kernel(function: F) -> F:
    """The same for a function that is called for single objects: it becomes a part of every kernel that calls it.

    A call hands over every array of a tuple by value, seven words each. That may take longer than the function itself.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def allocating_kernel(function: F) -> F:
    """The same for a function that makes arrays; once a batch is fine, once an object is not."""
    return _compiled(function)


def _compiled(function: F, **options: Any) -> F:
    """The function as numba compiles it, with the result kept in the store and nowhere else."""
    if STORE.folder is None:
        return cast("F", njit(**_OPTIONS, **options)(function))
    # numba asks for the folder while it decorates. It is set for our kernels only: a program may have some of its own.
    before = _NUMBA.CACHE_DIR
    _NUMBA.CACHE_DIR = str(STORE.folder)
    try:
        made = njit(**_OPTIONS, **options, cache=True)(function)
    except RuntimeError:  # numba can write nowhere
        made = None
    finally:
        _NUMBA.CACHE_DIR = before
    # Where numba cannot write, it looks for another folder, by rules that are not ours.
    if made is None or (hasattr(made, "stats") and not _is_in_store(made.stats.cache_path)):
        made = njit(**_OPTIONS, **options)(function)
    return cast("F", made)


@cache
def _is_in_store(path: str) -> bool:
    folder = STORE.folder
    return folder is not None and folder.samefile(Path(path).parent)
