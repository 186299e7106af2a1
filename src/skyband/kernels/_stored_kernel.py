"""Stored forms of one kernel: found by content, and compiled by one process at a time.

The name of a stored file is a digest of all that compiled code depends on, so a file is either right or not found.
Files of kernels that have changed stay behind; those that were not used for a while are deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from types import FunctionType
from typing import Any

from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.compiler import CompileResult

from skyband.kernels import _notice
from skyband.kernels._digest import code_digest, environment, signature_text
from skyband.kernels._shipped import Shipped

__all__ = ["INNER", "KernelCache", "StoredOverload", "delete_unused"]

DAY = 86_400.0
RENEWED = 7 * DAY  # the file time of a kernel in use is renewed after this
UNUSED = 60 * DAY
LOCK_TIMEOUT = 300.0  # seconds to wait for another process; then the kernel is compiled in this one, too
LOCK_POLL = 0.05
INNER = "-inner"  # ends the names of inner code
_STAMP = ""  # numba's stamp of the source; here the name of the file and its key cover it


class KernelCache(NullCache):  # type: ignore[misc]  # numba has no types
    """Loads and stores the forms of one kernel; `unpack` and `pack` turn inner code from and into bitcode."""

    def __init__(
        self,
        function: FunctionType,
        options: dict[str, Any],
        folder: Path,
        shipped: Shipped | None,
        pack: Callable[[Any], Any],
        unpack: Callable[[Any, Any], Any],
    ) -> None:
        self._function, self._options = function, options
        self._folder, self._shipped = folder, shipped
        self._pack, self._unpack = pack, unpack

    @property
    def cache_path(self) -> str:
        """The folder of the store."""
        return str(self._folder)

    @cached_property
    def digest(self) -> str | None:
        """Digest of the code; None if it cannot be computed, so that nothing is stored."""
        return code_digest(self._function, self._options)

    @contextmanager
    def overload(self, args: tuple[Any, ...], target: Any, is_inner: bool) -> Iterator[StoredOverload]:
        """Look up the signature. If it is not stored, other processes wait while the block compiles and saves it."""
        target.refresh()
        rest = ("inner" if is_inner else "entry", signature_text(args))
        found = None
        if self._shipped is not None and not is_inner and self.digest is not None:
            found = self._load(self._shipped.folder, self._shipped.processor, rest, target)
        if found is not None or self.digest is None:
            yield StoredOverload(found, lambda _: None)
            return
        processor = target.codegen().magic_tuple()
        found = self._load(self._folder, processor, rest, target)
        if found is not None:
            yield StoredOverload(found, lambda _: None)
            return
        key, name = self._name(processor, rest)
        with _lock(self._folder / f"{name}.lock", self._folder / f"{name}.1.nbc"):
            found = self._load(self._folder, processor, rest, target)
            yield StoredOverload(found, lambda compiled: self._save(key, name, compiled))

    def _name(self, processor: tuple[str, ...], rest: tuple[str, ...]) -> tuple[str, str]:
        """Return the whole key, and the name of its files."""
        whole = f"{self._function.__module__}.{self._function.__qualname__}"
        key = "\n".join((whole, str(self.digest), environment(), repr(processor), *rest))
        short = ".".join(whole.split(".")[-2:]).replace("<", "").replace(">", "")
        return key, f"{short}-{blake2b(key.encode(), digest_size=12).hexdigest()}{INNER if rest[0] == 'inner' else ''}"

    def _load(self, folder: Path, processor: tuple[str, ...], rest: tuple[str, ...], target: Any) -> Any:
        key, name = self._name(processor, rest)
        try:
            stored = IndexDataCacheFile(str(folder), name, _STAMP).load(key)
            if stored is None:
                return None
            _renew(folder / f"{name}.nbi", folder / f"{name}.1.nbc")
            form, payload = stored
            return self._unpack(target, payload) if form == "inner" else CompileResult._rebuild(target, *payload)
        except Exception:  # a damaged file, whatever the damage: it is compiled and stored again
            with suppress(OSError):
                (folder / f"{name}.nbi").unlink()
            return None

    def _save(self, key: str, name: str, compiled: Any) -> None:
        if compiled.library.has_dynamic_globals or any(not lifted.can_cache for lifted in compiled.lifted):
            return
        packed = self._pack(compiled)
        stored = ("entry", compiled._reduce()) if packed is None else ("inner", packed)
        with suppress(OSError):  # a full disk: the next process compiles it again
            delete_unused(self._folder)
            self._folder.mkdir(parents=True, exist_ok=True)
            IndexDataCacheFile(str(self._folder), name, _STAMP).save(key, stored)


class StoredOverload:
    """A signature's compiled code, if it was stored, and the way to store it."""

    def __init__(self, found: Any, save: Callable[[Any], None]) -> None:
        self.found, self.save = found, save


@cache
def delete_unused(folder: Path) -> None:
    """Delete stored kernels that have not been used for a while; once per process, when it stores the first."""
    limit = time.time() - UNUSED
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                if path.suffix in (".nbi", ".nbc", ".lock") and path.stat().st_mtime < limit:
                    path.unlink()


def _renew(*paths: Path) -> None:
    """Mark the files as used, at most once in a while."""
    with suppress(OSError):
        if paths[0].stat().st_mtime < time.time() - RENEWED:
            for path in paths:
                os.utime(path)


@contextmanager
def _lock(path: Path, awaited: Path) -> Iterator[None]:
    """Hold the lock file, so that no other process compiles the same; return early once `awaited` is there.

    No process waits forever: a kernel is locked before those it calls, and no kernel calls itself. The lock belongs to
    the process, not to its forks, and ends with it.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on every system

        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (ImportError, OSError):
        yield
        return
    try:
        held = False
        began = time.monotonic()
        with _notice.waiting(path.name.partition("-")[0]) as show:
            while not held and time.monotonic() < began + LOCK_TIMEOUT:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    held = True
                except OSError:
                    if awaited.exists():
                        break
                    show()
                    time.sleep(LOCK_POLL)
        yield
        if held:
            with suppress(OSError):
                path.unlink()
    finally:
        os.close(file)
