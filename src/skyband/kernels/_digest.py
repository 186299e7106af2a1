"""What a compiled kernel depends on, as a digest of contents: its own code, the kernels it calls, its constants.

numba compiles a function's bytecode and reads its global names while it does so. The digest covers exactly these, so a
comment or an edit of another kernel leaves it as it is, and neither file times nor the place of the package matter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from pkgutil import get_data
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core import types as numba_types

__all__ = ["code_digest", "environment", "signature_text"]

_COMPILING = ("_dispatcher.py", "_jit.py", "_prefetch.py", "_stored_kernel.py")  # how kernels are compiled and stored
_PACKAGE = "skyband"
_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "FULL_TRACEBACKS")


_TYPES: Any = numba_types  # its stubs lack most of it


class _UnknownError(Exception):
    """A name refers to something whose content this module cannot describe."""


def code_digest(function: FunctionType, options: dict[str, Any]) -> str | None:
    """Return a digest of a kernel's code, its compiler options, and all that its names refer to.

    If a name refers to something of unknown content, the digest covers the text of all kernels instead. None if that
    cannot be read, because the package is in an archive: such a kernel must not be stored.
    """
    parts = [repr(sorted(options.items()))]
    try:
        parts += _function(function, set())
    except _UnknownError as unknown:
        sources = _all_sources()
        if sources is None or not function.__module__.startswith(f"{_PACKAGE}."):
            return None
        parts += [str(unknown), function.__module__, function.__qualname__, sources]
    return _digest(parts)


@cache
def environment() -> str:
    """Return the versions and settings that compiled code depends on; numba's code generator knows the processor."""
    sources = _digest([(get_data(__package__, name) or b"").hex() for name in _COMPILING])
    versions = (sources, sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)
    settings: Any = config
    return repr((versions, [(name, getattr(settings, name, None)) for name in _SETTINGS]))


def signature_text(arguments: tuple[Any, ...]) -> str:
    """Return the argument types as text; named tuples of one name and different modules differ."""
    return ", ".join(map(_type_text, arguments))


def _type_text(given: Any) -> str:
    inner = ", ".join(map(_type_text, given.types)) if isinstance(given, _TYPES.BaseTuple) else ""
    if isinstance(given, _TYPES.BaseNamedTuple):
        owner = given.instance_class
        return f"{owner.__module__}.{owner.__qualname__}{given.fields}({inner})"
    return f"{type(given).__name__}({inner})" if inner else f"{type(given).__name__}:{given}"


def _function(function: FunctionType, seen: set[FunctionType]) -> Iterator[str]:
    """Yield what the function's compiled form depends on, each function once."""
    if function in seen:
        return
    seen.add(function)
    yield function.__qualname__
    yield repr((function.__defaults__, function.__kwdefaults__))
    yield from _code(function.__code__, function.__doc__)
    names = sorted(set(_names(function.__code__)))
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        yield f"cell {name}"
        yield from _value(cell.cell_contents, names, seen)
    for name in names:
        if name in function.__globals__:
            yield f"global {name}"
            yield from _value(function.__globals__[name], names, seen)


def _code(code: CodeType, doc: str | None = None) -> Iterator[str]:
    """Yield the parts of a code object that the compiler reads; not line numbers and the docstring."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags, code.co_argcount))
    yield getattr(code, "co_exceptiontable", b"").hex()
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif isinstance(constant, frozenset):
            yield f"frozenset {sorted(map(repr, constant))}"
        elif place or doc is None or constant != doc:  # a docstring is the first constant
            yield f"{type(constant).__name__} {constant!r}"


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _value(value: Any, names: list[str], seen: set[FunctionType]) -> Iterator[str]:
    """Yield the content of a global; `names` are all names of the function, among them attributes of modules."""
    function = getattr(value, "py_func", value)
    if isinstance(function, FunctionType):
        if not function.__module__.startswith(f"{_PACKAGE}."):
            raise _UnknownError(f"{function.__module__}.{function.__qualname__}")
        yield repr(sorted(getattr(value, "targetoptions", {}).items()))
        yield from _function(function, seen)
    elif isinstance(value, ModuleType):
        yield value.__name__
        if value.__name__.startswith(_PACKAGE):
            for name in names:
                if hasattr(value, name):
                    yield f"{value.__name__}.{name}"
                    yield from _value(getattr(value, name), names, seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str} {value.shape} {_digest([value.tobytes().hex()])}"
    elif isinstance(value, type) and (hasattr(value, "_fields") or value.__module__ in ("builtins", "numpy")):
        fields = getattr(value, "_fields", ()), getattr(value, "_field_defaults", {})
        yield f"{value.__module__}.{value.__qualname__} {fields}"
    elif isinstance(value, tuple):
        yield f"tuple of {len(value)}"
        for part in value:
            yield from _value(part, names, seen)
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        yield f"{type(value).__name__} {value!r}"
    elif getattr(value, "__module__", None) == f"{_PACKAGE}.kernels._prefetch":
        yield "prefetch"  # its file is one of those that define how kernels are compiled
    elif isinstance(value, BuiltinFunctionType | np.ufunc | np.dtype):
        yield repr(getattr(value, "__name__", value))
    else:
        raise _UnknownError(f"{type(value).__module__}.{type(value).__qualname__}")


@cache
def _all_sources() -> str | None:
    """Return a digest of the texts of all kernels: what a kernel with an unknown name depends on at most."""
    package = Path(__file__).parents[1]
    files = sorted(package.glob("**/kernels/*.py"))
    if not files:
        return None
    return _digest([text for file in files for text in (os.fspath(file.relative_to(package)), file.read_text("utf-8"))])


def _digest(parts: list[str]) -> str:
    found = blake2b(digest_size=12)
    for part in parts:
        text = part.encode()
        found.update(len(text).to_bytes(8, "little") + text)
    return found.hexdigest()
