"""One line, where somebody watches, that kernels are being compiled: a first use takes up to half a minute.

On a terminal it goes to stderr. Elsewhere nothing is printed: a program that uses the library finds it in its log,
under ``skyband.kernels`` at level INFO.
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
    """Told by numba when it compiles; loading what was compiled before is not told."""

    def __init__(self) -> None:
        self.said = False
        self.always = False
        self.again = ""

    def on_start(self, started: Any) -> None:
        """Say it once in a process, for a kernel of ours."""
        function = getattr(started.data["dispatcher"], "py_func", None)
        if self.said or not getattr(function, "__module__", "").startswith("skyband."):
            return
        self.said = True
        line = _LINE.format(self.again)
        _LOG.info(line)
        with suppress(AttributeError, OSError, ValueError):  # there is no stderr, or it was closed
            if self.always or sys.stderr.isatty():
                print(line, file=sys.stderr, flush=True)  # noqa: T201 - for who waits at the terminal

    def on_end(self, ended: Any) -> None:
        """Nothing to say."""


_LISTENER = _Listener()


def install(kept: bool) -> None:
    """Listen to numba; `kept` says whether the compiled code will be found by the next process."""
    _LISTENER.again = ", and later ones none." if kept else " in each process: nothing can be kept on disk."
    register: Any = event.register  # without types
    register("numba:compile", _LISTENER)


def announce() -> None:
    """Say it on stderr also where that is no terminal: a command's user waits."""
    _LISTENER.always = True


def silence() -> None:
    """Do not say it in this process: it has been said in other words."""
    _LISTENER.said = True
