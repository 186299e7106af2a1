"""Decorators that compile kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from numba.core import config

from skyband.kernels import _notice
from skyband.kernels._cache import kernel_store
from skyband.kernels._dispatcher import KernelDispatcher
from skyband.kernels._shipped import shipped_kernels

__all__ = ["STORE", "allocating_kernel", "inner_kernel", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

STORE = kernel_store()
_notice.install(kept=STORE.kept)
_NUMBA: Any = config  # its attributes are created when it is loaded
_OPTIONS: dict[str, Any] = {"nopython": True, "nogil": True}


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
    if _NUMBA.DISABLE_JIT:
        return function
    made = KernelDispatcher(cast("FunctionType", function), targetoptions={**_OPTIONS, **options})
    if STORE.folder is not None:
        made.store_in(STORE.folder, shipped_kernels())
    return cast("F", made)
