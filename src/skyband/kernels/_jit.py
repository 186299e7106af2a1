"""Decorators that compile kernels."""

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
_NUMBA: Any = config  # its attributes are created when it is loaded
_OPTIONS: dict[str, Any] = {"nogil": True}


def kernel(function: F) -> F:
    """Compile `function` on first use and store the result on disk.

    No fastmath: it would let the compiler assume that there is no infinity, and ranks depend on exact comparisons.
    No reference counts (``_nrt=False``): kernels get tuples of arrays, and reference counting costs several atomic
    instructions per call, more than the work itself. In return a kernel must not allocate.
    No recursion: a kernel that calls itself fails when it is loaded from the cache.
    """
    return _compiled(function, _nrt=False)


def inner_kernel(function: F) -> F:
    """Compile a function that is called once per object: it is inlined into every kernel that calls it.

    A call passes every array of a tuple by value, seven words each. That may take longer than the function itself.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def allocating_kernel(function: F) -> F:
    """Compile a function that allocates arrays. Call it once per batch, not once per object."""
    return _compiled(function)


def _compiled(function: F, **options: Any) -> F:
    """Compile the function with numba and store the result only in the kernel store."""
    if STORE.folder is None:
        return cast("F", njit(**_OPTIONS, **options)(function))
    # numba reads the folder while it decorates. It is set for our kernels only: the program may have others.
    before = _NUMBA.CACHE_DIR
    _NUMBA.CACHE_DIR = str(STORE.folder)
    try:
        made = njit(**_OPTIONS, **options, cache=True)(function)
    except RuntimeError:  # numba has no writable folder
        made = None
    finally:
        _NUMBA.CACHE_DIR = before
    # If numba cannot write there, it chooses another folder, without our checks.
    if made is None or (hasattr(made, "stats") and not _is_in_store(made.stats.cache_path)):
        made = njit(**_OPTIONS, **options)(function)
    return cast("F", made)


@cache
def _is_in_store(path: str) -> bool:
    folder = STORE.folder
    return folder is not None and folder.samefile(Path(path).parent)
