"""Report that kernels are being compiled, because a first use takes up to half a minute.

On a terminal, one line is printed to stderr. Elsewhere nothing is printed. The line is always logged by the logger
``skyband.kernels`` at level INFO.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any

from numba.core import event

__all__ = ["announce", "install", "silence"]

_LOG = logging.getLogger("skyband.kernels")
_LINE = "skyband: compiling kernels; the first use takes up to half a minute{}"


class _Listener(event.Listener):
    """Receives numba's compile events; loading a cached kernel causes none."""

    def __init__(self) -> None:
        self.is_reported = False
        self.always = False
        self.later_uses = ""

    def on_start(self, started: Any) -> None:
        """Report the first compilation of a Skyband kernel in this process."""
        function = getattr(started.data["dispatcher"], "py_func", None)
        if self.is_reported or not getattr(function, "__module__", "").startswith("skyband."):
            return
        self.is_reported = True
        line = _LINE.format(self.later_uses)
        _LOG.info(line)
        with suppress(AttributeError, OSError, ValueError):  # stderr is missing or closed
            if self.always or sys.stderr.isatty():
                print(line, file=sys.stderr, flush=True)  # noqa: T201 - for the user at the terminal

    def on_end(self, ended: Any) -> None:
        """Ignore the end of a compilation."""


_LISTENER = _Listener()


def install(kept: bool) -> None:
    """Register for numba's events; `kept` is whether the next process can reuse the compiled code."""
    _LISTENER.later_uses = (
        ", later uses start at once." if kept else " in each process: the code cannot be stored on disk."
    )
    register: Any = event.register  # without types
    register("numba:compile", _LISTENER)


def announce() -> None:
    """Print the line to stderr even if it is not a terminal, for commands."""
    _LISTENER.always = True


def silence() -> None:
    """Do not report compilation in this process, because the caller reports it."""
    _LISTENER.is_reported = True
