"""Report that kernels are being compiled, because a first use takes seconds.

On a terminal, a line on stderr shows which kernel is compiled and how many are done, once compiling has taken more than
a second in this process. The line is cleared when the kernels are ready. Elsewhere nothing is printed. The logger
``skyband.kernels`` logs the first compilation at level INFO, and each kernel at level DEBUG.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

from numba.core import event

__all__ = ["announce", "at_first_compilation", "compiled_kernels", "following", "install", "silence", "waiting"]

_LOG = logging.getLogger("skyband.kernels")
_LINE = "skyband: compiling kernels, first use only{}"
PATIENCE = 1.0  # seconds of compiling before a line is shown
REDRAWN = 0.1  # seconds
_CLEAR = "\r\x1b[K"


class _Listener(event.Listener):  # type: ignore[misc]  # numba has no types
    """Receives numba's compile events; loading a stored kernel causes none."""

    def __init__(self) -> None:
        self.is_reported = False
        self.is_silent = False
        self.always = False
        self.later_uses = ""
        self.done = 0
        self.followers: list[Callable[[str], None]] = []
        self.at_first: list[Callable[[], None]] = []
        self._names: list[str] = []  # being compiled, the outermost first
        self._spent = 0.0  # seconds, in compilations that have ended
        self._began = 0.0
        self._drawn: float | None = None  # when the line was drawn; None: it is not there

    def on_start(self, started: Any) -> None:
        """Report the first compilation of a Skyband kernel in this process, and show the kernel."""
        name = _name_of(started)
        if name is None:
            return
        if not self._names:
            self._began = perf_counter()
        self._names.append(name)
        if not self.is_reported:
            self.is_reported = True
            line = _LINE.format(self.later_uses)
            _LOG.info(line)
            if self.always and not self.is_silent and not _is_terminal():
                _write(f"{line}\n")
            for call in self.at_first:
                call()
        self._show(name)

    def on_end(self, ended: Any) -> None:
        """Count the kernel; clear the line when the outermost is ready."""
        name = _name_of(ended)
        if name is None or not self._names:
            return
        self._names.pop()
        self.done += 1
        _LOG.debug("compiled %s", name)
        if self._names:
            self._show(self._names[-1])
            return
        self._spent += perf_counter() - self._began
        self.end_wait()

    def _show(self, name: str) -> None:
        """Draw the line, if it is time."""
        now = perf_counter()
        if self._spent + now - self._began >= PATIENCE:
            self._draw(f"compiling kernels, first use only: {self.done} done, now {name}", now)

    def wait(self, name: str, began: float) -> None:
        """Show that another process compiles a kernel, if it takes long."""
        now = perf_counter()
        if now - began >= PATIENCE:
            self._draw(f"waiting for another process that compiles {name}", now)

    def end_wait(self) -> None:
        """Clear the line, unless this process compiles."""
        if self._drawn is not None and not self._names:
            self._drawn = None
            _write(_CLEAR)

    def _draw(self, text: str, now: float) -> None:
        if self._drawn is not None and now - self._drawn < REDRAWN:
            return
        for follower in self.followers:
            follower(text)
        if self.is_silent or self.followers or not _is_terminal():
            return
        self._drawn = now
        _write(f"{_CLEAR}{f'skyband: {text}'[: shutil.get_terminal_size().columns - 1]}")


def _name_of(happened: Any) -> str | None:
    """Return the kernel's name without the package; None for functions of others."""
    function = getattr(happened.data["dispatcher"], "py_func", None)
    module = getattr(function, "__module__", None) or ""
    if not module.startswith("skyband."):
        return None
    return f"{module.rpartition('.')[2]}.{getattr(function, '__name__', '')}"


def _is_terminal() -> bool:
    with suppress(AttributeError, OSError, ValueError):  # stderr is missing or closed
        return sys.stderr.isatty()
    return False


def _write(text: str) -> None:
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


_LISTENER = _Listener()


def install(kept: bool) -> None:
    """Register for numba's events; `kept` is whether the next process can reuse the compiled code."""
    _LISTENER.later_uses = "." if kept else ", in each process: the code cannot be stored on disk."
    register: Any = event.register  # without types
    register("numba:compile", _LISTENER)


def announce() -> None:
    """Print a line to stderr even if it is not a terminal, for commands."""
    _LISTENER.always = True


def silence() -> None:
    """Do not report compilation in this process, because the caller reports it."""
    _LISTENER.is_silent = True


def at_first_compilation(call: Callable[[], None]) -> None:
    """Call a function when this process begins to compile its first kernel, unless it has."""
    if not _LISTENER.is_reported:
        _LISTENER.at_first.append(call)


@contextmanager
def following(follower: Callable[[str], None]) -> Iterator[None]:
    """Pass the text of the line to `follower` instead of printing it, while the block runs."""
    _LISTENER.followers.append(follower)
    try:
        yield
    finally:
        _LISTENER.followers.remove(follower)


@contextmanager
def waiting(name: str) -> Iterator[Callable[[], None]]:
    """Yield a function to call while the block waits for another process that compiles this kernel."""
    began = perf_counter()
    try:
        yield lambda: _LISTENER.wait(name, began)
    finally:
        _LISTENER.end_wait()


def compiled_kernels() -> int:
    """Number of kernels that this process has compiled; loaded ones are not counted."""
    return _LISTENER.done
